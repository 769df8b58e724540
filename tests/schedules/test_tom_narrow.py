"""`tom` where hardly a body waits for its header, and checkpoints come often: nearly everything is
headed, noted and fetched, and restarts find heads in their checkpoints."""

from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from ordercast.core.order import bodies
from ordercast.core.order.bodies import EarlyBodies
from ordercast.core.order.tom import Tom
from ordercast.core.outbox import EngineBox
from ordercast.sim.schedules import schedule
from schedules.tree_mutants import BrokenTree
from support.worlds.engines import simulate_with

CHUNK, SCHEDULES = 20, 100


class Narrow(Tom):
    restored_heads: ClassVar[int] = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        with patch.object(bodies, "EARLY_BODIES", 1):
            self._bodies = EarlyBodies()

    def replayed(self) -> None:
        Narrow.restored_heads += len(self._restored)
        super().replayed()


class NarrowSite(BrokenTree):
    """Not broken: another make of the protocol, and a checkpoint at every third drain."""

    tree_kind = Narrow
    drains = 0

    def drain(self) -> EngineBox:
        box = super().drain()
        self.drains += 1
        if self.drains % 3 == 0 and box.forget is None:
            self.retention.held()  # forgets what it can
            box.forget = self.retention.whole()
        return box


@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_it_keeps_its_guarantees(first: int) -> None:
    for seed in range(first, first + CHUNK):
        config = replace(schedule("tom", seed), most_events=200_000)
        result = simulate_with(NarrowSite, config, seed)
        assert not result.violations, f"seed {seed}: {result.violations[0]}"


def test_restarts_found_heads_in_their_checkpoints() -> None:
    before = Narrow.restored_heads
    for seed in range(61, 101):
        config = replace(schedule("tom", seed), most_events=200_000)
        simulate_with(NarrowSite, config, seed)
    assert Narrow.restored_heads > before
