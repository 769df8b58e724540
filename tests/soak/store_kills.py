"""Soak campaign: a process that writes a store is killed, three times a case, `sync` and `os`."""

import random
import tempfile
from pathlib import Path

from support.stores.kills import kill_and_look
from tools.soak.campaign import Outcome

KILLS = 3


def run(seed: int) -> Outcome:
    chance = random.Random(seed)
    durability = "sync" if seed % 2 else "os"
    acknowledged = 0
    with tempfile.TemporaryDirectory() as folder:
        for kill in range(1, KILLS + 1):
            path, after_s = Path(folder, "a.db"), chance.uniform(0.0, 0.5)
            acknowledged = kill_and_look(path, durability, kill, after_s, acknowledged)
    return Outcome(True, {"kills": KILLS, "messages acknowledged": acknowledged})
