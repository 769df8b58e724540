"""The events of a store: the openings of epochs, rollbacks, and which of them a reader is told.

An event is (kind, position, detail); the kinds are those of a history, `ABSENT` and `ENTERED`. The
details are JSON. The lists of openings and rollbacks say what a reader of the ordered log has yet
to hear.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.history.rows import OPEN, ROLLBACK
from ordercast.model.groups import Group
from ordercast.model.messages import MessageId

ABSENT = "absent"  # the absent sites, and the absent members of the open epochs' groups
ENTERED = "entered"  # the groups that began with an epoch, or that a site came into
ENTRIES_KEPT = 4  # epochs of a group whose state a joiner may ask for
ENTRIES_MOST = 64  # of groups that the site has left, at least
OPENED_GROUPS = 4_096  # of all openings in memory together; the last opening is there in any case
_OPENING_FIELDS = EpochOpened.__struct_fields__

Openings: TypeAlias = tuple[list[EpochOpened], bool]
"""Some openings, and whether they are all."""

_LAST_ROLLBACKS = 20  # shown to an operator


def opening_event(opened: EpochOpened) -> tuple[str, int, str]:
    fields = {name: getattr(opened, name) for name in _OPENING_FIELDS if name != "position"}
    return OPEN, opened.position, json.dumps(fields, separators=(",", ":"))


def parse_opening(position: int, detail: str) -> EpochOpened:
    fields = json.loads(detail)
    values = [position if name == "position" else fields[name] for name in _OPENING_FIELDS]
    return msgspec.convert(values, EpochOpened)


def first_openings(rows: Iterable[tuple[int, int, str]], after: int = 0) -> Openings:
    """The first openings of rows (n, position, detail) that are later than epoch `after`, each
    once; those with `OPENED_GROUPS` groups together, or one. One row is parsed at a time."""
    found: dict[int, EpochOpened] = {}
    groups = 0
    for _, position, detail in rows:
        opened = parse_opening(position, detail)
        if opened.epoch <= after or opened.epoch in found:
            continue
        groups += len(opened.members)
        if found and groups > OPENED_GROUPS:
            return list(found.values()), False
        found[opened.epoch] = opened
    return list(found.values()), True


def enters(opened: EpochOpened) -> list[Group]:
    """The groups of this site that began with the epoch, or that a site came into."""
    came = dict.fromkeys(opened.joined)
    came.update(dict.fromkeys(group for group, _ in opened.arrived))
    return [group for group in opened.groups if group in came] if came else []


def entry_of(opened: EpochOpened) -> EpochOpened | None:
    """What sites that ask for a group's state need of an opening. It stays longer than the opening.
    None: no site came into a group of this site."""
    groups = enters(opened)
    if not groups:
        return None
    members, arrived = dict(opened.members), dict(opened.arrived)
    return replace(
        opened,
        groups=tuple(groups),
        joined=(),
        members=tuple((group, members[group]) for group in groups),
        arrived=tuple((group, arrived[group]) for group in groups if group in arrived),
    )


def opening_events(opened: EpochOpened) -> list[tuple[str, int, str]]:
    """The event of an opening; before it, the event of its entry, if it has one."""
    entry, event = entry_of(opened), opening_event(opened)
    return [event] if entry is None else [(ENTERED, *opening_event(entry)[1:]), event]


def needed_entries(
    newest_first: Iterable[tuple[int, int, str]], mine: frozenset[Group] | None = None
) -> Iterator[tuple[int, EpochOpened]]:
    """Of rows (n, position, detail), those that are among the last of a group, each with only the
    groups of which it is. `mine`: the groups of this site; of others, only the last entries of all
    are needed. One row is parsed at a time."""
    seen: dict[Group, int] = {}
    for age, (n, position, detail) in enumerate(newest_first):
        entry = parse_opening(position, detail)
        needed: dict[Group, None] = {}
        for group in entry.groups:
            seen[group] = seen.get(group, 0) + 1
            late = mine is not None and group not in mine and age >= ENTRIES_MOST
            if seen[group] <= ENTRIES_KEPT and not late:
                needed[group] = None
        if needed:
            yield n, _only(entry, needed)


def _only(entry: EpochOpened, groups: Mapping[Group, None]) -> EpochOpened:
    if len(groups) == len(entry.groups):
        return entry
    return replace(
        entry,
        groups=tuple(groups),
        members=tuple(pair for pair in entry.members if pair[0] in groups),
        arrived=tuple(pair for pair in entry.arrived if pair[0] in groups),
    )


def rollback_event(rolled: Rollback) -> tuple[str, int, str]:
    fields = {"attempt": rolled.attempt, "epoch": rolled.epoch, "annulled": rolled.annulled}
    return ROLLBACK, rolled.position, json.dumps(fields, separators=(",", ":"))


def parse_rollback(position: int, detail: str) -> Rollback:
    fields = json.loads(detail)
    annulled = tuple((at, MessageId(*message)) for at, message in fields["annulled"])
    return Rollback(position, fields["attempt"], fields["epoch"], annulled)


def founding_facts(layout: Layout) -> list[dict[str, Any]]:
    """The epochs that a cluster was founded with, for `Store.describe`. No event tells their
    opening."""
    return [
        {
            "epoch": epoch,
            "protocol": domain.protocol,
            "builder": domain.builder,
            "members": {group: list(sites) for group, sites in domain.structure.groups.items()},
        }
        for epoch, domain in layout.domains.items()
    ]


class OpenedEpochs:
    """The last epochs that a site opened, in order: epochs grow, positions do not shrink. `stored`:
    the store has the earlier ones. Every opening at position `whole_from` or later is here; without
    a store, every one that is needed (`forget_before`)."""

    def __init__(self, opened: Iterable[EpochOpened] = (), *, stored: bool = False) -> None:
        self.opened = list(opened)
        self._stored = stored
        self._size = sum(len(one.members) for one in self.opened)
        self.last = self.opened[-1].epoch if self.opened else 0
        self.whole_from = self.opened[0].position + 1 if stored and self.opened else 0
        self._let_go()

    def add(self, opened: EpochOpened) -> bool:
        """Add an opening. Returns whether it is new: a restart repeats openings that the store
        has."""
        if opened.epoch <= self.last:
            return False
        self.opened.append(opened)
        self._size += len(opened.members)
        self.last = opened.epoch
        self._let_go()
        return True

    def _let_go(self) -> None:
        """Drop the oldest ones that are in the store. Without a store, drop one where nothing was
        delivered and no site came into a group of this one: a late reader is told the next."""
        while self._size > OPENED_GROUPS and len(self.opened) > 1:
            at = 0 if self._stored else _idle_opening(self.opened)
            if at is None:
                return
            gone = self._drop(at)
            if self._stored:
                self.whole_from = gone.position + 1

    def forget_before(self, position: int) -> None:
        """Nobody can read what was delivered at or before this position."""
        while len(self.opened) > 1 and self.opened[0].position < position:
            self._drop(0)

    def _drop(self, at: int) -> EpochOpened:
        gone = self.opened.pop(at)
        self._size -= len(gone.members)
        return gone

    def seen_by(self, read: int) -> int:
        """The last epoch here that opened before position `read` was delivered. A reader that goes
        on after `read` is told the later ones, and those that opened exactly there."""
        for opened in reversed(self.opened):
            if opened.position < read:
                return opened.epoch
        return 0

    def has_more(self, epoch: int, read: int) -> bool:
        """Whether there are openings to tell a reader that knows `epoch` and has read up to
        position `read`."""
        return self.last > epoch and self.opened[-1].position >= read

    def after(self, epoch: int, read: int) -> list[EpochOpened]:
        """The openings to tell such a reader. An epoch that opened before `read` is not told: the
        reader began further on."""
        return [o for o in self.opened if o.epoch > epoch and o.position >= read]


def _idle_opening(opened: list[EpochOpened]) -> int | None:
    for at, (one, after) in enumerate(pairwise(opened)):
        if one.position == after.position and not enters(one):
            return at
    return None


class Entrances:
    """Of each group of a site, the last epochs in which it began or a site came into it: joiners
    ask for its state there. A group that the site has left stays for a while, because a joiner may
    be late."""

    def __init__(self, entries: Iterable[EpochOpened] = ()) -> None:
        self._of: dict[Group, dict[int, EpochOpened]] = {}
        for entry in entries:
            self._add(entry)

    def add(self, opened: EpochOpened) -> None:
        entry = entry_of(opened)
        if entry is not None:
            self._add(entry)
        if len(self._of) > 2 * len(opened.groups) + ENTRIES_MOST:
            self._of = {g: self._of[g] for g in opened.groups if g in self._of}

    def _add(self, entry: EpochOpened) -> None:
        for group in entry.groups:
            epochs = self._of.setdefault(group, {})
            epochs[entry.epoch] = entry
            if len(epochs) > ENTRIES_KEPT:
                del epochs[min(epochs)]

    def of(self, epoch: int, group: Group) -> EpochOpened | None:
        return self._of.get(group, {}).get(epoch)


class RollbackLog:
    """The rollbacks of a site ([GS] §5.2.1), in order: attempts grow, positions need not.

    A reader knows the last attempt whose rollback it was told. It is told the next rollback when it
    has read up to the rollback's position or further: then it was given deliveries that are
    annulled.
    """

    def __init__(self, rolled: Iterable[Rollback] = ()) -> None:
        self._rolled = list(rolled)
        self.last = self._rolled[-1].attempt if self._rolled else 1

    def add(self, rolled: Rollback) -> bool:
        """Add a rollback. Returns whether it is new: a restart repeats rollbacks that the store
        has."""
        if rolled.attempt <= self.last:
            return False
        self._rolled.append(rolled)
        self.last = rolled.attempt
        return True

    def latest(self) -> list[tuple[int, int]]:
        """(attempt, position) of the last rollbacks."""
        return [(one.attempt, one.position) for one in self._rolled[-_LAST_ROLLBACKS:]]

    def seen_by(self, read: int) -> int:
        """The attempt of the delivery at a position. A reader that goes on after it is told the
        later rollbacks, and one to exactly this position."""
        return max((one.attempt for one in self._rolled if one.position < read), default=1)

    def due(self, attempt: int, read: int) -> Rollback | None:
        """The rollback to tell now to a reader that knows `attempt` and has read up to `read`."""
        if attempt == self.last:  # the common case
            return None
        for one in self._rolled:
            if one.attempt > attempt and one.position <= read:
                return one
        return None

    def limit(self, attempt: int) -> int | None:
        """The last position that still stands of the deliveries in this attempt. None: all
        stand."""
        return min((one.position for one in self._rolled if one.attempt > attempt), default=None)
