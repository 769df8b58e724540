"""A process that writes a store as fast as it can, to be killed: one member alone in its group,
through one epoch after the other.

`python store_child.py PATH DURABILITY SEED`. It prints what it has been told is durable: `a N` for
the message with seq and position N, `c N` for a confirmation, one per line.
"""

import os
import random
import sys
import threading
import time
from pathlib import Path

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.raft import VotingTimes
from ordercast.core.epochs.records import EpochOpened
from ordercast.forest.forest import Forest
from ordercast.forest.star import build_star
from ordercast.model.epochs import UseBuilder
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, Limits, Options
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import opening_event
from ordercast.net.store.store import Store

OUTSTANDING = 40  # outboxes


def build(table: GroupTable, builder: str, protocol: str) -> Forest:  # noqa: ARG001
    return build_star(table)


def alone(store: Store) -> Member:
    layout = first_layout(["a"], ["a"], {"g": ("a",)}, "star", "propagation", build)
    options = Options(on_failure="wait", limits=Limits(checkpoint_batches=8))
    return Member(
        "a", layout, options, build, boot=store.boot, store=store.store_number,
        times=VotingTimes(beat=MILLISECOND, election=5 * MILLISECOND), records=store.restored(),
    )  # fmt: skip


def tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def main(path: Path, durability: str, seed: int) -> None:
    chance = random.Random(seed)
    store = Store.open(path, cluster="c", site="a", durability=durability, call=lambda call: call())
    member = alone(store)
    member.start(time.monotonic_ns())
    room = threading.Semaphore(OUTSTANDING)
    acknowledged = store.confirmed
    tell(f"b {store.boot}")
    while True:
        now = time.monotonic_ns()
        member.alarm(now)
        if chance.random() < 0.02:
            member.ask(now, f"change {now}", (UseBuilder("star"),))
        seq = member.window.last_seq("g") + 1
        count = chance.choice((1, 1, 3, 20))
        pad = b"." * chance.choice((0, 100, 5_000))
        payloads = [str(seq + n).encode() + pad for n in range(count)]
        member.submit(now, "g", payloads)
        box = member.drain()
        opened = [opening_event(item) for item in box.deliver if isinstance(item, EpochOpened)]
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
            StoreBox(
                records=box.persist, at_ns=time.time_ns(), forget=box.forget,
                delivered=acknowledged, confirmed=confirmed, events=opened,
            ),
            then,
        )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
