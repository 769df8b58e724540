"""How long this site's own messages take: until they are ordered, stable, and delivered here.

Not every message is timed: one each `EVERY_NS` at most, whatever the traffic. So a slow second
counts as much as a quick one, and timing costs about nothing. A message is timed from the end of
the turn in which it was sent; how long its sender waited for room before that does not count.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ordercast.core.epochs.admission import Reservation
from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import StageReached
from ordercast.model.groups import Group, Site
from ordercast.model.histogram import Histogram
from ordercast.model.implicit import is_implicit
from ordercast.model.messages import Batch

EVERY_NS = 10_000_000
MOST_WAITING = 4_096  # messages that are timed at once, for each stage
TIMED_STAGES = ("ordered", "stable", "delivered")


class _Waiting(dict[Group, deque[tuple[int, int]]]):
    """The messages of each group that wait for one stage: seq and when it was sent, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.times = Histogram()
        self.count = 0

    def begin(self, group: Group, seq: int, now: int) -> None:
        if self.count < MOST_WAITING:  # the oldest stay: they are the slowest
            self.count += 1
            self.setdefault(group, deque()).append((seq, now))

    def reached(self, group: Group, first: int, last: int, now: int) -> None:
        """Messages before `first` passed unseen: they do not count."""
        waiting = self.get(group)
        while waiting and waiting[0][0] <= last:
            seq, since = waiting.popleft()
            self.count -= 1
            if seq >= first:
                self.times.add(now - since)
        if not waiting:
            self.pop(group, None)

    def drop(self, group: Group, first: int = 0) -> None:
        """The messages from this seq on never reach the stage."""
        waiting = self.get(group)
        while waiting and waiting[-1][0] >= first:
            waiting.pop()
            self.count -= 1
        if not waiting:
            self.pop(group, None)


class Latencies:
    """State: the messages that are timed now, and the histogram of each stage."""

    def __init__(self, site: Site, incarnation: int) -> None:
        self._site = site
        self._incarnation = incarnation
        self._groups: Mapping[Group, tuple[Site, ...]] = {}
        self._ordered, self._stable, self._delivered = _Waiting(), _Waiting(), _Waiting()
        self._stages = {"ordered": self._ordered, "stable": self._stable}
        self._all = dict(zip(TIMED_STAGES, (*self._stages.values(), self._delivered), strict=True))
        self._last: tuple[Group, int] = ("", 0)  # the message timed last
        self._next = 0  # when the next one may be timed

    def sent(self, now: int, batch: Reservation) -> None:
        """The oldest batch that the site is about to accept."""
        if now < self._next or (batch.group, batch.seq) == self._last:
            return
        self._next = now + EVERY_NS
        self._last = group, seq = batch.group, batch.seq
        self._ordered.begin(group, seq, now)
        self._stable.begin(group, seq, now)
        if self._site in (batch.members or self._groups.get(group, ())):
            self._delivered.begin(group, seq, now)

    def received(self, receipts: Sequence[StageReached], now: int) -> None:
        for receipt in receipts:
            waiting = self._stages.get(receipt.stage)
            if waiting:
                upto = receipt.seq + receipt.count - 1
                first = waiting.get(receipt.group)
                if first and first[0][0] <= upto:
                    waiting.reached(receipt.group, 0, upto, now)
            elif receipt.stage == REFUSED:
                for each in self._all.values():
                    each.drop(receipt.group, receipt.seq)

    def delivered(self, batch: Batch, now: int) -> None:
        """A batch of this site's own was delivered to its own application."""
        if batch.incarnation == self._incarnation:
            last = batch.seq + batch.count - 1
            self._delivered.reached(batch.group, batch.seq, last, now)

    def waits(self) -> bool:
        """Whether a message is timed now."""
        return bool(self._stable or self._delivered or self._ordered)

    def follow(self, groups: Mapping[Group, tuple[Site, ...]], incarnation: int) -> None:
        """Forget messages to groups that were removed, or that an earlier incarnation sent."""
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            for waiting in self._all.values():
                for group in list(waiting):
                    waiting.drop(group)
        if groups is self._groups:
            return
        self._groups = groups
        for waiting in self._all.values():
            for group in [name for name in waiting if name not in groups and not is_implicit(name)]:
                waiting.drop(group)

    def told(self) -> dict[str, Any]:
        return {stage: waiting.times.told() for stage, waiting in self._all.items()}
