"""How old the rows of a store are, by the time that the site has run since they were written.

No clock is asked. A machine may begin in another year until its clock is set: then all rows would
be too old at once, or young for ever. And a site that was down for a week would drop what a reader
has yet to read before the reader can come back.
"""

from time import monotonic_ns
from typing import NamedTuple

import msgspec

_LEAST_NS, _MOST_NS = 1_000_000, 60_000_000_000  # between two marks
_PART = 16  # an age is exact to so small a part of it


class _Mark(NamedTuple):
    """The rows before `n` were written when the site had run for `ran` nanoseconds, or before."""

    n: int
    ran: int


_decode = msgspec.msgpack.Decoder(tuple[int, tuple[tuple[int, int], ...]]).decode
_encode = msgspec.msgpack.Encoder().encode


class RowAges:
    """`kept`: what `note` gave last, before this start. `following`: the next row. `shortest`: the
    shortest age that is asked for."""

    def __init__(self, kept: bytes, following: int, shortest: int) -> None:
        self._ran, marks = _decode(kept) if kept else (0, ())
        self._begun = monotonic_ns()
        self._marks = [_Mark(*mark) for mark in marks]
        self._pause = min(max(shortest // (4 * _PART), _LEAST_NS), _MOST_NS)
        self._noted = self._ran
        self._mark(following, self._ran)

    def note(self, following: int) -> bytes:
        """What to store now; empty: nothing. Call this often."""
        now = self._now()
        if now - self._noted < self._pause:
            return b""
        self._noted = now
        self._mark(following, now)
        return _encode((now, self._marks))

    def before(self, age: int) -> int:
        """The rows before this one are of this age, or older."""
        latest = self._now() - age
        return max((mark.n for mark in self._marks if mark.ran <= latest), default=0)

    def age(self, n: int) -> int:
        """How old this row is at least."""
        ran = next((mark.ran for mark in self._marks if mark.n > n), None)
        return 0 if ran is None else self._now() - ran

    def _now(self) -> int:
        return self._ran + monotonic_ns() - self._begun

    def _mark(self, following: int, now: int) -> None:
        """Add a mark, and keep few: the older they are, the farther apart."""
        kept: list[_Mark] = []
        for mark in self._marks:
            while len(kept) > 1 and _PART * (mark.ran - kept[-2].ran) <= now - mark.ran:
                kept.pop()
            kept.append(mark)
        if not kept or following > kept[-1].n:
            kept.append(_Mark(following, now))
        self._marks = kept
