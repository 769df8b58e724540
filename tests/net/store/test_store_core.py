"""Members on real stores: fault schedules of the simulator, with crashes that leave files.

At every start the log is compared with what the application had seen; at the end, the checkers
judge what the stores export, and it is what the applications saw.
"""

from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.core.order.registry import PROTOCOLS
from ordercast.history.rows import CRASH, END, RESTART, Meta
from ordercast.net.cluster.config import Retention
from support.cases.stored_schedules import exported, forgets, run, stormy

KEEP_ALL = Retention("size", 1 << 40)


@pytest.mark.parametrize(
    ("protocol", "seed"),
    [
        *((name, 1 + n % 3) for n, name in enumerate(PROTOCOLS)),
        ("propagation", 2),
        ("centralized", 1),
    ],
)
def test_a_store_holds_what_was_seen_through_every_crash(
    protocol: str, seed: int, tmp_path: Path
) -> None:
    config = stormy(protocol, seed)
    world = run(config, seed, tmp_path, KEEP_ALL)
    assert world.injected["crash"] > 0
    history = exported(tmp_path)
    assert check_history(history, causal=config.causal).ok
    truth = world.recorder.history([], [], Meta())
    assert {row.id: row.digest for row in history.sent} == {
        row.id: row.digest for row in truth.sent
    }
    ours = sorted((row.site, row.position, row.id, row.digest) for row in history.deliveries)
    assert ours == sorted((r.site, r.position, r.id, r.digest) for r in truth.deliveries)
    kinds = [event.kind for event in history.events]
    assert kinds.count(CRASH) == kinds.count(RESTART) == world.injected["crash"]
    assert kinds.count(END) == len(world.disks)


@pytest.mark.parametrize("protocol", ["propagation", "two_phase"])
def test_what_is_stable_and_confirmed_is_forgotten_and_nothing_else(
    protocol: str, tmp_path: Path
) -> None:
    truncated = [forgets(protocol, seed, tmp_path / str(seed)).truncated for seed in range(8, 11)]
    assert sum(map(bool, truncated)) >= 2, "little was forgotten: the test shows little"


@pytest.mark.parametrize("seed", [1005])
def test_payloads_that_went_before_their_rows_are_not_exported(seed: int, tmp_path: Path) -> None:
    forgets("propagation", seed, tmp_path)
