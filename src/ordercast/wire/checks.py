"""What a decoded frame must satisfy beyond its types: numbers, names, limits, items on their lane.

`check_frame` holds the rules and says in one line which of them is broken.
"""

import re
from collections.abc import Callable, Sized
from typing import Any
from typing import Final as Constant

from ordercast.model.errors import FrameError
from ordercast.model.messages import CLIENT_BYTES, Batch, Key, Placed, Requests, Vector
from ordercast.model.names import NAME_PATTERN
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    LANES,
    UP,
    Ack,
    Acks,
    Final,
    Frame,
    Item,
    Null,
    Offer,
    Proposal,
    Relay,
    Repair,
    Report,
    Rider,
    Settled,
    Submit,
    Timed,
    Wanted,
)
from ordercast.wire.limits import (
    ACKS,
    BATCH_MESSAGES,
    BODY_BYTES,
    ITEMS,
    KEY_PATH,
    LARGEST_NUMBER,
    MEMBERS,
    NAMES_KEPT,
    RIDERS,
    VECTOR_ENTRIES,
)
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.stability import ROUNDS, RoundAck, RoundAsk, RoundInfo, RoundItem, RoundMissing
from ordercast.wire.swap import NOBODY, Count, Counted, Follows, Reached, Swap, Told
from ordercast.wire.tom import Bid, Body, Fetch, MessageName

IMPLICIT_PATTERN = re.compile(r"@[0-9a-f]{16}", re.ASCII)
_RING = (Numbered, Header, Token, Call)
_SWAP = (Swap, Count, Told, Follows, Counted, Reached)
LANE_ITEMS: Constant[dict[int, tuple[type, ...]]] = {
    UP: (Submit, Offer, Timed, Null, Wanted, *_RING, *_SWAP),
    DOWN: (Relay, Proposal, Final),
    CONTROL: (Report, Settled, Body, Bid, Fetch, *ROUNDS),
}
RIDE: Constant[frozenset[type]] = frozenset({Report, Settled, *ROUNDS})
"""What may stand in a frame of another lane."""
_SHOWN = 64  # characters of a wrong value that a message repeats

KNOWN_NAMES: Constant[set[str]] = set()
"""Right names seen lately: asking a set is ten times quicker than matching."""


# --- The rules ----------------------------------------------------------------------------------


def check_frame(frame: Frame) -> None:
    """Raise FrameError, naming the field and its value, unless the frame keeps every rule."""
    check_number(frame.boot, 1, "boot")
    check_number(frame.of, 0, "of")
    if isinstance(frame, Ack):
        _acks(frame.acks)
        return
    if frame.lane not in LANES:
        raise FrameError(f"lane is {frame.lane}, none of {LANES}")
    if isinstance(frame, Repair):
        check_number(frame.first, 1, "first")
        check_number(frame.last, frame.first, "last")
    else:
        _acks(frame.acks)
        check_number(frame.number, 1, "number")
        check_length(frame.items, 1, ITEMS, "items")
        for place, item in enumerate(frame.items):
            _item(item, frame.lane, f"items[{place}]")
        if frame.rider is not None:
            _rider(frame.rider, frame.lane)


def _rider(rider: Rider, lane: int) -> None:
    if lane == CONTROL:
        raise FrameError(f"rider: in a frame of lane {lane}, its own")
    check_number(rider.number, 1, "rider.number")
    check_length(rider.items, 1, RIDERS, "rider.items")
    for place, item in enumerate(rider.items):
        if type(item) not in RIDE:
            raise FrameError(f"rider.items[{place}]: a {type(item).__name__} does not ride")
        ITEM_RULES[type(item)](item, f"rider.items[{place}]")


def _item(item: Item, lane: int, where: str) -> None:
    kind = type(item)
    if kind not in LANE_ITEMS[lane]:
        raise FrameError(f"{where}: a {kind.__name__} does not go on lane {lane}")
    ITEM_RULES[kind](item, where)


def _submit(item: Submit | Body, where: str) -> None:
    _batch(item.batch, where)


def _relay(item: Relay, where: str) -> None:
    check_placed(item.placed, where)


def check_placed(placed: Placed, where: str) -> None:
    _key(placed.key, f"{where}.key")
    check_number(placed.number, 1, f"{where}.number")
    _batch(placed.batch, where)


def _report(item: Report, where: str) -> None:
    check_length(item.counts, 0, VECTOR_ENTRIES, f"{where}.counts")
    for group, logged, settled in item.counts:
        check_group(group, f"{where}.counts")
        check_number(logged, 0, f"{where}.counts: of {group!r}")
        check_number(settled, 0, f"{where}.counts: of {group!r}")


