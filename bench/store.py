"""How fast a store takes batches, beside a bare SQLite loop and beside appending to a file.

`make bench BENCH=store`. A window of outboxes, one batch each, is kept with the store, as a driver
does; the store makes as few commits of them as it can. The bare loop commits groups of that size
with one `executemany`, into a table without positions, checksums or anything to recover; the floor
appends the same bytes to a file, one write for each group, and a sync where the store has one. The
three take turns and the best round of each counts.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any

from ordercast.core.epochs.records import Kept
from ordercast.core.outbox import Passed
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.net.store.box import StoreBox
from ordercast.net.store.rows import encode
from ordercast.net.store.store import Store

PAYLOAD_BYTES = 100
CASES = [  # durability, messages per batch, outboxes with the store
    ("sync", 1, 1),
    ("sync", 1, 256),
    ("sync", 100, 256),
    ("os", 1, 1),
    ("os", 1, 256),
    ("os", 100, 256),
]
CARRY_BYTES = 8 << 20  # after which the log is carried over, as the store does


def kept(n: int, messages: int, body: bytes) -> Kept:
    batch = Batch("b", 1, "alpha", 1 + n * messages, messages, body)
    return Kept(1, Passed(Placed(Key((0, n), "r"), batch.seq, batch), "r", True), True)


def packed(messages: int) -> bytes:
    return pack_payloads([bytes(PAYLOAD_BYTES)] * messages)


async def store(
    path: Path, durability: str, messages: int, window: int, seconds: float
) -> tuple[float, float]:
    """Batches that became durable per second, and how many went into a commit."""
    target = Store.open(path, cluster="bench", site="a", durability=durability)
    body = packed(messages)
    room = asyncio.Semaphore(window)
    count = 0
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        await room.acquire()
        target.write(StoreBox(records=[kept(count, messages, body)], at_ns=1), room.release)
        count += 1
    for _ in range(window):
        await room.acquire()
    took = time.perf_counter() - begun
    commits = sum(target.commit_times.counts)
    await target.close()
    return count / took, count / commits


def bare(path: Path, durability: str, messages: int, group: int, seconds: float) -> float:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={'FULL' if durability == 'sync' else 'NORMAL'}")
    db.execute("PRAGMA wal_autocheckpoint=0")
    db.execute("CREATE TABLE batches(n INTEGER PRIMARY KEY, body BLOB)")
    body = encode(kept(1, messages, packed(messages)).passed)
    count = since = 0
    begun = time.perf_counter()
    while (took := time.perf_counter() - begun) < seconds:
        db.execute("BEGIN IMMEDIATE")
        rows = [(count + n, body) for n in range(group)]
        db.executemany("INSERT INTO batches VALUES (?,?)", rows)
        db.execute("COMMIT")
        count += group
        since += group * len(body) + 16_384
        if since > CARRY_BYTES:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            since = 0
    db.close()
    return count / took


def floor(path: Path, durability: str, messages: int, group: int, seconds: float) -> float:
    data = encode(kept(1, messages, packed(messages)).passed) * group
    count = 0
    with path.open("wb", buffering=0) as file:
        begun = time.perf_counter()
        while (took := time.perf_counter() - begun) < seconds:
            file.write(data)
            if durability == "sync":
                os.fdatasync(file.fileno())
            count += group
    return count / took


def measure(case: tuple[str, int, int], seconds: float, rounds: int) -> dict[str, Any]:
    durability, messages, window = case
    best = {"store": 0.0, "bare": 0.0, "floor": 0.0}
    group = 1.0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            rate, group = asyncio.run(
                store(Path(folder, "a.db"), durability, messages, window, seconds)
            )
            best["store"] = max(best["store"], rate)
        for name, run in (("bare", bare), ("floor", floor)):
            with tempfile.TemporaryDirectory() as folder:
                rate = run(Path(folder, "b.db"), durability, messages, round(group), seconds)
                best[name] = max(best[name], rate)
    return {
        "durability": durability,
        "messages": messages,
        "window": window,
        "group": group,
        "batches_per_s": best["store"],
        "mb_per_s": best["store"] * messages * PAYLOAD_BYTES / 1e6,
        "of_bare": best["store"] / best["bare"],
        "of_floor": best["store"] / best["floor"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench BENCH=store", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round (default: 1)")
    parser.add_argument("--rounds", type=int, default=4, help="(default: 4)")
    args = parser.parse_args()
    results = [measure(case, args.seconds, args.rounds) for case in CASES]
    if args.json:
        print(json.dumps({"store": results}))
        return
    print(f"batches of messages of {PAYLOAD_BYTES} bytes; times a bare SQLite loop, times a file")
    for row in results:
        print(
            f"{row['durability']:4} {row['messages']:4} a batch, {row['window']:4} outboxes:"
            f" {row['batches_per_s']:9,.0f} batches/s {row['mb_per_s']:7.2f} MB/s"
            f"  {row['group']:5.0f} a commit  bare {row['of_bare']:.2f}  file {row['of_floor']:.2f}"
        )


if __name__ == "__main__":
    main()
