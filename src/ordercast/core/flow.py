"""Two-lane flow control: when a site may take more.

What comes down is taken until `link_items` wait for some child or `held_batches` of the past are
held; submissions until half of either. So what comes down never waits for what goes up. Whoever is
refused keeps its item and is asked again (`Ordering.resume`) when there is room.
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
        self._crowded_down = 0  # children for whom so many wait
        self._crowded_up = 0
        self.refused = False  # since the last look, for too much of the past
        self.held = False  # by the application, which lags

    def pushed(self, waiting: int) -> None:
        """One more waits for a child: so many now."""
        if waiting == self._most_up:
            self._crowded_up += 1
        if waiting == self._most_down:
            self._crowded_down += 1

    def done(self, before: int, left: int) -> bool:
        """A child has dealt with some of what waited for it; whether that makes room."""
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
