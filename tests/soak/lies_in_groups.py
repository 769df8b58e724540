"""Soak campaign: as `lies`, against sites of arrow groups below the core of `hybrid:1:M`."""

from support.worlds.lying_peers import run_case
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    result = run_case(seed, protocol=f"hybrid:1:{2 + seed % 2}")
    return Outcome(not result.wrong, dict(result.counts), "; ".join(result.wrong))
