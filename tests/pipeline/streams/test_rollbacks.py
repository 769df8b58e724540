"""The source with `includeRollbacks`: what may be taken back is read, and told when it is."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from ordercast.history.rows import Delivered, Event, History
from ordercast.history.writer import write_history
from ordercast.model.errors import Error
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.pipeline.streams.offsets import Offset
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.rollbacks import Rollbacks, told_between
from ordercast.pipeline.streams.source import QueryReader
from support.clusters.served import served
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"]}
ALL = ["send:*", "read:*", "observe:*", "admin:*"]


def rows_of(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


class Reading:
    """A query, and what its user has: rows, but those that were taken back."""

    def __init__(self, reader: QueryReader) -> None:
        self.reader = reader
        self.at = reader.initialOffset()
        self.has: dict[int, int] = {}  # attempts by position
        self.told = 0
        self.batches: list[tuple[Any, Any, list[dict[str, Any]]]] = []

    def batch(self) -> list[dict[str, Any]]:
        end = self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())
        rows = rows_of(self.reader, self.reader.partitions(self.at, end))
        for row in rows:
            self.take(row)
        self.batches.append((self.at, end, rows))
        self.at = end
        return rows

    def take(self, row: dict[str, Any]) -> None:
        if row["kind"] == "rollback":
            gone = [n for n in self.has if n > row["position"]]
            assert len(gone) == row["positions"]
            assert all(self.has.pop(n) < row["attempt"] for n in gone)
            self.told += 1
        else:
            assert row["position"] == max(self.has, default=0) + 1
            self.has[row["position"]] = row["attempt"]


class GrowingSite:
    """A site whose deliveries are appended to a history, and now and then taken back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.attempt = 1
        self.stands: dict[int, int] = {}
        self.parts = 0

    def grow(self, chance: random.Random) -> None:
        rows, events = [], []
        for _ in range(chance.randint(1, 3)):
            if self.parts and chance.random() < 0.3:
                self.attempt += 1
                stays = chance.randint(0, len(self.stands))
                self.stands = {n: a for n, a in self.stands.items() if n <= stays}
                events.append(Event("a", 1, "rollback", stays, self.attempt, 1, 0, "{}"))
            for _ in range(chance.randint(0 if self.parts else 1, 4)):
                at = len(self.stands) + 1
                self.stands[at] = self.attempt
                rows.append(Delivered("a", at, self.attempt, 1, "g", "a", 1, at, at))
        self._write(History(deliveries=rows, events=events))

    def _write(self, part: History) -> None:
        self.parts += 1
        if self.parts == 1:
            write_history(part, self.folder)
            return
        new = self.folder.with_name("new")
        write_history(part, new, replace=True)
        for table in ("events", "deliveries"):
            for path in (new / table).glob("*.parquet"):
                path.rename(self.folder / table / f"part-{self.parts:05}.parquet")


@pytest.mark.parametrize("seed", range(8))
def test_a_user_that_follows_rollbacks_has_what_stands(seed: int, tmp_path: Path) -> None:
    """Whatever the limit of a batch; and a batch that is run again later has the same rows."""
    chance = random.Random(seed)
    site = GrowingSite(tmp_path / "h")
    site.grow(chance)
    options = {"history": str(site.folder), "includeRollbacks": "true"}
    if chance.random() < 0.7:
        options["maxOffsetsPerTrigger"] = str(chance.randint(1, 6))
    reading = Reading(QueryReader(source_options(options)))
    for _ in range(12):
        if chance.random() < 0.5:
            site.grow(chance)
        reading.batch()
        start, end, rows = chance.choice(reading.batches)
        assert rows_of(reading.reader, reading.reader.partitions(start, end)) == rows
    while reading.at != reading.reader.latestOffset(reading.at, None):
        reading.batch()
    assert reading.has == site.stands


def test_rollbacks_are_told_in_order_and_those_before_the_query_are_not() -> None:
    rolled = Rollbacks((Offset(2, 50), Offset(3, 8), Offset(4, 9), Offset(5, 3)))
    assert rolled.told(Offset(1, 10), Offset(4, 12)) == (Offset(3, 8),)
    assert rolled.told(Offset(2, 60), Offset(5, 3)) == (Offset(3, 8), Offset(5, 3))
    assert rolled.told(Offset(5, 60), Offset(5, 70)) == ()
    assert (rolled.attempt_at(4), rolled.attempt_at(3)) == (5, 1)
    with pytest.raises(Error, match="site a: rolled back too often since attempt 1"):
        told_between({"a": Rollbacks(rolled.found[1:])}, {"a": Offset(1, 10)}, {})


