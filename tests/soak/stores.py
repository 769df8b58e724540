"""Soak campaign: random fault schedules with crashes, every site on a real store.

At each start the log is compared with what the application had seen; the export is judged and
compared, too. Odd seeds run `propagation`, even ones `centralized`.
"""

import tempfile
from pathlib import Path

from support.stored_schedules import forgets
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        world = forgets("propagation" if seed % 2 else "centralized", seed, Path(folder))
    disks = world.disks.values()
    counters = {
        "crashes": world.injected.get("crash", 0),
        "starts on a store": sum(disk.starts - 1 for disk in disks),
        "positions found again": sum(disk.checked for disk in disks),
        "exports with a base": int(world.truncated > 0),
    }
    return Outcome(True, counters)
