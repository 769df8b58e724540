"""The sink without Spark: batches that are run again, and what never can be sent."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.types import StructType

from ordercast import Delivery, TooLarge, UnknownGroup, whole_files
from ordercast.model.errors import ConfigError, Error
from ordercast.pipeline.streams import sending, sink
from ordercast.pipeline.streams import staging as staging_module
from ordercast.pipeline.streams.options import sink_options
from ordercast.pipeline.streams.sending import commit_batch, number_of
from ordercast.pipeline.streams.sink import SinkWriter, Staged, staged_row
from ordercast.pipeline.streams.staging import (
    KEPT_BATCHES,
    FixedBatch,
    StagedFile,
    StagedRow,
    Staging,
    chunks,
)
from support.clusters.served import Served, served
from support.clusters.sink_retries import DyingStaging, SinkAttack
from support.harness.loops import in_loop

MEMBERS = {"alpha": ["a", "b"], "beta": ["a", "b"]}


async def delivered(sites: Served, site: str) -> dict[str, list[tuple[bytes, dict[str, bytes]]]]:
    """All that a member has, when it has all that was sent."""
    found: dict[str, list[tuple[bytes, dict[str, bytes]]]] = {"alpha": [], "beta": []}
    async with sites.connect(site) as client:
        await (await client.multicast("alpha", b"end")).stable()
        async for item in client.deliveries(1, observe=True):
            if isinstance(item, Delivery):
                if item.payload == b"end":
                    return found
                found[item.group].append((item.payload, item.headers))
    raise AssertionError("it ends")


async def attacked(
    tmp_path: Path, batches: int, retries: int, make: Any = DyingStaging
) -> tuple[SinkAttack, bool]:
    """Whether all members delivered what was fixed, once, in its order."""
    async with served(tmp_path, MEMBERS) as sites:
        attack = SinkAttack(sites, tmp_path / "staged", 7, make)
        for number in range(batches):
            await attack.batch(number, retries)
        good = True
        for site in "ab":
            got = await delivered(sites, site)
            good = good and all(got[group] == attack.wanted(group) for group in MEMBERS)
    return attack, good


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack changes the size of chunks; here it is put back. No machine fails here, so files
    need not be forced to disk: that takes most of the time."""
    monkeypatch.setattr(sending, "chunk_rows", 1_000)
    monkeypatch.setattr(staging_module, "sync", lambda _: None)
    monkeypatch.setattr(whole_files, "sync", lambda _: None)


@in_loop
async def test_a_thousand_retries_send_every_row_once(tmp_path: Path) -> None:
    """Other rows in another order, other sizes of chunks, a driver that dies at every step."""
    attack, good = await attacked(tmp_path, 60, 17)
    assert attack.found.tried >= 1_000
    assert attack.found.died > 300
    assert len(attack.wanted("alpha")) > 100
    assert good


class Refixing(DyingStaging):
    """A batch is what the last run says."""

    fixing = False

    def fixed(self, batch: int) -> FixedBatch | None:
        return super().fixed(batch) if self.fixing else None

    def fix(self, wanted: FixedBatch) -> FixedBatch:
        self.fixing = True
        (self.folder / str(wanted.batch) / "fixed.json").unlink(missing_ok=True)
        return super().fix(wanted)


class Forgetful(DyingStaging):
    """A batch that is done is sent as the next run says."""

    def is_done(self, batch: int) -> bool:
        return False if self.step == "" else super().is_done(batch)

    def finish(self, batch: int) -> None:
        super().finish(batch)
        (self.folder / str(batch) / "fixed.json").unlink(missing_ok=True)


@in_loop
async def test_the_attack_finds_a_sink_that_does_not_fix_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask_nobody(*_: Any) -> None: ...

    monkeypatch.setattr(sending, "_require_unsent", ask_nobody)
    for make in (Refixing, Forgetful):
        folder = tmp_path / make.__name__
        folder.mkdir()
        try:
            _, good = await attacked(folder, 6, 8, make)
        except Error:  # it reads rows that were removed
            good = False
        assert not good, make


@in_loop
async def test_a_folder_that_was_lost_is_noticed(tmp_path: Path) -> None:
    async with served(tmp_path, MEMBERS) as sites:
        for folder in ("one", "two"):
            staging = Staging(tmp_path / folder)
            file = staging.stage(3, 0, iter([StagedRow("alpha", b"x")]))
            sent = commit_batch(staging, "sink", 3, [file], lambda: sites.connect("a"))
            if folder == "one":
                await sent
            else:
                with pytest.raises(Error, match=r"batch 3: some of it, .* group alpha before"):
                    await sent