def test_a_query_that_begins_behind_an_old_rollback_has_lost_nothing(tmp_path: Path) -> None:
    rows = [Delivered("a", n, 2, 1, "g", "a", 1, n, n) for n in range(8, 12)]
    events = [Event("a", 1, "rollback", 4, 2, 1, 0, "{}")]
    write_history(History(deliveries=rows, events=events), tmp_path / "h")
    reader = QueryReader(source_options({"history": str(tmp_path / "h")}))
    start = reader.initialOffset()
    assert start == {"a": [2, 7]}
    assert reader.latestOffset(start, None) == {"a": [2, 11]}


def test_what_is_delivered_again_after_a_rollback_is_read(tmp_path: Path) -> None:
    """The highest position of the files is one that was taken back."""
    folder = tmp_path / "h"
    rows = [Delivered("a", n, 1, 1, "g", "a", 1, n, n) for n in range(1, 9)]
    events = [Event("a", 1, "rollback", 4, 2, 1, 0, "{}")]
    write_history(History(deliveries=rows, events=events), folder)
    reader = QueryReader(source_options({"history": str(folder)}))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert end == {"a": [2, 4]}
    more = [Delivered("a", n, 2, 1, "g", "a", 1, n, n) for n in range(5, 7)]
    write_history(History(deliveries=more), tmp_path / "more")
    (tmp_path / "more" / "deliveries").rename(folder / "deliveries" / "more")
    later = reader.latestOffset(end, None)
    found = rows_of(reader, reader.partitions(end, later))
    assert [(row["position"], row["attempt"]) for row in found] == [(5, 2), (6, 2)]


@in_loop
async def test_daemons_and_stores_tell_what_an_excluded_site_takes_back(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c"], certs)
    add_client_certificates("local", ["spark"], certs)
    grants = {"socket": ALL, "site:*": ALL, "client:spark": ["read:*"]}
    options: dict[str, Any] = {"tls": {"dir": str(certs)}, "grants": grants, "deliver": "agreed"}
    options["timeouts"] = {"suspect": "200ms"}
    async with served(tmp_path, GROUPS, remote=True, **options) as sites:
        cluster = sites.cluster
        nodes = {"nodes": sites.address("a"), "cert": str(certs / "clients" / "spark.pem")}
        places = [
            {"store": str(tmp_path), "sites": "a"},
            {**nodes, "timeout": "20", "readerName": "told"},
        ]
        await (await cluster["a"].multicast("alpha", b"all")).stable()
        found = [
            await asyncio.to_thread(
                Reading, QueryReader(source_options({**place, "includeRollbacks": "true"}))
            )
            for place in places
        ]
        plain = QueryReader(source_options(places[1] | {"readerName": "plain"}))
        start = await asyncio.to_thread(plain.initialOffset)
        cluster.split(["a"], ["b", "c"])
        await (await cluster["a"].multicast("alpha", b"alone")).ordered()
        for reading in found:
            await until(reading, {1: 1, 2: 1})
        assert (await asyncio.to_thread(plain.latestOffset, start, None))["a"] == [1, 1]
        before = [reading.batches[-1] for reading in found]
        await (await cluster["b"].multicast("alpha", b"together")).stable()
        cluster.heal()
        for reading, (begin, end, rows) in zip(found, before, strict=True):
            await until(reading, {1: 1, 2: 2, 3: 2})
            assert reading.told == 1
            again = await asyncio.to_thread(reading.reader.partitions, begin, end)
            left = await asyncio.to_thread(rows_of, reading.reader, again)
            assert left == [row for row in rows if row["position"] < 2]  # the rest is gone
        for reader in (plain, *(reading.reader for reading in found)):
            await asyncio.to_thread(reader.stop)


async def until(reading: Reading, wanted: dict[int, int]) -> None:
    """Read until the user has these; batches without rows are not kept."""
    while reading.has != wanted:
        if not await asyncio.to_thread(reading.batch):
            reading.batches.pop()
            await asyncio.sleep(0.02)
