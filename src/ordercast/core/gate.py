"""From the ordered log to the application: positions, and the level at which they are delivered.

`agreed`: a batch is delivered as soon as it is in the log. `safe`: it is delivered when it is
settled, in the longest prefix of the log in which every batch is stable. The gate knows the settled
prefix at both levels: receipts of stability come from it.
"""

from collections import deque

from ordercast.core.stability.interface import Stability
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Key, Placed


class Gate:
    def __init__(self, stability: Stability, epoch: int, *, safe: bool) -> None:
        self.stability = stability
        self.epoch = epoch
        self.safe = safe
        # Batches of the log that have no positions (`core.producers`), as long as they are held,
        # and whether they repeat what is delivered.
        self.copies: dict[Key, bool] = {}
        self._spent_copies: list[Key] = []
        self.attempt = 1  # one more after each rollback
        self.logged = 0  # last position in the ordered log
        self.delivered = 0  # last position handed to the application
        self.settled = 0  # last position in the settled prefix
        self._unsettled: deque[Placed] = deque()
        self.unsettled_copies: dict[Key, None] = {}

    def append(self, placed: Placed) -> bool:
        """Take the next batch of the log. Returns whether more is stable than before."""
        batch = placed.batch
        if self.copies and placed.key in self.copies:
            self.unsettled_copies[placed.key] = None
        else:
            self.logged += batch.count
        self._unsettled.append(placed)
        return self.stability.logged(batch.group, placed.number + batch.count - 1, batch.members)

    def settle(self) -> list[Placed]:
        """Extend the settled prefix. Returns the batches that joined it."""
        joined = []
        unsettled, stability = self._unsettled, self.stability
        stable: dict[Group, int] = {}
        settled: dict[Group, int] = {}
        while unsettled:
            placed = unsettled[0]
            batch = placed.batch
            last, group = placed.number + batch.count - 1, batch.group
            if group not in stable:
                stable[group] = stability.stable(group)
            if stable[group] < last:
                break
            unsettled.popleft()
            if self.unsettled_copies and placed.key in self.unsettled_copies:
                del self.unsettled_copies[placed.key]
            else:
                self.settled += batch.count
            settled[group] = last
            joined.append(placed)
        for group, last in settled.items():  # once for a group, however many batches have joined
            stability.settled(group, last)
        return joined

    def deliver(self, placed: Placed) -> DeliveredBatch:
        """Give the batch the next positions. Nobody unpacks it before the application asks."""
        position = self.delivered + 1
        self.delivered += placed.batch.count
        return DeliveredBatch(position, self.epoch, placed, self.attempt)

    def settle_all(self) -> list[Placed]:
        """All of the log is known to be stable. Returns the batches that were not settled yet."""
        joined = list(self._unsettled)
        self._unsettled.clear()
        self.unsettled_copies.clear()
        self.settled = self.logged
        return joined

    def forget_copies(self, folded: list[Key]) -> None:
        """These copies are not held any more. The next call forgets them: records of this burst may
        still name them."""
        for key in self._spent_copies:
            del self.copies[key]
        self._spent_copies = folded

    def unsettled(self) -> int:
        return len(self._unsettled)
