"""Limits and times of a stream: a bound on everything that can grow. Times are nanoseconds."""

from dataclasses import dataclass

from ordercast.model.options import MILLISECOND, SECOND


@dataclass(frozen=True, slots=True)
class StreamLimits:
    piece_bytes: int = 1_360  # how much of a packet goes into one datagram
    packet_bytes: int = 2_097_152  # a larger one goes by unicast
    kept_pieces: int = 4_096  # own pieces that are kept for repairs
    others_pieces: int = 512  # pieces of each other stream that are kept for repairs
    early_pieces: int = 1_024  # pieces that are kept behind a hole
    queued_pieces: int = 4_096  # pieces not sent yet; from here on the engine waits
    asked_pieces: int = 256  # pieces in one PieceRequest
    burst_pieces: int = 64  # pieces sent at once
    pieces_per_s: int = 32_000  # pieces sent on average
    repair_burst: int = 64  # repairs sent at once
    repairs_per_s: int = 8_000  # repairs sent on average


@dataclass(frozen=True, slots=True)
class StreamTimes:
    ask_after: int = 2 * MILLISECOND  # after a hole is seen: the piece may only be late
    ask_spread: int = 6 * MILLISECOND  # sites wait differently: others hear the first
    ask_again: int = 20 * MILLISECOND  # doubles, up to `ask_at_most`
    ask_at_most: int = 160 * MILLISECOND
    asks: int = 20  # questions without an answer; then the links must repair
    answer_after: int = 4 * MILLISECOND  # of other sites; the origin answers at once
    answer_spread: int = 12 * MILLISECOND
    answer_again: int = 5 * MILLISECOND  # not before this the same piece
    beat_least: int = 5 * MILLISECOND  # after the last piece; doubles, up to `beat_most`
    beat_most: int = 500 * MILLISECOND
    heard_every: int = 400 * MILLISECOND  # how often a receiver tells that it hears
    reached_for: int = 2 * SECOND  # after a peer has told that it hears this site


class Bucket:
    """A rate limit: `burst` at once, and `per_s` in a second."""

    __slots__ = ("_at", "_burst", "_left", "_step")

    def __init__(self, burst: int, per_s: int) -> None:
        self._burst = self._left = burst
        self._step = SECOND // per_s  # nanoseconds for each
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
        """When there is room for a quarter of a burst, not for one alone: timers are coarse."""
        return self._at + self._step * max(1, self._burst // 4 - self._left)