def _settled(item: Settled, where: str) -> None:
    check_length(item.seqs, 0, VECTOR_ENTRIES, f"{where}.seqs")
    for group, seq in item.seqs:
        check_group(group, f"{where}.seqs")
        check_number(seq, 0, f"{where}.seqs: of {group!r}")


def _with_clock(item: Offer | Timed, where: str) -> None:
    _batch(item.batch, where)
    check_number(item.clock, 0, f"{where}.clock")


def _numbered(item: Proposal | Final, where: str) -> None:
    check_number(item.incarnation, 0, f"{where}.incarnation")
    check_group(item.group, f"{where}.group")
    check_number(item.seq, 1, f"{where}.seq")
    check_number(item.clock, 1, f"{where}.clock")
    if type(item) is Final:
        check_site(item.site, f"{where}.site")


def _timestamp(item: Null | Wanted, where: str) -> None:
    check_number(item.clock, 1, f"{where}.clock")
    if type(item) is Wanted:
        check_site(item.site, f"{where}.site")


def _bid(item: Bid, where: str) -> None:
    _name(item.origin, item.incarnation, item.group, item.seq, where)
    check_site(item.to, f"{where}.to")


def _fetch(item: Fetch, where: str) -> None:
    check_length(item.wanted, 1, ITEMS, f"{where}.wanted")
    for name in item.wanted:
        _name(*name, f"{where}.wanted")


def _round(item: RoundItem, where: str) -> None:
    check_number(item.round, 0 if type(item) is RoundAsk else 1, f"{where}.round")
    if isinstance(item, RoundMissing):
        check_length(item.sites, 0, MEMBERS, f"{where}.sites")
        for site in item.sites:
            check_site(site, f"{where}.sites")
    elif isinstance(item, (RoundAck, RoundInfo)):
        check_number(item.base, 0, f"{where}.base")
        check_length(item.counts, 0, VECTOR_ENTRIES, f"{where}.counts")
        for group, logged, settled, members, slowest in item.counts:
            check_group(group, f"{where}.counts")
            check_number(logged, 0, f"{where}.counts: of {group!r}")
            check_number(settled, 0, f"{where}.counts: of {group!r}")
            check_number(members, 1, f"{where}.counts: members of {group!r}")
            check_site(slowest, f"{where}.counts: of {group!r}")


def _given(item: Numbered | Header, where: str) -> None:
    check_number(item.number, 1, f"{where}.number")
    if type(item) is Numbered:
        _batch(item.batch, where)


def _token(item: Token, where: str) -> None:
    check_number(item.turn, 1, f"{where}.turn")
    for name in ("number", "floor", "least", "idle"):
        check_number(getattr(item, name), 0, f"{where}.{name}")
    check_length(item.missing, 0, VECTOR_ENTRIES, f"{where}.missing")
    for site, first, last in item.missing:
        check_site(site, f"{where}.missing")
        check_number(first, 1, f"{where}.missing: first")
        check_number(last, first, f"{where}.missing: last")


def _call(item: Call, where: str) -> None:
    check_number(item.turn, 0, f"{where}.turn")


def _name(origin: str, incarnation: int, group: str, seq: int, where: str) -> None:
    check_site(origin, f"{where}.origin")
    check_number(incarnation, 0, f"{where}.incarnation")
    check_group(group, f"{where}.group")
    check_number(seq, 1, f"{where}.seq")


def _swap(item: Swap, where: str) -> None:
    check_number(item.number, 1, f"{where}.number")
    _batch(item.batch, where)
    _name(*item.last, f"{where}.last")
    check_site(item.issuer, f"{where}.issuer")


def _count(item: Count, where: str) -> None:
    check_number(item.number, 1, f"{where}.number")
    check_number(item.count, 1, f"{where}.count")


def _told(item: Told, where: str) -> None:
    check_number(item.number, 1, f"{where}.number")
    _name_or_nobody(item.name, f"{where}.name")
    check_number(item.value, 1, f"{where}.value")


def _follows(item: Follows, where: str) -> None:
    _batch(item.batch, where)
    _name_or_nobody(item.after, f"{where}.after")


def _counted(item: Counted, where: str) -> None:
    _batch(item.batch, where)
    check_number(item.place, 1, f"{where}.place")


def _reached(item: Reached, where: str) -> None:
    check_number(item.place, 1, f"{where}.place")


def _name_or_nobody(name: MessageName, where: str) -> None:
    if name != NOBODY:
        _name(*name, where)


