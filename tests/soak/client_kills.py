"""Soak campaign: clients send through real daemons that are killed at any moment, half of them with
a slow disk; every protocol, at both levels. Each message must be delivered once at every member, by
client and payload, in each client's order."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.campaigns.client_kills import Case, run_case
from tools.soak.campaign import Outcome

CASE_S = 20
KILLS = 6
GROUPS = (
    {"alpha": ["a", "b", "c"]},
    {"alpha": ["a", "b", "c"], "beta": ["b", "c"]},
    {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["a", "d"]},
)


def run(seed: int) -> Outcome:
    rng = random.Random(f"client kills {seed}")
    protocol = list(PROTOCOLS)[seed % len(PROTOCOLS)]
    case = Case(
        seed,
        protocol,
        rng.choice(PROTOCOLS[protocol].builders or ("greedy", "balanced")),
        rng.choice(["safe", "agreed"]),
        slow=rng.random() < 0.6,
        groups=rng.choice(GROUPS),
        clients=rng.randint(2, 5),
        kills=KILLS,
    )
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_case(case, Path(place))
    counters = {**found.counts, f"kills: {protocol}": found.counts["kills"]}
    return Outcome(not found.wrong, counters, f"{case}: {'; '.join(found.wrong)[:1500]}")
