"""The real core on real stores: fault schedules of the simulator, with crashes that leave files.

At every start the log is compared with what the application had seen; at the end, the checkers
judge what the stores export, and it is what the applications saw.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.history.rows import BASE, CRASH, END, RESTART, History, Meta
from ordercast.net.config import Retention
from ordercast.net.export import export
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.schedules import schedule
from support.stores import StoredWorld

PROTOCOLS = ("propagation", "centralized")
KEEP_ALL = Retention("size", 1 << 40)


def stormy(protocol: str, seed: int) -> SimConfig:
    """The schedule of the seed, under `wait`, with five crashes; every site returns."""
    config = schedule(protocol, seed)
    faults = tuple(fault for fault in config.faults if fault.kind not in ("crash", "restart"))
    return replace(
        config,
        on_failure="wait",
        durability="sync",
        messages=max(config.messages, 80),
        faults=(*faults, Fault("crash", count=5), Fault("restart", count=5)),
        most_events=None,
    )


def run(config: SimConfig, seed: int, folder: Path, retention: Retention | None) -> StoredWorld:
    world = StoredWorld(config, seed, folder, retention)
    world.start()
    world.run()
    assert world.quiet
    assert world.recorder.violations == []
    for disk in world.disks.values():
        assert disk.store is not None
        table = config.table.groups
        disk.store.describe(
            groups={group: list(members) for group, members in table.items()},
            deliver=config.deliver, on_failure=config.on_failure, protocol=config.protocol,
        )  # fmt: skip
    world.close()
    return world


def exported(folder: Path) -> History:
    export(folder, folder / "out")
    return read_history(folder / "out")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(1, 7))
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


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_stable_and_confirmed_is_forgotten_and_nothing_else(
    protocol: str, tmp_path: Path
) -> None:
    truncated = [_forgets(protocol, seed, tmp_path / str(seed)) for seed in range(7, 13)]
    assert sum(truncated) >= 4, "little was forgotten: the test shows little"


def _forgets(protocol: str, seed: int, folder: Path) -> bool:
    config = stormy(protocol, seed)
    limits = replace(config.limits, checkpoint_batches=4)
    config = replace(config, limits=limits, messages=200, rate=100.0)
    world = run(config, seed, folder, None)
    history = exported(folder)
    report = check_history(history, causal=config.causal)
    assert report.ok, report.verdicts
    truth = {
        (row.site, row.position): (row.id, row.digest)
        for row in world.recorder.history([], [], Meta()).deliveries
    }
    bases = {event.site: event.position for event in history.events if event.kind == BASE}
    wanted = {place: row for place, row in truth.items() if place[1] > bases.get(place[0], 0)}
    assert {(r.site, r.position): (r.id, r.digest) for r in history.deliveries} == wanted
    return bool(bases)
