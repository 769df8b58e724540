"""Soak campaign: three real sites send as fast as they may for ten minutes, and one of them stands
still for a minute of it (`wait`). Memory and stores stay below their limits, under every tracker of
stability and every protocol by turns; the others stop while it does, and go on with it."""

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.options import Limits
from support.clusters.processes import Processes, write_cluster
from support.judges.applog import read_notes
from tools.soak.campaign import Outcome

CASE_S = 640
SECONDS = 600
PAUSE_S = 60
MOST_MB = 100  # of one process: Python, what may be unread, windows
MOST_STORE_MB = 64  # of one site: windows, what is held, the log of the store
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["a", "b"], "gamma": ["b", "c"]}


@dataclass
class Watched:
    memory: dict[str, float] = field(default_factory=dict)  # the most, in MB
    store: dict[str, float] = field(default_factory=dict)
    notes: list[int] = field(default_factory=list)  # of all applications, every second or so


def run(seed: int, seconds: int = SECONDS, pause: int = PAUSE_S) -> Outcome:
    if sys.platform != "linux":
        return Outcome(False, message="the memory of other processes is read from /proc")
    options = {
        "protocol": list(PROTOCOLS)[(seed + seed // len(PROTOCOLS)) % len(PROTOCOLS)],
        "stability": list(TRACKERS)[seed % len(TRACKERS)],
        "deliver": "agreed" if seed // len(TRACKERS) % 2 else "safe",
        "on_failure": "wait",
        "durability": "os",
    }
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        cluster = write_cluster(folder, GROUPS, options, tls=False)
        text = cluster.read_text(encoding="utf-8").replace('"24h"', '"stable"')
        cluster.write_text(text, encoding="utf-8")
        with Processes(folder, cluster, messages=10**9, seed=seed, fast=True) as running:
            before = watch(running, (seconds - pause) / 3)
            site = running.sites[seed % len(running.sites)]
            os.kill(running.pid(site), signal.SIGSTOP)
            try:
                at_first = accepted(running)
                during = watch(running, pause)
                more = {name: count - at_first[name] for name, count in accepted(running).items()}
            finally:
                os.kill(running.pid(site), signal.SIGCONT)
            after = watch(running, 2 * (seconds - pause) / 3)
    wrong = [
        f"{name}: {what} {amount:.0f} MB"
        for watched in (before, during, after)
        for what, most, amounts in (
            ("memory", MOST_MB, watched.memory),
            ("store", MOST_STORE_MB, watched.store),
        )
        for name, amount in amounts.items()
        if amount > most
    ]
    if max(more.values()) > Limits().window_messages:
        wrong.append(f"not held up by {site}: {more} messages more")
    if after.notes[-1] <= after.notes[0]:
        wrong.append(f"nobody goes on with {site}")
    counters = {
        f"MB of memory at most, {options['stability']}": round(_most(before, during, after))
    }
    counters["MB of a store at most"] = round(
        max(amount for each in (before, during, after) for amount in each.store.values())
    )
    counters["KB of notes"] = after.notes[-1] // 1000
    return Outcome(not wrong, counters, f"{options}: {'; '.join(wrong)}")


def accepted(running: Processes) -> dict[str, int]:
    """Messages of each site so far."""
    return {
        site: sum(len(note[3]) for note in read_notes(running.notes(site)) if note[0] == "accepted")
        for site in running.sites
    }


def watch(running: Processes, seconds: float) -> Watched:
    found = Watched()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(1)
        for site in running.sites:
            _note(found.memory, site, _resident_mb(running.pid(site)))
            files = running.stores.glob(f"{site}.db*")
            _note(found.store, site, sum(file.stat().st_size for file in files) / 1e6)
        written = [running.notes(site) for site in running.sites]
        found.notes.append(sum(file.stat().st_size for file in written if file.exists()))
    return found


def _note(most: dict[str, float], site: str, amount: float) -> None:
    most[site] = max(amount, most.get(site, 0.0))


def _most(*all_watched: Watched) -> float:
    return max(amount for watched in all_watched for amount in watched.memory.values())


def _resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6
