"""Soak campaign: nodes on real stores in one process under `exclude`, six to sixteen kills a case,
half of them with what was queued for the store, and splits of the network; every protocol."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.campaigns.excluding_campaigns import run_excluding
from support.clusters.campaigns.local_kills import Case
from tools.soak.campaign import Outcome

CASE_S = 30


def run(seed: int) -> Outcome:
    rng = random.Random(f"live exclusions {seed}")
    names = [name for name, info in PROTOCOLS.items() if info.exclude]
    case = Case(
        rng.choice(names),
        rng.choice(["safe", "agreed"]),
        durability=rng.choice(["sync", "os"]),
        seed=seed,
        kills=rng.randrange(6, 17),
        policy="exclude",
    )
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        found = run_excluding(case, Path(directory))
    wrong = list(found.wrong)
    if case.deliver == "safe" and found.rollbacks:
        wrong.append(f"{found.rollbacks} rollbacks at safe")
    counters = {
        "kills": found.kills, "splits": found.disturbances, "rollbacks": found.rollbacks,
        "messages": found.sent, "deliveries checked": found.delivered,
    }  # fmt: skip
    return Outcome(not wrong, counters, f"{case}: {'; '.join(wrong)[:1500]}")
