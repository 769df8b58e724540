"""Real members on real stores, through changes of epochs and crashes between any two duties.

At every start the store must give exactly the records that the simulated disk has; at the end, the
checkers judge what the stores export, and it is what the applications saw.
"""

from pathlib import Path
from unittest.mock import patch

import pytest

from ordercast.core.order.registry import PROTOCOLS
from ordercast.net.cluster.config import Retention
from ordercast.sim.members import build_forest
from support.worlds import epochs
from support.worlds.stored_members import judge_export, stored

KEEP_ALL = Retention("size", 1 << 40)


@pytest.mark.parametrize("part", range(2))
def test_a_store_gives_a_member_back_what_it_persisted(part: int, tmp_path: Path) -> None:
    crashes = records = epochs = truncated = 0
    for seed in range(1 + 8 * part, 9 + 8 * part):
        folder = tmp_path / str(seed)
        folder.mkdir()
        retention = KEEP_ALL if seed % 3 else Retention()
        world = stored(seed, folder, retention, crash=0.03 if seed % 4 < 2 else 0.004)
        assert world.judge() == [], f"seed {seed}"
        truncated += judge_export(world)
        crashes += world.crashes
        records += world.compared
        epochs += max(world.epochs)
    assert crashes > 30, "few starts: the test shows little"
    assert records > 150
    assert epochs > 8
    assert truncated, "nothing was ever forgotten"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_and_what_any_protocol_notes_is_among_it(protocol: str, tmp_path: Path) -> None:
    every = [protocol, *(name for name in PROTOCOLS if name != protocol)]
    crashes = records = 0
    with patch.object(epochs, "build", build_forest):
        for seed in range(201, 203):
            folder = tmp_path / str(seed)
            folder.mkdir()
            retention = KEEP_ALL if seed % 3 else Retention()
            world = stored(seed, folder, retention, crash=0.01, protocols=every)
            assert world.judge() == [], f"seed {seed}"
            judge_export(world)
            crashes += world.crashes
            records += world.compared
    assert crashes > 5, "few starts: the test shows little"
    assert records > 25


@pytest.mark.parametrize("seed", [122, 138])
def test_what_was_folded_before_an_application_saw_it_is_in_the_log(
    seed: int, tmp_path: Path
) -> None:
    world = stored(seed, tmp_path, crash=0.03)
    assert world.together
    assert world.filled, "no application was behind its site"
    assert world.judge() == []
    judge_export(world)
