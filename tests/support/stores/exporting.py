"""Stores filled by hand, as the sites of a cluster would fill them, and their export."""

from pathlib import Path
from typing import Any

from ordercast.check.report import Report, check_history
from ordercast.core.epochs.records import EpochOpened, Kept
from ordercast.core.outbox import Accepted, Passed
from ordercast.history.reader import read_history
from ordercast.history.rows import History
from ordercast.model.messages import Batch, Key, Placed, Requests, pack_payloads
from ordercast.net.export.history import Exported, export
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import opening_event
from ordercast.net.store.store import Store
from support.stores.records import flush, open_store, write

GROUPS = {"g": ("a", "b", "c"), "h": ("b", "c")}
FOUNDING = [{"epoch": 1, "protocol": "propagation", "builder": "greedy", "members": GROUPS}]


class Cluster:
    """Three stores, filled as sites would: accepted at the origin, then passed at every member.
    `epoch` is the one that is open, `groups` are those in it."""

    def __init__(self, folder: Path, deliver: str = "agreed", sites: str = "abc") -> None:
        self.folder = folder
        self.deliver = deliver
        self.stores: dict[str, Store] = {}
        self.seqs: dict[tuple[str, str], int] = {}
        self.number = 0
        self.epoch = 1
        self.groups: dict[str, tuple[str, ...]] = GROUPS
        for site in sites:
            self.open(site)

    def open(self, site: str) -> None:
        store = open_store(self.folder / f"{site}.db", site=site)
        store.describe(
            sites=["a", "b", "c"], deliver=self.deliver, on_failure="wait",
            epochs=FOUNDING if site in "abc" else [],
        )  # fmt: skip
        self.stores[site] = store

    def change(self, groups: dict[str, tuple[str, ...]], protocol: str = "propagation") -> None:
        """The next epoch opens, at all sites that are in it."""
        closed, self.epoch, self.groups = self.epoch, self.epoch + 1, groups
        for site in sorted({site for members in groups.values() for site in members}):
            store = self.stores[site]
            own = tuple(group for group, members in groups.items() if site in members)
            opened = EpochOpened(
                self.epoch, store.logged, protocol, "greedy", own, own, tuple(groups.items()),
                (closed,),
            )  # fmt: skip
            write(store, events=[opening_event(opened)], at_ns=100 * self.epoch)

    def batch(
        self, origin: str, group: str, *payloads: bytes, requests: Requests | None = None
    ) -> Batch:
        seq = self.seqs.get((origin, group), 0) + 1
        self.seqs[origin, group] = seq + len(payloads) - 1
        body = pack_payloads(list(payloads))
        return Batch(origin, 1, group, seq, len(payloads), body, requests=requests)

    def accept(self, batch: Batch, at_ns: int = 1, after: int = 0) -> None:
        if batch.origin in self.stores:
            box = StoreBox(records=[Accepted(batch)], at_ns=at_ns, after_position=after)
            flush(self.stores[batch.origin], box)

    def place(self, batch: Batch) -> Placed:
        self.number += 1
        return Placed(Key((0, self.number), "b"), batch.seq, batch)

    def passed(self, site: str, placed: Placed, at_ns: int = 2, **given: Any) -> None:
        if site in self.stores:
            mine = site in (placed.batch.members or self.groups[placed.batch.group])
            record = Kept(self.epoch, Passed(placed, "b", True), mine)
            write(self.stores[site], record, at_ns=at_ns, **given)

    def send(
        self, origin: str, group: str, *payloads: bytes, requests: Requests | None = None
    ) -> Placed:
        batch = self.batch(origin, group, *payloads, requests=requests)
        self.accept(batch)
        placed = self.place(batch)
        for site in self.groups[group]:
            self.passed(site, placed)
        return placed

    def some(self, rounds: int = 5) -> None:
        for number in range(rounds):
            for origin in "abc":
                self.send(origin, "g", b"one %d" % number, b"two %d" % number)
                self.send(origin, "h", b"three %d" % number)

    def close(self, *, quiet: bool = True) -> None:
        for store in self.stores.values():
            store.close_sync(quiet=quiet)

    def export(self, **given: Any) -> History:
        self.done: Exported = export(self.folder, self.folder / "out", replace=True, **given)
        return read_history(self.folder / "out")

    def judge(self, **given: Any) -> Report:
        return check_history(self.export(**given), causal=True)


def counts(report: Report) -> dict[str, int]:
    return {name: verdict.count for name, verdict in report.verdicts.items() if verdict.count}
