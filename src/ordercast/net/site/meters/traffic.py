"""Counts and times of the messages that a site has sent and delivered, by group, since its process
started.

It counts batches, not messages one by one. A cluster may have very many groups and lists: beyond
`MOST_GROUPS` the rest is counted together, and all lists of sites are counted as one.
"""

import time
from collections.abc import Mapping, Sequence

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.outbox import StageReached
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import IMPLICIT_PREFIX
from ordercast.model.messages import DeliveredBatch
from ordercast.net.site.meters.latencies import Latencies
from ordercast.net.site.stream import EpochOpened, Stream

MOST_GROUPS = 1_000
LISTS = IMPLICIT_PREFIX  # the name under which sends to listed sites are counted
REST = "*"  # groups beyond `MOST_GROUPS`


class GroupCounts:
    """Counts of the messages to one group: sent by this site, and delivered here."""

    __slots__ = ("bytes", "delivered", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.delivered = 0
        self.bytes = 0  # of the bodies delivered


class Traffic:
    """State: the counts of each group that had messages. `times`: the times of this site's own
    messages."""

    def __init__(self, stream: Stream, site: Site, incarnation: int) -> None:
        self.times = Latencies(site, incarnation)
        self._site = site
        self._stream = stream
        self._counts: dict[Group, GroupCounts] = {}
        self._groups: Mapping[Group, tuple[Site, ...]] = {}  # of the layout, at the last look

    def delivered(self, batches: Sequence[DeliveredBatch | EpochOpened | Rollback]) -> None:
        """Count what the stream will add. A restart repeats batches: they do not count."""
        last = self._stream.delivered
        for item in batches:
            if isinstance(item, DeliveredBatch):
                batch = item.placed.batch
                end = item.position + batch.count - 1
                if end > last:
                    last = end
                    counts = self._counts.get(batch.group) or self._of(batch.group)
                    counts.delivered += batch.count
                    counts.bytes += len(batch.body)
                    if batch.origin == self._site and self.times.waits():
                        self.times.delivered(batch, time.monotonic_ns())
            elif isinstance(item, Rollback):
                last = min(last, item.position)

    def received(self, receipts: Sequence[StageReached]) -> None:
        for receipt in receipts:
            if receipt.stage == "accepted":
                counts = self._counts.get(receipt.group) or self._of(receipt.group)
                counts.sent += receipt.count
        if self.times.waits():
            self.times.received(receipts, time.monotonic_ns())

    def _of(self, group: Group) -> GroupCounts:
        if group.startswith(IMPLICIT_PREFIX):
            group = LISTS
        elif len(self._counts) >= MOST_GROUPS and group not in self._counts:
            group = REST
        return self._counts.setdefault(group, GroupCounts())

    def follow(self, groups: Mapping[Group, tuple[Site, ...]], incarnation: int) -> None:
        """Forget groups that were removed."""
        self.times.follow(groups, incarnation)
        if groups is not self._groups:
            self._groups = groups
            for group in [name for name in self._counts if name not in groups]:
                if group not in (LISTS, REST):
                    del self._counts[group]

    def told(self) -> dict[Group, dict[str, int]]:
        return {
            group: {"sent": each.sent, "delivered": each.delivered, "bytes": each.bytes}
            for group, each in sorted(self._counts.items())
        }
