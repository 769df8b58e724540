"""The producers of a layout: each has a ticket for each group that it sends to. So has the window
of a group that remembers ids (`ID_WINDOW`) or clients (`CLIENT_WINDOW`).

No ticket is given twice. So messages sent under a name before its removal are never taken for
messages sent under the same name later.
"""

from collections.abc import Container, Iterable, Mapping
from typing import TypedDict

from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import (
    CLIENT_WINDOW,
    ID_WINDOW,
    WINDOWS,
    AddProducer,
    Edit,
    RemoveProducer,
)
from ordercast.model.errors import ConfigError, UnknownGroup
from ordercast.model.features import LISTS
from ordercast.model.groups import Group
from ordercast.model.implicit import is_implicit
from ordercast.model.limits import (
    CLIENT_WINDOWS,
    ID_WINDOWS,
    LARGEST_NUMBER,
    LIST_WINDOWS,
    TICKETS,
)
from ordercast.model.messages import MARK_BITS, ticket_in, ticket_of
from ordercast.model.names import is_name, nearest


class Tickets(TypedDict):
    """These fields of a layout."""

    producers: Mapping[tuple[str, Group], int]
    last_ticket: int


def with_tickets(layout: Layout, groups: Container[Group], edits: Iterable[Edit]) -> Tickets:
    """The producers after the edits; `groups`: the groups after them. A producer that is there is
    added without an effect. Raises ConfigError."""
    there = {
        (name, group): ticket
        for (name, group), ticket in layout.producers.items()
        if group in groups or is_implicit(group)
    }
    last = layout.last_ticket
    for edit in edits:
        if isinstance(edit, AddProducer):
            _require_name(edit, there)
            if is_implicit(edit.group):
                if LISTS not in layout.features:
                    raise ConfigError("not all sites have a program that knows lists yet")
            elif edit.group not in groups:
                raise ConfigError(f"there is no group {edit.group!r}")
            if (edit.producer, edit.group) not in there:
                last += 1
                if last >= LARGEST_NUMBER >> MARK_BITS:
                    raise ConfigError(f"{last} tickets were given to producers: there are no more")
                there[edit.producer, edit.group] = last
        elif isinstance(edit, RemoveProducer):
            gone = [
                (name, group)
                for name, group in there
                if name == edit.producer and edit.group in ("", group)
            ]
            if not gone:
                at = f" at group {edit.group!r}" if edit.group else ""
                names = dict.fromkeys(name for name, _ in there)
                hint = "" if edit.producer in names else nearest(edit.producer, names)
                raise ConfigError(f"there is no producer {edit.producer!r}{at}{hint}")
            for pair in gone:
                del there[pair]
    if len(there) > max(TICKETS, len(layout.producers)):
        raise ConfigError(
            f"producers have sent to {len(layout.producers):,} groups, each counted by itself:"
            f" {TICKETS:,} is the limit; remove those that are done (producer remove)"
        )
    for window, most, who, what in (
        (ID_WINDOW, ID_WINDOWS, "groups", "ids"),
        (CLIENT_WINDOW, CLIENT_WINDOWS, "groups", "clients"),
        (CLIENT_WINDOW, LIST_WINDOWS, "lists of sites", "clients"),
    ):
        lists = who != "groups"
        if sum(name == window and is_implicit(group) == lists for name, group in there) > most:
            raise ConfigError(
                f"{most:,} {who} remember {what}, which is the limit: remove one of them"
                f" (producer remove CLUSTER {window} GROUP)"
            )
    return Tickets(producers=there, last_ticket=last)


def require_ticket(layout: Layout, group: Group, client: bytes, number: int) -> None:
    """Raise UnknownGroup if a request is of a producer, or for a window of ids or clients, that was
    removed from the group."""
    if not has_ticket(layout, client, number):
        gone = "producer" if ticket_in(client) else "window"
        raise UnknownGroup(f"the {gone} was removed from group {group!r}")


def has_ticket(layout: Layout, client: bytes, number: int) -> bool:
    """Whether a request needs no ticket, or has one that is not gone."""
    ticket = ticket_of(client, number)
    return not ticket or ticket in layout.producers.values()


def _require_name(edit: AddProducer, there: Iterable[tuple[str, Group]]) -> None:
    if edit.producer in WINDOWS:
        return
    if not is_name(edit.producer):
        raise ConfigError(f"producer {edit.producer!r} is no name (letters, digits, '.', '_', '-')")
    for name, _ in there:  # names differ by more than case
        if name != edit.producer and name.lower() == edit.producer.lower():
            raise ConfigError(f"producer {name!r} is there already")
