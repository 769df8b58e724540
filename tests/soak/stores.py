"""Soak campaign: random fault schedules with changes and crashes, every site on a real store.

At each start the log is compared with what the application had seen; the export is judged and
compared, too. Of five seeds, two run the simulator, three run members whose stores are compared
record by record, with crashes between any two duties; two of these under `exclude`.
"""

import tempfile
from pathlib import Path
from unittest.mock import patch

from ordercast.core.order.registry import PROTOCOLS
from ordercast.net.cluster.config import Retention
from ordercast.sim.members import build_forest
from support.cases.stored_schedules import forgets
from support.worlds import epochs
from support.worlds.stored_members import KEEP_ALL, judge_export, stored
from tools.soak.campaign import Outcome

EVERY = tuple(PROTOCOLS)


def run(seed: int) -> Outcome:
    if seed % 5 > 1:
        return _members(seed, ("", "drawn", "hard")[seed % 5 - 2])
    with tempfile.TemporaryDirectory() as folder:
        world = forgets(EVERY[seed % len(EVERY)], seed, Path(folder))
    disks = world.disks.values()
    assert world.epochs is not None
    counters = {
        "crashes": world.injected.get("crash", 0),
        "starts on a store": sum(disk.starts - 1 for disk in disks),
        "positions found again": sum(disk.checked for disk in disks),
        "positions filled in": sum(disk.filled for disk in disks),
        "epochs": max(world.epochs.domains),
        "exports with a base": int(world.truncated > 0),
    }
    return Outcome(True, counters)


def _members(seed: int, excluding: str) -> Outcome:
    retention = Retention() if seed % 2 else KEEP_ALL
    crash = None if excluding else (0.03, 0.004)[seed % 4 < 2]
    with tempfile.TemporaryDirectory() as folder:
        able = [p for p, info in PROTOCOLS.items() if info.exclude or not excluding]
        begins = seed % len(able)
        protocols = able[begins:] + able[:begins]
        with patch.object(epochs, "build", build_forest):
            world = stored(
                seed, Path(folder), retention,
                crash=crash, protocols=protocols, excluding=excluding,
            )  # fmt: skip
        wrong = world.judge()
        truncated = judge_export(world)
    counters = {
        "crashes": world.crashes,
        "starts on a store": sum(boots - 1 for boots in world.boots.values()),
        "records compared": world.compared,
        "positions filled in": world.filled,
        "epochs": max(world.epochs),
        "exports with a base": int(truncated > 0),
        "stores lost": sum(world.lost.values()),
        "rollbacks": len(world.rollbacks),
    }
    return Outcome(not wrong, counters, str(wrong[:2]))
