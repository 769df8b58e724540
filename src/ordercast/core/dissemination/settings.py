"""Limits and times of a stream: a bound on everything that can grow. Times are nanoseconds."""

from dataclasses import dataclass

from ordercast.model.options import MILLISECOND, SECOND


@dataclass(frozen=True, slots=True)
class StreamLimits:
    piece_bytes: int = 1_360  # of a packet, in one datagram
    packet_bytes: int = 2_097_152  # a larger one goes by unicast
    kept_pieces: int = 4_096  # of our own, to repair from
    others_pieces: int = 512  # of each other stream, for the same
    early_pieces: int = 1_024  # ahead of a hole
    queued_pieces: int = 4_096  # not sent yet: above it the engine is told to wait
    asked_pieces: int = 256  # in one PieceRequest
    burst_pieces: int = 64  # at once,
    pieces_per_s: int = 32_000  # and on average
    repair_burst: int = 64
    repairs_per_s: int = 8_000


@dataclass(frozen=True, slots=True)
class StreamTimes:
    ask_after: int = 2 * MILLISECOND  # a hole is seen: it may only be late
    ask_spread: int = 6 * MILLISECOND  # by site: the others hear the first who asks
    ask_again: int = 20 * MILLISECOND  # doubles
    ask_at_most: int = 160 * MILLISECOND
    asks: int = 20  # without an answer; then it is left to the links
    answer_after: int = 4 * MILLISECOND  # of who is not the origin, which answers at once
    answer_spread: int = 12 * MILLISECOND
    answer_again: int = 5 * MILLISECOND  # the same piece
    beat_least: int = 5 * MILLISECOND  # after the last piece; doubles
    beat_most: int = 500 * MILLISECOND
    heard_every: int = 400 * MILLISECOND
    reached_for: int = 2 * SECOND  # after a peer said that it hears us


class Bucket:
    """Lets so many pass at once, and so many in a second."""

    __slots__ = ("_at", "_burst", "_left", "_step")

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = self._left = burst
        self._step = SECOND // per_s  # nanoseconds for one
        self._at = 0

    def take(self, now: int) -> bool:
        self._fill(now)
        if not self._left:
            return False
        self._left -= 1
        return True

    def _fill(self, now: int) -> None:
        gained = (now - self._at) // self._step
        if gained > 0:
            self._left = min(self._burst, self._left + gained)
            self._at += gained * self._step

    def next_at(self) -> int:
        """When there is room again, a quarter of a burst at a time: timers are coarse."""
        return self._at + self._step * max(1, self._burst // 4 - self._left)
