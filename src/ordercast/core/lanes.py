"""The ends of a lane of a link (see `link`): what is under way to the peer, what came from it."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from ordercast.model.groups import Site
from ordercast.model.options import NEVER, Limits, Timing
from ordercast.wire.frames import CONTROL, Item
from ordercast.wire.items import total_weight

Take: TypeAlias = Callable[[Site, int, Item], bool]
"""Hand an item up; False: no room now, keep it and try again on `resume`."""


class Outgoing:
    """One lane to the peer."""

    __slots__ = (
        "done", "got", "items", "last", "resend_at", "restored", "sent", "timed", "timed_at",
        "took", "wait", "weight",
    )  # fmt: skip

    def __init__(self, wait: int) -> None:
        self.items: deque[Item] = deque()  # numbers done+1 … last
        self.done = self.got = self.sent = self.last = 0
        self.weight = 0  # bytes sent and not done
        self.restored = 0  # items that a restart brought back, done or not
        # Each lane has its own time: progress on one must not put off another's loss.
        self.resend_at = NEVER
        self.wait = wait  # before it is sent again; doubles
        self.timed = self.timed_at = 0  # an item whose way there and back is timed, sent when
        self.took = 0  # the longest lately; fades

    def heard(self, now: int, most: int) -> None:
        """The peer has got more than before. What was sent twice is timed from the first: perhaps
        too long, but otherwise an answer that takes longer than it did would never be timed."""
        if 0 < self.timed <= self.got:
            self.took = max(min(now - self.timed_at, most), self.took - self.took // 8)
            self.timed = 0

    def weigh(self) -> None:
        """What is under way has changed otherwise than one by one."""
        self.weight = total_weight(islice(self.items, self.sent - self.done))

    def admit(self, limits: Limits) -> int:
        """Up to which item there is room; what is new of that counts as under way."""
        sent, limit = self.sent, self.done + limits.link_items
        if self.last < limit:
            limit = self.last
        if limit - sent > 1 or (sent < limit and self.weight):
            return self._within_bytes(sent, limit, limits.link_bytes)
        if sent < limit:  # alone, it may be as large as it likes
            self.weight = self.items[sent - self.done].weight()
        return limit

    def _within_bytes(self, sent: int, limit: int, most: int) -> int:
        weight = self.weight
        for item in islice(self.items, sent - self.done, limit - self.done):
            more = weight + item.weight()
            if weight and more > most:
                break
            weight = more
            sent += 1
        self.weight = weight
        return sent

    def cut(self, first: int, last: int, limits: Limits) -> list[tuple[int, tuple[Item, ...]]]:
        """Items first … last, with the number of the first, in pieces for one frame each."""
        pieces: list[tuple[int, tuple[Item, ...]]] = []
        items: list[Item] = []
        size, number = 0, first
        for item in islice(self.items, first - self.done - 1, last - self.done):
            weight = item.weight()
            if items and (len(items) == limits.frame_items or size + weight > limits.frame_bytes):
                pieces.append((number, tuple(items)))
                number += len(items)
                items, size = [], 0
            items.append(item)
            size += weight
        if items:
            pieces.append((number, tuple(items)))
        return pieces

    def start_at(self, number: int) -> None:
        """Nothing queued yet, and everything up to `number` was done before a restart."""
        self.done = self.got = self.sent = self.last = number


class Incoming:
    __slots__ = ("blocked", "done", "early", "got", "repair_at", "unacknowledged")

    def __init__(self) -> None:
        self.early: dict[int, Item] = {}  # above got: out of order, or no room
        self.got = self.done = 0
        self.repair_at = NEVER  # when a hole may be asked for again
        self.unacknowledged = 0  # items, or news of them, since the last acknowledgement
        self.blocked = False  # the next item is here and waits for room

    def hand_up(self, peer: Site, lane: int, take: Take) -> bool:
        """What is next and no longer early; whether there was no room for it."""
        early = self.early
        self.blocked = False
        while (item := early.pop(self.got + 1, None)) is not None:
            # A mistake is raised here, and the item is gone: the peer must send it again.
            if not take(peer, lane, item):
                early[self.got + 1] = item
                self.blocked = True
                break
            self.got += 1
        return self.blocked


def first_wait(lane: int, out: Outgoing, timing: Timing) -> int:
    """Until something is sent again for the first time. On CONTROL it is small, others often wait
    for it, and nothing may follow that would show the loss: twice as long as an answer takes."""
    if lane != CONTROL or not out.took:
        return timing.resend_after
    return min(timing.resend_after, max(timing.repair_again, 2 * out.took))
