"""Soak campaign: rolling upgrades of real daemons under load, in any order, of both policies."""

import random
import tempfile
from pathlib import Path

from support.clusters.upgrades import SITES, Upgrade, first_commit
from support.harness.loops import run as run_loop
from tools.soak.campaign import Outcome

CASE_S = 20


def run(seed: int) -> Outcome:
    rng = random.Random(f"upgrades {seed}")
    order = rng.sample(SITES, len(SITES))
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as folder:
        policy = ("exclude", "wait")[seed % 2]
        upgrade = Upgrade(Path(folder), first_commit(), policy, order)
        try:
            found = run_loop(upgrade.run())
        finally:
            upgrade.end()
    return Outcome(not found.wrong, dict(found.counts), "; ".join(found.wrong)[:1500])
