"""A process that writes a store as fast as it can, to be killed: one site alone in its group.

`python store_child.py PATH DURABILITY SEED`. It prints what it has been told is durable: `a N` for
the message with seq and position N, `c N` for a confirmation, one per line.
"""

import os
import random
import sys
import threading
import time
from pathlib import Path

from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable
from ordercast.model.options import Limits, Options
from ordercast.net.store import Store, Written
from ordercast.plan.advice import advise

OUTSTANDING = 40  # outboxes


def alone() -> tuple[Structure, Options]:
    table = GroupTable.of({"g": ["a"]})
    forest: Forest = advise(table, "greedy").forest
    return Structure(1, table, forest), Options(
        on_failure="wait", limits=Limits(checkpoint_batches=8)
    )


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main(path: Path, durability: str, seed: int) -> None:
    chance = random.Random(seed)
    store = Store.open(
        path, cluster="c", site="a", durability=durability, mine=lambda _: True,
        call=lambda call: call(),
    )  # fmt: skip
    checkpoint, records = store.restored()
    structure, options = alone()
    site = Site("a", structure, options, boot=store.boot, checkpoint=checkpoint, records=records)
    site.start(time.monotonic_ns())
    room = threading.Semaphore(OUTSTANDING)
    acknowledged = store.confirmed
    tell(f"b {store.boot}")
    while True:
        seq = site.own.last_seq.get("g", 0) + 1
        count = chance.choice((1, 1, 3, 20))
        pad = b"." * chance.choice((0, 100, 5_000))
        payloads = [str(seq + n).encode() + pad for n in range(count)]
        site.submit(time.monotonic_ns(), "g", payloads)
        box = site.drain()
        confirmed = chance.randint(store.confirmed, acknowledged) if chance.random() < 0.3 else None
        room.acquire()

        def then(last: int = seq + count - 1, confirmed: int | None = confirmed) -> None:
            nonlocal acknowledged
            acknowledged = last
            tell(f"a {last}")
            if confirmed is not None:
                tell(f"c {confirmed}")
            room.release()

        store.write(
            Written(
                records=box.persist, at_ns=time.time_ns(), forget=box.forget,
                delivered=acknowledged, confirmed=confirmed,
            ),
            then,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
