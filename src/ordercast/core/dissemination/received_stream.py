"""Another site's stream as it is received: in order, each piece once, holes asked for.

A site that sees a hole waits a little, each site for a different time, and then asks all sites. A
site that hears the same question asks later (suppression). Any site that has the piece may answer:
its origin at once, others after a while, unless the piece has been sent by then. A hole that nobody
fills is skipped, up to the beginning of a packet. The links then miss the frames that were in it,
and ask for them over their connections.
"""

from collections import Counter, OrderedDict
from typing import TypeAlias
from zlib import crc32

from ordercast.core.dissemination.settings import Bucket, StreamLimits, StreamTimes
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.wire.datagrams import HOLES, WIDEST_HOLE, Beat, Datagram, Piece

Holes: TypeAlias = tuple[tuple[int, int], ...]

_WINDOW = 64  # how far behind the newest serial a control datagram may be


class ReceivedStream:
    """`number` is the first piece that this site has to receive."""

    def __init__(
        self,
        site: Site,
        origin: Site,
        stream: int,
        number: int,
        limits: StreamLimits,
        times: StreamTimes,
        counts: Counter[str],
    ) -> None:
        self.origin = origin
        self.stream = stream
        self.next = number  # all pieces before this number are handed up or skipped
        self.highest = number - 1  # the last piece that is known to be sent
        self._site = site
        self._limits = limits
        self._times = times
        self._counts = counts
        self._early: dict[int, Piece] = {}
        self._kept: OrderedDict[int, Piece] = OrderedDict()  # the last pieces, for repairs
        self._parts: list[bytes] = []  # bodies of the packet under way
        self._size = -1  # of the parts, in bytes; below 0 until a packet begins
        self._answers: dict[int, int] = {}  # number -> when the answer is due
        self._repairs = Bucket(limits.repair_burst, limits.repairs_per_s)
        self._ask_at = NEVER
        self._tries = 0  # how often it asked, or heard others ask, since `next` moved
        self._heard_at = -NEVER  # when the origin was last told that it is heard
        self._newest = 0  # the newest serial
        self._seen = 0  # bits: which of the serials before it were seen

    def fresh(self, serial: int) -> bool:
        """Whether a control datagram is no repeat."""
        ahead = serial - self._newest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & ((1 << _WINDOW) - 1) if ahead < _WINDOW else 1
            self._newest = serial
            return True
        if ahead <= -_WINDOW or self._seen >> -ahead & 1:
            return False
        self._seen |= 1 << -ahead
        return True

    # --- receiving ------------------------------------------------------------------------------

    def piece(self, now: int, piece: Piece) -> list[bytes]:
        """Take a piece; the packets that it completes."""
        number = piece.number
        if self._answers.pop(number, None) is not None:
            self._counts["answers_spared"] += 1
        if number < self.next or number in self._early:
            self._counts["repeated"] += 1
            return []
        if number >= self.next + self._limits.early_pieces:
            self._counts["too_early"] += 1
            self._told(now, number)
            return []
        self._counts["pieces_taken"] += 1
        if number > self.highest:
            self.highest = number
        if number != self.next:
            self._early[number] = piece
            self._watch(now)
            return []
        return self._advance(now, piece)

    def _advance(self, now: int, piece: Piece | None) -> list[bytes]:
        packets: list[bytes] = []
        while piece is not None:
            self._keep(piece)
            self._add(piece, packets)
            self.next += 1
            piece = self._early.pop(self.next, None)
        self._tries, self._ask_at = 0, NEVER
        self._watch(now)
        return packets

    def _keep(self, piece: Piece) -> None:
        self._kept[piece.number] = piece
        if len(self._kept) > self._limits.others_pieces:
            gone, _ = self._kept.popitem(last=False)
            self._answers.pop(gone, None)

    def _add(self, piece: Piece, packets: list[bytes]) -> None:
        if piece.first:
            self._parts, self._size = [], 0
        elif self._size < 0:
            return  # the beginning of the packet was skipped
        self._parts.append(piece.body)
        self._size += len(piece.body)
        if self._size > self._limits.packet_bytes:
            self._counts["too_large"] += 1
            self._parts, self._size = [], -1
        elif piece.last:
            packets.append(b"".join(self._parts))
            self._parts, self._size = [], -1

    def beat(self, now: int, beat: Beat) -> tuple[list[bytes], bool]:
        """Take a beat. The packets behind pieces that are lost for good; whether to tell the origin
        that it is heard."""
        packets: list[bytes] = []
        if beat.oldest > self.next:
            packets = self._skip(now, beat.oldest)
        self._told(now, beat.last)
        tell = now - self._heard_at >= self._times.heard_every
        if tell:
            self._heard_at = now
        return packets, tell

    def _told(self, now: int, last: int) -> None:
        if last > self.highest:
            self.highest = last
            self._watch(now)

    def _skip(self, now: int, to: int) -> list[bytes]:
        """Give up the missing pieces before `to`. Take the early ones, and go on from `to`."""
        packets: list[bytes] = []
        self._counts["skipped"] += 1
        for number in sorted(self._early):
            if number >= to:
                break
            if number != self.next:
                self._parts, self._size = [], -1
            piece = self._early.pop(number)
            self._keep(piece)
            self._add(piece, packets)
            self.next = number + 1
        if self.next < to:
            self._parts, self._size = [], -1
            self.next = to
        return packets + self._advance(now, self._early.pop(self.next, None))

    # --- asking ---------------------------------------------------------------------------------

    def _watch(self, now: int) -> None:
        if self.highest >= self.next and self._ask_at == NEVER:
            self._ask_at = now + self._times.ask_after + self._spread(self._times.ask_spread)

    def _spread(self, width: int) -> int:
        """A time below `width` that differs between sites, and is the same in every run."""
        return crc32(f"{self._site} {self.next} {self._tries}".encode()) % width

    def holes(self) -> Holes:
        """The holes to ask for, as many as fit into one PieceRequest."""
        found: list[tuple[int, int]] = []
        left = self._limits.asked_pieces
        number = self.next
        end = min(self.highest + 1, self.next + self._limits.early_pieces)
        for here in [*sorted(self._early), end]:
            count = min(here - number, left, WIDEST_HOLE)
            if count > 0:
                found.append((number, count))
                left -= count
            if not left or len(found) == HOLES:
                break
            number = here + 1
        return tuple(found)

    def asked(self, now: int, holes: Holes) -> None:
        """Another site asks for these pieces of this stream."""
        ours = any(first <= self.next < first + count for first, count in holes)
        if ours and self._ask_at != NEVER:
            self._counts["asks_spared"] += 1
            self._put_off(now)
        for first, count in holes:
            for number in range(first, min(first + count, self.next)):
                if number in self._kept and number not in self._answers:
                    spread = crc32(f"{self._site} {number}".encode()) % self._times.answer_spread
                    self._answers[number] = now + self._times.answer_after + spread

    def _put_off(self, now: int) -> None:
        wait = min(self._times.ask_again << min(self._tries, 16), self._times.ask_at_most)
        self._tries += 1
        self._ask_at = now + wait + self._spread(self._times.ask_spread)

    def flush(self, now: int, out: list[Datagram]) -> tuple[Holes, list[bytes]]:
        """Send the answers that are due; the holes to ask for, and packets behind a hole that is
        given up."""
        for number in [number for number, due in self._answers.items() if due <= now]:
            if not self._repairs.take(now):
                break
            del self._answers[number]
            out.append(self._kept[number])
            self._counts["repairs_sent"] += 1
        if self._ask_at > now:
            return (), []
        if self._tries >= self._times.asks:
            beyond = min(self._early, default=self.highest + 1)
            return (), self._skip(now, beyond)
        self._put_off(now)
        self._counts["asks_sent"] += 1
        return self.holes(), []

    def deadline(self) -> int:
        if not self._answers:
            return self._ask_at
        return min(self._ask_at, max(min(self._answers.values()), self._repairs.next_at()))
