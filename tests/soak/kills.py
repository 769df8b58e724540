"""Soak campaign: [GS] Figure 3's sites and one in no group as real processes over TLS, twenty
SIGKILLs a case of each role in turn, so that fifteen cases are three hundred; every protocol, level
and policy; judged as the tests of the same kind are."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.cases.tables import FIGURE_3
from support.clusters.processes import Processes, write_cluster
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
        "on_failure": "wait",
    }
    if PROTOCOLS[protocol].exclude and rng.random() < 0.8:
        options["on_failure"] = "exclude"
    limits = {"window_messages": rng.choice([20, 10_000])}
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        cluster = write_cluster(folder, GROUPS, options, limits=limits, outside=["x"])
        with Processes(folder, cluster, messages=6_000, seed=seed) as running:
            running.kill_at_random(KILLS, pause_s=0.6)
            running.settle(240)
            running.stop()
            verdict = running.judge()
    counters = {"messages": verdict.sent, "deliveries checked": verdict.delivered}
    counters |= {f"kills: {role}": count for role, count in verdict.kills.items()}
    wrong = "; ".join(verdict.wrong)[:1500]
    return Outcome(not verdict.wrong, counters, f"{options}: {wrong}")
