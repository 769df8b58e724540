"""Soak campaign: real processes under `exclude` are suspended for longer than `suspect`, as a
machine that sleeps or a debugger does it: the manager, a member, both, all of them at once, and one
again and again for a moment. The others go on, those that wake return, and nothing is wrong."""

import os
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from support.clusters.processes import Processes, write_cluster
from tools.soak.campaign import Outcome

CASE_S = 60
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d", "e"], "gamma": ["a", "e"]}
ASLEEP_S, MOMENT_S = 3.0, 0.45  # `suspect` is 0.5 s


def run(seed: int) -> Outcome:
    rng = random.Random(f"suspended {seed}")
    names = [name for name, info in PROTOCOLS.items() if info.exclude]
    options = {
        "protocol": names[seed % len(names)],
        "deliver": rng.choice(["safe", "agreed"]),
        "on_failure": "exclude",
        "durability": "os",
    }
    slept = 0
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        cluster = write_cluster(
            folder, GROUPS, options, tls=seed % 2 == 1, timeouts={"suspect": "500ms"}
        )
        with Processes(folder, cluster, messages=300, seed=seed, steady=True) as running:
            running.wait_until(lambda: any(running.told(running.sites[0], "manager")))
            for what in rng.sample(["manager", "member", "two", "all", "moments"], 5):
                told = [name for name in running.told(running.sites[0], "manager") if name]
                manager = told[-1]
                member = rng.choice([site for site in running.sites if site != manager])
                who = {"manager": [manager], "two": [manager, member], "all": running.sites}
                for _ in range(6 if what == "moments" else 1):
                    suspend(running, who.get(what, [member]), what == "moments")
                    slept += 1
                time.sleep(rng.random() * 3)
            running.settle(120)
            running.stop()
            verdict = running.judge()
    counters = {"sleeps": slept, "messages": verdict.sent, "deliveries checked": verdict.delivered}
    return Outcome(not verdict.wrong, counters, f"{options}: {verdict.wrong[:3]}")


def suspend(running: Processes, sites: Sequence[str], moment: bool) -> None:
    for site in sites:
        os.kill(running.pid(site), signal.SIGSTOP)
    try:
        time.sleep(MOMENT_S if moment else ASLEEP_S)
    finally:
        for site in sites:
            os.kill(running.pid(site), signal.SIGCONT)
    if moment:
        time.sleep(0.2)
