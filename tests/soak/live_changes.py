"""Soak campaign: a cluster of real daemons, half the time over TLS, changed a dozen times at random
under load with SIGKILLs in the middle, half the time long enough away to be excluded; judged by
every guarantee over all epochs."""

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

from ordercast.core.order.registry import PROTOCOLS
from processes.daemons import Daemons, up
from support.cases.change_scripts import ScriptOfChanges
from support.clusters.changed_cluster import Told, changed
from tools.soak.campaign import Outcome

CASE_S = 60
STEPS = 12
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["e"]}
VOTERS = ["a", "b", "c"]
SENDERS = {
    "a": ("alpha", "gamma"), "b": ("alpha", "beta", "delta"), "d": ("beta", "eta"), "e": ("gamma",),
}  # fmt: skip


def run(seed: int) -> Outcome:
    rng = random.Random(f"live changes {seed}")
    options: dict[str, Any] = {
        "deliver": rng.choice(["safe", "agreed"]),
        "durability": rng.choice(["sync", "os"]),
        "causal": rng.random() < 0.2,
        "protocol": rng.choice(list(PROTOCOLS)),
        "tls": rng.random() < 0.5,
    }
    with (
        tempfile.TemporaryDirectory(prefix="oc-soak-") as place,
        up(Path(place), groups=GROUPS, voters=VOTERS, **options) as daemons,
    ):
        told = asyncio.run(_run(daemons, seed, rng))
    counters = {"changes": told.changes, "messages": told.stable, "refused": told.refused}
    counters |= {f"kills: {target}": count for target, count in told.kills.items()}
    wrong = "; ".join(told.wrong)[:1500]
    return Outcome(not told.wrong, counters, f"{options}: {wrong}")


async def _run(daemons: Daemons, seed: int, rng: random.Random) -> Told:
    script = ScriptOfChanges(GROUPS, VOTERS, rng).draw(STEPS)
    async with changed(daemons, SENDERS, seed, away_s=rng.choice([0.3, 3.0])) as running:
        told = await running.run(script)
        if not told.wrong:
            await asyncio.to_thread(running.judge)
    return told
