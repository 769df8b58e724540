"""Soak campaign: five real daemons under load, changes and kills, for as long as you like; what
each process holds (memory, descriptors, threads, store) stays flat, and every delivery is judged.

A case takes two minutes, or `LONG_RUN_MINUTES` of the environment: three hours are
`LONG_RUN_MINUTES=180 make soak SOAK="long_run --cases 1"`. Samples of every process, each 30 s, are
in `.soak/long_run-SEED.jsonl`, with the counts so far."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from processes.daemons import up
from support.clusters.long_run import GROUPS, SITES, LongRun
from tools.soak.campaign import ROOT, Outcome

CASE_S = 130
MINUTES = 2.0
SAMPLE_S = 30.0


def run(seed: int) -> Outcome:
    if sys.platform != "linux":
        return Outcome(False, message="what other processes hold is read from /proc")
    minutes = float(os.environ.get("LONG_RUN_MINUTES", MINUTES))
    level = ("agreed", "safe")[seed % 2]
    samples = ROOT / ".soak" / f"long_run-{seed}.jsonl"
    with (
        tempfile.TemporaryDirectory(prefix="oc-soak-") as place,
        up(Path(place), groups=GROUPS, voters=SITES, deliver=level, durability="os") as daemons,
    ):
        running = LongRun(daemons, seed, samples, sample_s=min(SAMPLE_S, minutes * 60 / 16))
        wrong = asyncio.run(running.run(minutes * 60))
    return Outcome(not wrong, running.counts, f"{level}, {samples}: {'; '.join(wrong)[:1500]}")
