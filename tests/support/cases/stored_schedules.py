"""Fault schedules of the simulator on real stores: what a test and a soak campaign share."""

from dataclasses import replace
from pathlib import Path

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.history.rows import BASE, History, Meta
from ordercast.net.cluster.config import Retention
from ordercast.net.export.history import export
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.schedules import changing
from support.worlds.stored_worlds import StoredWorld


def stormy(protocol: str, seed: int) -> SimConfig:
    """The schedule of the seed, under `wait`, with changes and five crashes; all sites return."""
    config = changing(protocol, seed)
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
    world.close()
    return world


def exported(folder: Path) -> History:
    export(folder, folder / "out")
    return read_history(folder / "out")


def forgets(protocol: str, seed: int, folder: Path) -> StoredWorld:
    """Run under retention `stable`: the export is good, and lacks only what lies below a base."""
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
    world.truncated = len(bases)
    return world