@in_loop
async def test_two_drivers_at_once_send_one_batch(tmp_path: Path) -> None:
    """One of them was only asleep."""
    async with served(tmp_path, MEMBERS) as sites:
        for number in range(10):
            tries = []
            for site in "ab":
                staging = Staging(tmp_path / "staged")
                rows = [StagedRow("alpha", f"{number}{site}{n}".encode()) for n in range(5)]
                file = staging.stage(number, 0, iter(rows))
                tries.append(
                    commit_batch(staging, "sink", number, [file], partial(sites.connect, site))
                )
            done = await asyncio.gather(*tries, return_exceptions=True)
            assert any(each is None for each in done)  # the other may find the rows removed
            assert all(each is None or "is missing" in str(each) for each in done)
        got = (await delivered(sites, "a"))["alpha"]
        assert len(got) == 50
        for number in range(10):
            texts = [payload.decode() for payload, _ in got[5 * number : 5 * number + 5]]
            winner = texts[0][1]
            assert texts == [f"{number}{winner}{n}" for n in range(5)]


@in_loop
async def test_what_can_never_be_sent_is_not_fixed(tmp_path: Path) -> None:
    """Otherwise the query could not go on, whatever its rows are after a correction."""
    async with served(tmp_path, MEMBERS) as sites:
        staging = Staging(tmp_path / "staged")
        wrong = [
            (StagedRow("alpah", b"x"), UnknownGroup, r"no group 'alpah' \(did you mean 'alpha'"),
            (StagedRow("alpha", bytes(3_000_000)), TooLarge, "a row of partition 0 has 3,000,000"),
        ]
        for row, kind, said in wrong:
            file = staging.stage(0, 0, iter([row]))
            with pytest.raises(kind, match=said):
                await commit_batch(staging, "sink", 0, [file], lambda: sites.connect("a"))
        file = staging.stage(0, 0, iter([StagedRow("alpha", b"right")]))
        await commit_batch(staging, "sink", 0, [file], lambda: sites.connect("a"))
        assert (await delivered(sites, "b"))["alpha"] == [(b"right", {})]


def test_a_batch_without_rows_is_what_was_fixed(tmp_path: Path) -> None:
    """The folder knows the producer, though no task tells it."""

    def nobody() -> Any:
        raise ConnectionError("asked")

    staging = Staging(tmp_path)
    file = staging.stage(4, 0, iter([StagedRow("alpha", b"x")]))
    staging.claim("sink")
    staging.fix(FixedBatch("sink", 4, 10, 10, [file]))
    with pytest.raises(ConnectionError):
        asyncio.run(commit_batch(staging, "", 4, [], nobody))
    asyncio.run(commit_batch(staging, "", 5, [], nobody))
    assert staging.is_done(5)
    assert not staging.is_done(4)


def test_a_folder_belongs_to_one_query(tmp_path: Path) -> None:
    Staging(tmp_path).claim("spark-1")
    with pytest.raises(ConfigError, match=r"stagingLocation: .* belongs to producer 'spark-1'"):
        Staging(tmp_path).claim("spark-2")


def test_another_query_is_refused_though_it_sends_as_the_same_producer(tmp_path: Path) -> None:
    """Its first batches have the numbers of those that are done: its rows would go nowhere."""
    for query in ("q1", "q1"):
        assert Staging(tmp_path).claim("mine", query) == "mine"
    with pytest.raises(ConfigError, match=r"belongs to query q1, and this is query q2"):
        Staging(tmp_path).claim("mine", "q2")
    assert Staging(tmp_path).claim("", "") == "mine"  # a batch without tasks


@in_loop
async def test_a_query_that_was_set_back_is_refused(tmp_path: Path) -> None:
    """Its batches are made anew, perhaps of more rows than those that are done, or of others than
    those that were sent. The last batch may be repeated."""
    staging = Staging(tmp_path)

    def nobody() -> Any:
        raise ConnectionError("asked")

    def commit(batch: int) -> Any:
        file = staging.stage(batch, 0, iter([StagedRow("alpha", b"x")]))
        return commit_batch(staging, "mine", batch, [file], nobody, query="q1")

    staging.claim("mine", "q1")
    for batch in (4, 5):
        staging.fix(FixedBatch("mine", batch, 10, 10, []))
        staging.finish(batch)
    for batch in (3, 4):  # 3 is not known here any more
        with pytest.raises(Error, match=rf"batch {batch}: .* has batch 5, so the checkpoint"):
            await commit(batch)
    await commit(5)
    with pytest.raises(ConnectionError):  # it would be sent
        await commit(6)
    staging.stage(7, 0, iter([StagedRow("alpha", b"x")]))  # says nothing
    with pytest.raises(ConnectionError):
        await commit(6)


def test_staged_rows_that_are_damaged_are_not_sent(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    file = staging.stage(1, 0, iter([StagedRow("alpha", b"x" * 100)]))
    fixed = staging.fix(FixedBatch("sink", 1, 10, 1000, [file]))
    path = tmp_path / "1" / file.name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"y")
    with pytest.raises(Error, match="is damaged"):
        list(staging.rows(fixed))
    path.unlink()
    with pytest.raises(Error, match="is missing"):
        list(staging.rows(fixed))


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def rows() -> Any:
        yield StagedRow("alpha", b"x")
        raise ValueError("a row is wrong")

    with pytest.raises(ValueError, match="a row is wrong"):
        Staging(tmp_path).stage(1, 0, rows())
    assert list((tmp_path / "1").iterdir()) == []


