"""The body of a batch: its payloads, alone or in an envelope.

An envelope says more of the messages than their payloads: when they were sent, their headers, and
the groups that they were addressed to. The two forms differ in their first byte: payloads alone are
an array, an envelope is a map. So a reader needs to know nothing but the body (docs/wire.md).
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Packed, check_named_group
from ordercast.model.groups import Group
from ordercast.model.headers import PER_HEADER, HeaderItems, fault_in, header_bytes
from ordercast.model.limits import BATCH_MESSAGES, LARGEST_NUMBER, MEMBERS, MESSAGE_HEADERS

PER_RUN: Final = 16  # the most bytes that packing adds to the headers of a run
PER_GROUP: Final = 5  # and to the name of a group, and once to all of them


class HeaderRun(Packed, frozen=True):
    """The headers that `count` messages of a batch have in common; the first of them is at place
    `first`, from 0."""

    first: Annotated[int, Meta(ge=0, lt=BATCH_MESSAGES)]
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    items: Annotated[HeaderItems, Meta(min_length=1, max_length=MESSAGE_HEADERS)]

    def size(self) -> int:
        """The bytes of it in a body, at most."""
        return PER_RUN + PER_HEADER * len(self.items) + header_bytes(self.items)


HeaderRuns: TypeAlias = tuple[HeaderRun, ...]
"""The headers of a batch. Messages that no run covers have none."""


class Envelope(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
    rename={"payloads": "p", "sent_ns": "t", "headers": "h", "groups": "g"},
):
    """`sent_ns`: the clock of the origin when it took the messages, in nanoseconds since 1970;
    0: not known. `groups`: of a send to several groups."""

    payloads: list[bytes]
    sent_ns: Natural = 0
    headers: HeaderRuns = ()
    groups: Annotated[tuple[Group, ...], Meta(max_length=MEMBERS)] = ()

    def check(self, *, listed: bool) -> None:
        """Raise FrameError unless headers and groups keep the rules. `listed`: the batch goes to
        listed sites, as a send to several groups does."""
        if self.headers:
            self._check_headers()
        if self.groups:
            if not listed:
                raise FrameError("body.groups: the batch goes to one group")
            if len(set(self.groups)) != len(self.groups):
                raise FrameError("body.groups: one of them stands there twice")
            for group in self.groups:
                check_named_group(group, "body.groups")

    def _check_headers(self) -> None:
        after = 0
        for run in self.headers:
            if run.first < after:
                raise FrameError(f"body.headers: a run at {run.first} begins before {after}")
            after = run.first + run.count
            fault = fault_in(run.items)
            if fault:
                raise FrameError(f"body.headers: {fault}")
        if after > len(self.payloads):
            raise FrameError(
                f"body.headers are of {after:,} messages, the batch has {len(self.payloads):,}"
            )

    def items(self) -> list[HeaderItems]:
        """The headers of each message."""
        found: list[HeaderItems] = [()] * len(self.payloads)
        for run in self.headers:
            found[run.first : run.first + run.count] = [run.items] * run.count
        return found

    def part(self, first: int, end: int) -> "Envelope":
        """The envelope of the messages from place `first` to before `end`."""
        runs = []
        for run in self.headers:
            begin, stop = max(run.first, first), min(run.first + run.count, end)
            if begin < stop:
                runs.append(HeaderRun(begin - first, stop - begin, run.items))
        return Envelope(self.payloads[first:end], self.sent_ns, tuple(runs), self.groups)


_pack = msgspec.msgpack.Encoder().encode
_unpack: Callable[[bytes], list[bytes] | Envelope] = msgspec.msgpack.Decoder(
    list[bytes] | Envelope
).decode


def pack_envelope(envelope: Envelope) -> bytes:
    return _pack(envelope)


def unpack_body(body: bytes) -> list[bytes] | Envelope:
    """The payloads, or the envelope with them; FrameError when the bytes are neither. The rules of
    `Envelope.check` are not checked here."""
    try:
        return _unpack(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"body is not a list of payloads: {error}") from None


def body_part(body: bytes, first: int, end: int) -> bytes:
    """The body of the messages from place `first` to before `end`."""
    found = unpack_body(body)
    return _pack(found.part(first, end) if isinstance(found, Envelope) else found[first:end])


def envelope_bytes(headers: HeaderRuns, groups: Sequence[Group]) -> int:
    """The bytes that headers and groups add to a body, at most."""
    size = sum(run.size() for run in headers)
    return size + sum(len(group) + PER_GROUP for group in groups) + PER_GROUP * bool(groups)


def bounded_time(sent_ns: int) -> int:
    """A clock that is set wrong may say anything; an envelope takes from 0 to `LARGEST_NUMBER`."""
    return min(max(sent_ns, 0), LARGEST_NUMBER)
