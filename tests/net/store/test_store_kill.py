"""A process killed with SIGKILL at any moment leaves everything that it was told is durable, in
order, nothing twice; and its successor goes on where it stopped."""

import random
from pathlib import Path

import pytest

from support.stores.kills import kill_and_look
from support.stores.records import open_store

KILLS = 8


@pytest.mark.parametrize("durability", ["sync", "os"])
def test_a_killed_process_loses_nothing_that_it_acknowledged(
    durability: str, tmp_path: Path
) -> None:
    path, chance = tmp_path / "a.db", random.Random(durability)
    acknowledged = 0
    for kill in range(1, KILLS + 1):
        after_s = chance.uniform(0.0, 0.25)
        acknowledged = kill_and_look(path, durability, kill, after_s, acknowledged)
    assert acknowledged > 100
    store = open_store(path, durability)
    assert store.opened(), "no epoch was ever opened"
    store.close_sync()
