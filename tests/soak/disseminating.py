"""Soak campaign: real processes over TLS that disseminate by multicast or along trees, SIGKILLs and
restarts; every protocol and level; judged as the other kills are."""

import random
import tempfile
from pathlib import Path

from ordercast.core.dissemination.registry import MULTICAST, TREE
from ordercast.core.order.registry import PROTOCOLS
from support.clusters.processes import Processes, write_cluster
from tools.soak.campaign import Outcome

CASE_S = 60
KILLS = 3
GROUPS = {"alpha": list("abc"), "beta": list("bc")}


def run(seed: int) -> Outcome:
    rng = random.Random(f"disseminating {seed}")
    protocol = rng.choice(list(PROTOCOLS))
    options = {
        "protocol": protocol,
        "dissemination": rng.choice([MULTICAST, TREE]),
        "deliver": rng.choice(["safe", "agreed"]),
        "durability": rng.choice(["sync", "os"]),
    }
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        cluster = write_cluster(folder, GROUPS, options)
        with Processes(folder, cluster, messages=600, seed=seed) as running:
            running.kill_at_random(KILLS)
            running.settle(120)
            running.stop()
            verdict = running.judge()
    counters = {"messages": verdict.sent, "deliveries checked": verdict.delivered}
    counters |= {f"by {options['dissemination']}": 1}
    counters |= {f"kills: {role}": count for role, count in verdict.kills.items()}
    wrong = "; ".join(verdict.wrong)[:1500]
    return Outcome(not verdict.wrong, counters, f"{options}: {wrong}")
