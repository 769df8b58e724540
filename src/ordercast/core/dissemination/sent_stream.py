"""The stream of one site: packets cut into numbered pieces, kept for repair, sent at a pace.

Answers to sites that ask for pieces go first, at a rate of their own. Beats tell the last number:
soon after the last piece, and then less and less often. So the loss of the last piece is noticed
too. Beats never end: by them receivers know that the stream reaches them.
"""

from collections import Counter, deque

from ordercast.core.dissemination.settings import Bucket, StreamLimits, StreamTimes
from ordercast.model.options import NEVER
from ordercast.wire.datagrams import Beat, Datagram, Piece


class SentStream:
    def __init__(
        self, stream: int, limits: StreamLimits, times: StreamTimes, counts: Counter[str]
    ) -> None:
        self.stream = stream
        self.last = 0  # the number of the last piece
        self.sent = 0  # the number of the last piece that was sent
        self._limits = limits
        self._times = times
        self._counts = counts
        self._kept: deque[Piece] = deque()  # the pieces up to `last`, sent or not
        self._again: dict[int, None] = {}  # numbers to be sent again
        self._answered: dict[int, int] = {}  # number -> when the piece was sent again
        self._pace = Bucket(limits.burst_pieces, limits.pieces_per_s)
        self._repairs = Bucket(limits.repair_burst, limits.repairs_per_s)
        self._serial = 0
        self._beat_at = 0
        self._beat_after = times.beat_least

    @property
    def waiting(self) -> int:
        return self.last - self.sent

    @property
    def oldest(self) -> int:
        return self.last - len(self._kept) + 1

    def serial(self) -> int:
        """The serial of the next datagram that is not a piece."""
        self._serial += 1
        return self._serial

    def push(self, packet: bytes) -> None:
        size = self._limits.piece_bytes
        starts = range(0, max(1, len(packet)), size)
        for start in starts:
            self.last += 1
            body = packet[start : start + size]
            ends = start + size >= len(packet)
            self._kept.append(Piece(self.stream, self.last, start == 0, ends, body))
        self._let_go()

    def _let_go(self) -> None:
        """Forget the oldest pieces, if they were sent. Pieces not yet sent are bounded by the
        windows of the links."""
        while len(self._kept) > self._limits.kept_pieces and self.oldest <= self.sent:
            gone = self._kept.popleft()
            self._again.pop(gone.number, None)
            self._answered.pop(gone.number, None)

    def asked(self, now: int, holes: tuple[tuple[int, int], ...]) -> None:
        """A site asks for these pieces."""
        left = self._limits.asked_pieces
        for first, count in holes:
            for number in range(max(first, self.oldest), min(first + count, self.sent + 1)):
                if not left:
                    return
                left -= 1
                if now - self._answered.get(number, -NEVER) >= self._times.answer_again:
                    self._again[number] = None
                else:
                    self._counts["answers_spared"] += 1

    def flush(self, now: int, out: list[Datagram]) -> None:
        first = self.oldest
        while self._again and self._repairs.take(now):
            number = next(iter(self._again))
            del self._again[number]
            self._answered[number] = now
            out.append(self._kept[number - first])
            self._counts["repairs_sent"] += 1
        while self.sent < self.last and self._pace.take(now):
            self.sent += 1
            out.append(self._kept[self.sent - first])
            self._counts["pieces_sent"] += 1
            self._beat_after = self._times.beat_least
            self._beat_at = now + self._beat_after
        self._let_go()
        if self._beat_at <= now:
            out.append(Beat(self.stream, self.serial(), self.sent, min(self.oldest, self.sent + 1)))
            self._beat_after = min(2 * self._beat_after, self._times.beat_most)
            self._beat_at = now + self._beat_after

    def deadline(self) -> int:
        at = self._beat_at
        if self._again:
            at = min(at, self._repairs.next_at())
        if self.sent < self.last:
            at = min(at, self._pace.next_at())
        return at
