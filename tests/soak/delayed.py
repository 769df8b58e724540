"""Soak campaign: four real daemons between which everything takes 50 to 150 ms, through changes, a
kill and a restart; 24 cases are every protocol at both levels, half of them over TLS. Nothing is
lost, doubled or reordered, nobody is suspected while all is calm, and the times are counted."""

import tempfile
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.delayed import run_delayed
from tools.soak.campaign import Outcome

CASE_S = 60
LINE_S = (0.05, 0.15)


def run(seed: int) -> Outcome:
    protocols = list(PROTOCOLS)
    protocol = protocols[seed % len(protocols)]
    turn = seed // len(protocols) % 2
    level = ("safe", "agreed")[turn]
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run_delayed(
            Path(place), protocol, level, line_s=LINE_S, tls=bool((seed + turn) % 2)
        )
    counters = {f"{protocol}, {level}: {what}": count for what, count in found.counts.items()}
    return Outcome(
        not found.wrong, counters, f"{protocol}, {level}: {'; '.join(found.wrong)[:1500]}"
    )