def test_old_batches_go(tmp_path: Path) -> None:
    staging = Staging(tmp_path)
    for batch in (1, 2, 50):
        staging.fix(FixedBatch("sink", batch, 1, 1, []))
        staging.finish(batch)
    staging.finish(KEPT_BATCHES + 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["101", "2", "50"]


def test_chunks_have_one_group_and_the_same_headers() -> None:
    rows = [
        StagedRow("a", b"1"), StagedRow("a", b"2"), StagedRow("b", b"3"),
        StagedRow("b", b"4", (("h", b""),)), StagedRow("b", b"5" * 99), StagedRow("b", b"6"),
    ]  # fmt: skip
    found = [[row.payload[:1] for row in chunk] for chunk in chunks(iter(rows), 10, 50)]
    assert found == [[b"1", b"2"], [b"3"], [b"4"], [b"5"], [b"6"]]
    assert [len(chunk) for chunk in chunks(iter(rows[:2] * 3), 4, 50)] == [4, 2]


def test_numbers_grow_with_batches_and_chunks() -> None:
    assert number_of(0, 1) == 1
    assert number_of(7, 1) > number_of(6, 2**20 - 1)
    with pytest.raises(Error, match="batch 3 has more than 1,048,575 chunks"):
        number_of(3, 2**20)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("value binary", "payload: there is no such column among value"),
        ("payload int", "payload: int is not binary or string"),
        ("payload binary, headers string", "headers: string is not map<string,binary>"),
        ("payload binary, group int", "group: int is not string"),
        ("payload binary, topic string", "topic: ['topic'] are no columns of the sink"),
    ],
)
def test_columns_that_the_sink_cannot_take_are_named(schema: str, said: str) -> None:
    options = sink_options({"nodes": "c.toml", "stagingLocation": "/d", "group": "alpha"})
    with pytest.raises(ConfigError) as found:
        SinkWriter(options, _struct(schema))
    assert said in str(found.value)


def _struct(text: str) -> StructType:
    names = {"binary": "binary", "int": "integer", "string": "string"}
    fields = [
        {"name": name, "type": names[kind], "nullable": True, "metadata": {}}
        for name, kind in (each.split() for each in text.split(", "))
    ]
    found = StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": fields})))
    assert isinstance(found, StructType)
    return found


def test_a_name_that_is_given_counts_as_one_that_others_may_have_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[str, bool, str]] = []

    async def commit(_: Staging, producer: str, *__: Any, chosen: bool, query: str) -> None:
        told.append((producer, chosen, query))

    monkeypatch.setattr(sink, "commit_batch", commit)
    given = {"nodes": "c.toml", "stagingLocation": "/d", "group": "alpha"}
    staged = Staged("spark-1", "1", StagedFile(0, "0-0.rows", 0, "", [], 0))
    for options in (given, {**given, "producer": "spark-1"}):
        SinkWriter(sink_options(options), _struct("payload binary")).commit([staged], 0)
    assert told == [("spark-1", False, "1"), ("spark-1", True, "1")]


def test_a_task_tells_the_commit_of_which_query_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Context:
        told: ClassVar = {"sql.streaming.queryId": "q2", "streaming.sql.batchId": "0"}

        def getLocalProperty(self, name: str) -> str | None:  # noqa: N802
            return self.told.get(name)

        def partitionId(self) -> int:  # noqa: N802
            return 0

    monkeypatch.setattr(TaskContext, "get", Context)
    Staging(tmp_path).claim("mine", "q1")
    given = {"nodes": "c.toml", "stagingLocation": str(tmp_path), "producer": "mine"}
    writer = SinkWriter(sink_options({**given, "group": "alpha"}), _struct("payload binary"))
    staged = writer.write(iter([Row(payload=b"x")]))
    with pytest.raises(ConfigError, match="belongs to query q1, and this is query q2"):
        writer.commit([staged], 0)


def test_rows_without_a_group_or_a_payload_are_refused() -> None:
    options = sink_options({"nodes": "c.toml", "stagingLocation": "/d"})
    with pytest.raises(ConfigError, match="group: name it as an option, or as a column"):
        SinkWriter(options, _struct("payload binary"))
    with pytest.raises(ConfigError, match="payload: a row has none"):
        staged_row({"payload": None}, "alpha")
    with pytest.raises(ConfigError, match="group: a row has none"):
        staged_row({"payload": b"x", "group": None}, None)
    with pytest.raises(ConfigError, match="headers: 'é' is not a name"):
        staged_row({"payload": b"x", "headers": {"é": b""}}, "alpha")
    with pytest.raises(ConfigError, match="group: '' is not a name"):
        staged_row({"payload": b"x", "group": ""}, "alpha")
    assert staged_row({"payload": b"x", "group": None}, "alpha") == StagedRow("alpha", b"x")
    assert staged_row({"payload": "x", "group": "beta"}, "alpha") == StagedRow("beta", b"x")
