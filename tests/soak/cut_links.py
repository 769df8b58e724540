"""Soak campaign: five real sites in network namespaces, ten single links cut one after another,
both ways or one way; every protocol under both policies by turns. Deliveries go on within two
seconds, and nobody is excluded. Needs Linux and root."""

import random
import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.cut_links import drawn_cuts, run_cuts
from support.network.namespaces import why_not
from tools.soak.campaign import Outcome

CASE_S = 60
CUTS = 10


def run(seed: int) -> Outcome:
    if why := why_not():
        return Outcome(False, message=why)
    protocols = list(PROTOCOLS)
    options: dict[str, object] = {
        "protocol": protocols[seed % len(protocols)],
        "on_failure": ("exclude", "wait")[seed // len(protocols) % 2],
        "deliver": "safe",
        "durability": "os",
    }
    cuts = drawn_cuts(random.Random(f"cut links {seed}"), CUTS)
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        found = run_cuts(Path(directory), options, cuts, seed=seed, lasting_s=3.0, most_s=2.0)
    longest = max(found.stops_s.values(), default=0.0)
    found.counters["longest stops, ms, added up"] += round(longest * 1000)
    return Outcome(not found.wrong, found.counters, f"{options}: {'; '.join(found.wrong)[:1500]}")
