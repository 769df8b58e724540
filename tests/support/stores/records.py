"""Stores for tests: small records, and a store that is driven without an event loop."""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.epochs.records import Anew, EngineState, Kept, MemberRecord
from ordercast.core.outbox import FIRST_OPENING, Accepted, Checkpoint, Passed
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.net.store.box import StoreBox
from ordercast.net.store.store import Store

SOON_S = 30.0  # that a busy machine may take


def batch(seq: int, count: int = 1, *, origin: str = "a", group: str = "g", size: int = 8) -> Batch:
    """Payloads tell their seq, and are at least `size` bytes."""
    payloads = [f"{origin}{seq + n}".encode().ljust(size, b".") for n in range(count)]
    return Batch(origin, 1, group, seq, count, pack_payloads(payloads))


def accepted(seq: int, count: int = 1, **given: Any) -> Accepted:
    return Accepted(batch(seq, count, **given))


def kept(
    seq: int, count: int = 1, *, number: int | None = None, epoch: int = 1, mine: bool = True,
    **given: Any,
) -> Kept:  # fmt: skip
    """A batch from the parent, placed there in the order of its numbers."""
    at = seq if number is None else number
    placed = Placed(Key((0, at), "r"), at, batch(seq, count, **given))
    return Kept(epoch, Passed(placed, "r", True), mine)


def engine(epoch: int = 1, records: Sequence[Accepted | Kept] = (), **state: object) -> EngineState:
    """What is accepted comes first."""
    own = [record for record in records if isinstance(record, Accepted)]
    passed = [record.passed for record in records if isinstance(record, Kept)]
    given = {"ordering": {}, "own_seqs": {"g": 1 << 30}, **state}
    folded = msgspec.structs.replace(FIRST_OPENING.state, **given)
    return EngineState(epoch, Checkpoint(folded, (*own, *passed)))


def anew(
    position: int, *engines: EngineState, lasts: Mapping[tuple[str, int, str], int] | None = None
) -> Anew:
    """`lasts`: what the closed epochs include."""
    layout = Layout(1, {}, (), {}, {}, 1, lasts=lasts or {})
    return Anew(pack_layout(layout), position, 1, engines, ())


def open_store(path: Path, durability: str = "os", **given: Any) -> Store:
    """Calls are made in the writer's thread, as soon as they are due."""
    given.setdefault("call", lambda call: call())
    return Store.open(path, **{"cluster": "c", "site": "a", "durability": durability, **given})


def write(store: Store, *records: MemberRecord, **given: Any) -> None:
    """A box, and wait until it is durable."""
    flush(store, StoreBox(records=records, **given))


def flush(store: Store, box: StoreBox | None = None) -> None:
    done = threading.Event()
    store.write(box or StoreBox(), done.set)
    assert done.wait(SOON_S), "the store did not answer"


def until_failed(store: Store, *, failed: bool = True) -> None:
    """Wait until the store cannot be written, or can be again."""
    end = time.monotonic() + SOON_S
    while (store.failed is not None) != failed:
        assert time.monotonic() < end, store.failed
        time.sleep(0.005)


def kill(store: Store, to: Path) -> Path:
    """The files as a SIGKILL would leave them now, under another name."""
    for ending in ("", "-wal"):
        beside = store.path.with_name(store.path.name + ending)
        if beside.exists():
            shutil.copyfile(beside, to.with_name(to.name + ending))
    return to


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Permissions do not bind root: act as a user whom they bind, who may come to the folder and
    write there."""
    user = os.geteuid()
    with suppress(PermissionError):
        folder.chmod(0o777)
        for above in folder.parents:
            if not above.stat().st_mode & 0o001:
                above.chmod(0o755)
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(user)


def ask(store: Store, query: str) -> list[Any]:
    """The first column of what the file says, over another connection."""
    db = sqlite3.connect(store.path)
    try:
        return [row[0] for row in db.execute(query).fetchall()]
    finally:
        db.close()
