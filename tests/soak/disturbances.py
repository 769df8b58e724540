"""Soak campaign: whole sites with stores over connections that a proxy resets, stalls, truncates,
corrupts and delays, a hundred times a case; some sites are killed and restarted meanwhile."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.campaigns.local_kills import Case
from support.clusters.disturbed import run_disturbed
from tools.soak.campaign import Outcome

CASE_S = 15
DISTURBANCES = 100


def run(seed: int) -> Outcome:
    rng = random.Random(f"disturbances {seed}")
    case = Case(
        protocol=rng.choice(list(PROTOCOLS)),
        deliver=rng.choice(["safe", "agreed"]),
        durability="os",
        causal=rng.random() < 0.3,
        seed=seed,
        kills=rng.choice([0, 2, 6]),
    )
    tls = rng.random() < 0.5
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        found = run_disturbed(case, Path(directory), disturbances=DISTURBANCES, tls=tls)
    counters = {
        "kills": found.kills,
        "disturbances": found.disturbances,
        "messages": found.sent,
        "deliveries checked": found.delivered,
    }
    return Outcome(not found.wrong, counters, f"{case} tls={tls}: {'; '.join(found.wrong)[:1000]}")
