"""Killing a process that writes a store (`store_child`), and looking at what it left."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from ordercast.net.store.store import Store
from support.programs import store_child
from support.stores.records import open_store


def killed(path: Path, durability: str, seed: int, after_s: float) -> list[str]:
    """What the process had said when it was killed, `after_s` after its first word."""
    child = subprocess.Popen(
        [sys.executable, store_child.__file__, str(path), durability, str(seed)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        time.sleep(after_s)
        child.send_signal(signal.SIGKILL)
        lines.extend(child.stdout)
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()
    return [line.strip() for line in lines if line.endswith("\n")]


def last(lines: list[str], kind: str) -> int:
    return max((int(line.split()[1]) for line in lines if line.startswith(kind)), default=0)


def read_all(store: Store) -> list[int]:
    """The positions above the confirmed one; each must hold the message that belongs there. A batch
    that is confirmed in part comes whole."""
    found: list[int] = []
    position = store.confirmed + 1
    while batches := store.read(position, 500):
        for delivery in (d for batch in batches for d in batch.deliveries()):
            assert delivery.seq == delivery.position == int(delivery.payload.rstrip(b"."))
            if delivery.position > store.confirmed:
                found.append(delivery.position)
        position = batches[-1].last + 1
    return found


def kill_and_look(path: Path, durability: str, kill: int, after_s: float, before: int) -> int:
    """The `kill`-th kill: all that was acknowledged is there; the last position that was."""
    lines = killed(path, durability, kill, after_s)
    assert lines[0] == f"b {2 * kill - 1}"
    store = open_store(path, durability)
    assert store.boot == 2 * kill
    acknowledged = max(before, last(lines, "a"))
    assert store.logged >= acknowledged
    assert last(lines, "c") <= store.confirmed <= acknowledged
    assert read_all(store) == list(range(store.confirmed + 1, store.logged + 1))
    store.close_sync()
    return acknowledged
