"""Soak campaign: clusters in one process whose sites are killed and restarted at any moment; every
protocol, level, durability; the stores' export and each application's stream are judged."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.campaigns.local_kills import Case, run_case
from tools.soak.campaign import Outcome, keep_files


def run(seed: int) -> Outcome:
    rng = random.Random(f"restarts {seed}")
    case = Case(
        protocol=rng.choice(list(PROTOCOLS)),
        deliver=rng.choice(["safe", "agreed"]),
        durability=rng.choice(["os", "os", "sync"]),
        causal=rng.random() < 0.4,
        slow_member=rng.choice(["wait", "wait", "shed"]),
        seed=seed,
        kills=rng.choice([4, 12, 25]),
        messages=rng.choice([10, 40, 120]),
    )
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        found = run_case(case, Path(directory))
        if found.wrong:
            found.wrong.append(keep_files(Path(directory), f"restarts-{seed}"))
    counters = {"kills": found.kills, "messages": found.sent, "deliveries checked": found.delivered}
    return Outcome(not found.wrong, counters, f"{case}: {'; '.join(found.wrong)[-1000:]}")
