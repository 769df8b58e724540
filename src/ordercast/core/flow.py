"""Two-lane flow control: when a site may take more.

Items from above are taken until `link_items` wait for some child, or `held_batches` of the past are
held. Submissions are taken until half of either. So items that come down never wait for items that
go up. A refused item stays where it is; the engine tries again (`Ordering.resume`) when there is
room.
"""

from ordercast.core.retention import PassedBatches
from ordercast.model.options import Limits


class Flow:
    def __init__(self, limits: Limits, retention: PassedBatches) -> None:
        self.retention = retention
        self._most_down = limits.link_items
        self._most_up = max(1, limits.link_items // 2)
        self._most_held_down = limits.held_batches
        self._most_held_up = max(1, limits.held_batches // 2)
        self._crowded_down = 0  # children for whom `_most_down` items or more wait
        self._crowded_up = 0  # children for whom `_most_up` items or more wait
        self.refused = False  # an item was, since the last drain, because too many batches are held
        self.held = False  # the application lags: nothing is taken

    def pushed(self, waiting: int) -> None:
        """One more item waits for a child: now there are `waiting`."""
        if waiting == self._most_up:
            self._crowded_up += 1
        if waiting == self._most_down:
            self._crowded_down += 1

    def done(self, before: int, left: int) -> bool:
        """A child has dealt with items: fewer wait than before. Returns whether that makes room."""
        up, down = before >= self._most_up > left, before >= self._most_down > left
        self._crowded_up -= up
        self._crowded_down -= down
        return up or down

    def room_down(self) -> bool:
        if self._crowded_down or self.held:
            return False
        most = self._most_held_down
        return len(self.retention.batches) < most or self._room_after_folding(most)

    def room_up(self) -> bool:
        if self._crowded_up or self.held:
            return False
        most = self._most_held_up
        return len(self.retention.batches) < most or self._room_after_folding(most)

    def _room_after_folding(self, most: int) -> bool:
        if self.retention.held() < most:
            return True
        self.refused = True
        return False