ITEM_RULES: Constant[dict[type, Callable[[Any, str], None]]] = {
    Submit: _submit,
    Relay: _relay,
    Report: _report,
    Settled: _settled,
    Offer: _with_clock,
    Timed: _with_clock,
    Proposal: _numbered,
    Final: _numbered,
    Null: _timestamp,
    Wanted: _timestamp,
    Body: _submit,
    Bid: _bid,
    Fetch: _fetch,
    **dict.fromkeys(ROUNDS, _round),
    Numbered: _given,
    Header: _given,
    Token: _token,
    Call: _call,
    Swap: _swap,
    Count: _count,
    Told: _told,
    Follows: _follows,
    Counted: _counted,
    Reached: _reached,
}


def _batch(batch: Batch, where: str) -> None:
    check_site(batch.origin, f"{where}.origin")
    # None but the Close of an epoch, which goes to listed sites, is of no incarnation.
    check_number(batch.incarnation, 0 if batch.members else 1, f"{where}.incarnation")
    _group(batch.group, batch.members, where)
    check_number(batch.seq, 1, f"{where}.seq")
    if not 0 < batch.count <= BATCH_MESSAGES:
        raise FrameError(f"{where}.count is {batch.count}, not 1 to {BATCH_MESSAGES}")
    if len(batch.body) > BODY_BYTES:
        raise FrameError(f"{where}.body has {len(batch.body)} bytes, at most {BODY_BYTES}")
    if batch.past:
        _vector(batch.past, f"{where}.past")
    if batch.requests is not None:
        _requests(batch.requests, batch.count, f"{where}.requests")


def _requests(requests: Requests, messages: int, where: str) -> None:
    if len(requests.client) != CLIENT_BYTES:
        raise FrameError(f"{where}.client has {len(requests.client)} bytes, not {CLIENT_BYTES}")
    check_length(requests.numbers, 1, BATCH_MESSAGES, f"{where}.numbers")
    before = left = 0
    for number, count in requests.numbers:
        check_number(number, before + 1, f"{where}.numbers: number")
        check_number(count, 1, f"{where}.numbers: count of {number}")
        before, left = number, left + count
    if left != messages:
        raise FrameError(f"{where}.numbers have {left} messages, the batch {messages}")


def _vector(past: Vector, where: str) -> None:
    check_length(past, 0, VECTOR_ENTRIES, where)
    for group, number, members in past:
        if members or group not in KNOWN_NAMES or not 0 < number <= LARGEST_NUMBER:
            _group(group, members, where)
            check_number(number, 1, f"{where}: number of {group!r}")


def _key(key: Key, where: str) -> None:
    check_length(key.path, 1, KEY_PATH, f"{where}.path")
    check_site(key.site, f"{where}.site")


def _acks(acks: Acks) -> None:
    check_length(acks, 0, ACKS, "acks")
    for lane, got, done in acks:
        if lane not in LANES:
            raise FrameError(f"acks: lane is {lane}, none of {LANES}")
        check_number(done, 0, "acks: done")
        check_number(got, done, "acks: got")


def check_number(value: int, least: int, where: str) -> None:
    if not least <= value <= LARGEST_NUMBER:
        raise FrameError(f"{where} is {value}, not {least} to {LARGEST_NUMBER}")


def check_length(value: Sized, least: int, most: int, where: str) -> None:
    if not least <= len(value) <= most:
        raise FrameError(f"{where} has {len(value)} entries, not {least} to {most}")


# --- Names --------------------------------------------------------------------------------------


def check_site(name: str, where: str) -> None:
    if name not in KNOWN_NAMES and not _is_name(name):
        raise FrameError(f"{where}: {_shown(name)} is not a site's name")


def _group(name: str, members: tuple[str, ...], where: str) -> None:
    """A named group, or with members listed an implicit one."""
    if not members:
        if name not in KNOWN_NAMES and not _is_name(name):
            raise FrameError(f"{where}.group: {_shown(name)} is not a group's name")
        return
    if IMPLICIT_PATTERN.fullmatch(name) is None:
        raise FrameError(f"{where}.group: members are listed, but {_shown(name)} is not implicit")
    check_length(members, 0, MEMBERS, f"{where}.members")
    for member in members:
        check_site(member, f"{where}.members")


def check_group(name: str, where: str) -> None:
    if name not in KNOWN_NAMES and not _is_name(name) and IMPLICIT_PATTERN.fullmatch(name) is None:
        raise FrameError(f"{where}: {_shown(name)} is not a group's name")


def _is_name(name: str) -> bool:
    if NAME_PATTERN.fullmatch(name) is None:
        return False
    if len(KNOWN_NAMES) >= NAMES_KEPT:
        KNOWN_NAMES.clear()
    KNOWN_NAMES.add(name)
    return True


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _SHOWN else repr(name[:_SHOWN]) + "…"
