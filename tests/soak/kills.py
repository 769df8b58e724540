"""Soak campaign: [GS] Figure 3 as nine real processes over TLS, twenty SIGKILLs a case, so that ten
cases are two hundred; every protocol and level; judged as the tests of the same kind are."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.processes import Processes, write_cluster
from support.tables import FIGURE_3
from tools.soak.campaign import Outcome

CASE_S = 60
KILLS = 20
GROUPS = {group: list(members) for group, members in FIGURE_3.items()}


def run(seed: int) -> Outcome:
    rng = random.Random(f"kills {seed}")
    protocol = rng.choice(list(PROTOCOLS))
    builders = PROTOCOLS[protocol].builders or ("greedy", "balanced")
    options = {
        "protocol": protocol,
        "builder": rng.choice(builders),
        "deliver": rng.choice(["safe", "agreed"]),
        "durability": rng.choice(["sync", "os"]),
        "causal": rng.random() < 0.3,
    }
    limits = {"window_messages": rng.choice([20, 10_000])}
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        cluster = write_cluster(folder, GROUPS, options, limits=limits)
        with Processes(folder, cluster, messages=15_000, seed=seed) as running:
            running.kill_at_random(KILLS)
            running.settle(120)
            running.stop()
            verdict = running.judge()
    counters = {"messages": verdict.sent, "deliveries checked": verdict.delivered}
    counters |= {f"kills: {role}": count for role, count in verdict.kills.items()}
    wrong = "; ".join(verdict.wrong)[:1500]
    return Outcome(not verdict.wrong, counters, f"{options}: {wrong}")
