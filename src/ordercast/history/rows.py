"""The rows of a history and the history in memory; nothing here needs pyarrow.

A row's fields are the columns of its table, in the same order (docs/history.md says what each one
means). The simulator and the store's export append rows to a `History`; the checkers read it.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group
from ordercast.model.headers import HeaderItems
from ordercast.model.messages import MessageId
from ordercast.model.names import nearest

SCHEMA_VERSION = 1
CLOCKS = ("virtual", "utc")

BASE = "base"
CRASH = "crash"
RESTART = "restart"
ROLLBACK = "rollback"
EXCLUDED = "excluded"
RETURNED = "returned"
GAP = "gap"
DROPPED = "dropped"
OPEN = "open"
END = "end"
DUPLICATE, EXPIRED, FENCED = OUTCOMES = ("duplicate", "expired", "fenced")
"""Why a message was dropped."""

KINDS = (BASE, CRASH, RESTART, ROLLBACK, EXCLUDED, RETURNED, GAP, DROPPED, OPEN, END)

PRODUCER_CLIENT = "producer/"
"""The `client` of a producer's messages, before the number of its ticket."""
ID_CLIENT = "id/"
"""The `client` of messages with ids of their senders' own, before a digest of sender and id."""
ONCE_CLIENT = "once/"
"""The `client` of requests that the group recognises, before a digest of the client's id."""
REPEATING = (PRODUCER_CLIENT, ID_CLIENT, ONCE_CLIENT)
"""The beginnings of `client` where copies may be sent, of which one is delivered."""


class GroupRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A nominal member of a group in an epoch; not `live`: excluded in that epoch."""

    epoch: int
    group_name: str
    site: str
    live: bool = True
    run: str | None = None


class Sent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An accepted message. (after_position, after_attempt) is the last delivery of its origin at
    that time. If a client of a daemon sent it: `client`, its `request`, and the `part` of that
    request. `headers` and `addressed`: as `shown_headers` and `shown_groups` write them."""

    origin: str
    incarnation: int
    group_name: str
    seq: int
    after_position: int
    after_attempt: int
    sent_ns: int
    size: int
    digest: int | None = None
    run: str | None = None
    client: str | None = None
    request: int | None = None
    part: int | None = None
    headers: str | None = None
    addressed: str | None = None

    @property
    def id(self) -> MessageId:
        return MessageId(self.origin, self.incarnation, self.group_name, self.seq)


class Delivered(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message handed to the application at a site. `sent_ns`: the clock of its origin, as the
    message says it."""

    site: str
    position: int
    attempt: int
    epoch: int
    group_name: str
    origin: str
    incarnation: int
    seq: int
    delivered_ns: int
    digest: int | None = None
    order_key: bytes | None = None
    run: str | None = None
    client: str | None = None
    request: int | None = None
    part: int | None = None
    sent_ns: int | None = None
    headers: str | None = None
    addressed: str | None = None

    @property
    def id(self) -> MessageId:
        return MessageId(self.origin, self.incarnation, self.group_name, self.seq)


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What happened to a site; `n` orders the events of one site."""

    site: str
    n: int
    kind: str
    position: int
    attempt: int
    epoch: int
    at_ns: int
    detail: str = "{}"
    run: str | None = None


class EpochRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    epoch: int
    domain: str
    deliver: str
    on_failure: str
    protocol: str
    reason: str
    decided_ns: int
    run: str | None = None


Row: TypeAlias = GroupRow | Sent | Delivered | Event | EpochRow


class Meta(msgspec.Struct, frozen=True):
    """What `meta.json` holds: where a history comes from."""

    schema_version: int = SCHEMA_VERSION
    code_version: str = ""
    config: dict[str, Any] = {}
    seed: int | None = None
    clock: str = "virtual"


@dataclass(slots=True)
class History:
    """The five tables in memory, in any order of rows."""

    groups: list[GroupRow] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    deliveries: list[Delivered] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    epochs: list[EpochRow] = field(default_factory=list)
    meta: Meta = field(default_factory=Meta)

    def tables(self) -> dict[str, Sequence[Row]]:
        return {
            "groups": self.groups,
            "sent": self.sent,
            "deliveries": self.deliveries,
            "events": self.events,
            "epochs": self.epochs,
        }


def shown_headers(items: HeaderItems) -> str | None:
    """Headers as a column has them: a JSON object of the values in base64; None where there are
    none."""
    if not items:
        return None
    values = {name: b64encode(value).decode("ascii") for name, value in items}
    return json.dumps(values, separators=(",", ":"))


def shown_groups(addressed: Sequence[Group]) -> str | None:
    """The groups that a message to several of them was addressed to, joined by commas."""
    return ",".join(addressed) or None


def gap_detail(message: MessageId) -> str:
    """The `detail` of a gap that stands for `message`."""
    return json.dumps({"message": list(message)}, separators=(",", ":"))


def dropped_detail(message: MessageId, outcome: str = "") -> str:
    """The `detail` of an event that says `message` was dropped. `outcome`: of `OUTCOMES`; "": it is
    not known."""
    said = {"outcome": outcome} if outcome else {}
    return json.dumps({"message": list(message), **said}, separators=(",", ":"))


def dropped_outcome(event: Event, where: str = "events") -> str:
    """Of `OUTCOMES`; "": it is not said."""
    outcome: object = json.loads(event.detail).get("outcome", "")
    if outcome not in ("", *OUTCOMES):
        raise ConfigError(
            f"{where}: {event.kind} {event.n} of site {event.site!r}: field 'outcome':"
            f" {outcome!r} is none of {', '.join(OUTCOMES)}"
        )
    return str(outcome)


def gap_message(event: Event, where: str = "events") -> MessageId:
    """The message that a gap, or a copy that was dropped, names."""
    try:
        named = json.loads(event.detail)["message"]
        return msgspec.convert(named, MessageId)
    except (ValueError, KeyError, TypeError, msgspec.ValidationError):
        raise ConfigError(
            f"{where}: {event.kind} {event.n} of site {event.site!r}: field 'detail':"
            f' {event.detail!r} is not {{"message": [origin, incarnation, group, seq]}}'
        ) from None


def no_request(table: str, field: str) -> ConfigError:
    """The error for a row that names a client, but not what the client asked for."""
    return ConfigError(f"{table}: field {field!r}: null in some row that names a client")


def require_kind(kind: str, where: str) -> None:
    if kind not in KINDS:
        raise ConfigError(
            f"{where}: field 'kind': {kind!r} is not a kind of event{nearest(kind, KINDS)}"
        )
