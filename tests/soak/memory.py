"""Soak campaign: five minutes with one member that does not read (`wait`), the others sending as
fast as they may; the memory of every process stays bounded. With and without a store, by turns."""

import sys
import tempfile
import time
from pathlib import Path

from support.clusters.processes import Processes, write_cluster
from support.judges.applog import read_notes
from tools.soak.campaign import Outcome

CASE_S = 310
SECONDS = 300
SETTLE_S = 60  # until then caches and buffers fill
MOST_MB = 200  # of one process: Python, what may be unread, windows
LIMITS = {"unread_messages": 50_000, "unread_bytes": "32MB"}
GROWTH_MB = 24  # after it has settled
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["a", "b"], "gamma": ["b", "c", "d"]}


def resident_mb(pid: int) -> float:
    """Of a live process; only where there is /proc."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def run(seed: int) -> Outcome:
    if sys.platform != "linux":
        return Outcome(False, message="the memory of other processes is read from /proc")
    durability = "memory" if seed % 2 else "os"
    with tempfile.TemporaryDirectory(prefix="ordercast-soak-") as directory:
        folder = Path(directory)
        options = {"durability": durability, "deliver": "agreed" if seed % 4 < 2 else "safe"}
        cluster = write_cluster(folder, GROUPS, options, tls=False, limits=LIMITS)
        with Processes(
            folder, cluster, messages=10**9, seed=seed, deaf=("c",), fast=True
        ) as running:
            first, peak = watch(running)
            sent = sum(
                len(note[3])
                for site in running.sites
                for note in read_notes(running.notes(site))
                if note[0] == "accepted"
            )
            before = sizes(running)
            time.sleep(5)
            held = sizes(running) == before
    wrong = [
        f"{site}: {first[site]:.0f} MB after {SETTLE_S} s, {peak[site]:.0f} MB at most"
        for site in first
        if peak[site] > MOST_MB or peak[site] - first[site] > GROWTH_MB
    ]
    if not held:
        wrong.append(f"nobody is held up, after {sent} messages")
    counters = {"messages": sent} | {
        f"MB at most, {durability}, {site}": round(peak[site]) for site in peak
    }
    return Outcome(not wrong, counters, f"{options}: {'; '.join(wrong)}")


def sizes(running: Processes) -> tuple[int, ...]:
    """What applications have noted: unchanged while all of them wait."""
    return tuple(running.notes(site).stat().st_size for site in running.sites)


def watch(running: Processes) -> tuple[dict[str, float], dict[str, float]]:
    begun = time.monotonic()
    first: dict[str, float] = {}
    peak: dict[str, float] = {}
    while (passed := time.monotonic() - begun) < SECONDS:
        time.sleep(0.5)
        for site in running.sites:
            now = resident_mb(running.pid(site))
            peak[site] = max(peak.get(site, 0.0), now)
            if passed >= SETTLE_S:
                first.setdefault(site, peak[site])
    return first, peak
