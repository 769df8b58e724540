"""What is looked at before a batch is fixed: a fixed batch can be sent."""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast import Delivery, TooLarge, connect
from ordercast.model.errors import ConfigError, Error
from ordercast.model.headers import HeaderItems
from ordercast.net.client.outgoing import SendLimits
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.pipeline.streams import sending
from ordercast.pipeline.streams.sending import commit_batch, cut, require_fitting
from ordercast.pipeline.streams.staging import StagedFile, StagedRow, Staging, chunks
from support.clusters.served import Served, served
from support.harness.loops import in_loop

MEMBERS = {"alpha": ["a", "b"], "beta": ["a", "b"]}
ALL = ["send:*", "read:*", "observe:*", "admin:*"]


def rows_of(*texts: str) -> list[StagedRow]:
    return [StagedRow({"a": "alpha", "b": "beta"}[text[0]], text.encode()) for text in texts]


def stage(staging: Staging, rows: Iterable[StagedRow], batch: int = 0) -> StagedFile:
    return staging.stage(batch, 0, iter(rows))


async def delivered(sites: Served) -> list[bytes]:
    async with sites.connect("b") as client:
        await (await client.multicast("alpha", b"end")).stable()
        found = []
        async for item in client.deliveries(1, observe=True):
            if isinstance(item, Delivery):
                if item.payload == b"end":
                    break
                found.append(item.payload)
        return found


def served_to_strangers(tmp_path: Path, *grants: str, **limits: int) -> Any:
    """Sites that the client `spark` may reach with its certificate."""
    write_certificates("local", ["a", "b"], tmp_path / "certs")
    add_client_certificates("local", ["spark"], tmp_path / "certs")
    table = {"socket": ALL, "site:*": ALL, "client:spark": list(grants)}
    tls = {"dir": str(tmp_path / "certs")}
    return served(tmp_path, MEMBERS, remote=True, tls=tls, grants=table, limits=limits)


def stranger(sites: Served, site: str = "a") -> Any:
    cert = sites.directory / "certs" / "clients" / "spark.pem"
    return connect(sites.address(site), cert=str(cert))


@in_loop
async def test_a_batch_whose_rows_the_driver_does_not_find_is_not_fixed(tmp_path: Path) -> None:
    """As where each machine has a folder of its own. When it is shared, the batch goes."""
    async with served(tmp_path, MEMBERS) as sites:
        there, here = Staging(tmp_path / "executor"), Staging(tmp_path / "driver")
        files = [stage(there, rows_of("a1", "a2"))]
        with pytest.raises(ConfigError, match=r"stagingLocation: .*\.rows: is missing; a task has"):
            await commit_batch(here, "sink", 0, files, lambda: sites.connect("a"))
        assert here.fixed(0) is None
        again = [stage(here, rows_of("a3"))]
        await commit_batch(here, "sink", 0, again, lambda: sites.connect("a"))
        assert await delivered(sites) == [b"a3"]


@in_loop
async def test_a_batch_of_too_many_chunks_is_refused_before_its_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "CHUNKS", 4)
    async with served(tmp_path, MEMBERS) as sites:
        staging = Staging(tmp_path / "staged")
        files = [stage(staging, rows_of("a1", "b1", "a2", "b2"))]
        with pytest.raises(
            Error, match="batch 0 has more than 3 chunks, which end where the group"
        ):
            await commit_batch(staging, "sink", 0, files, lambda: sites.connect("a"))
        assert staging.fixed(0) is None
        files = [stage(staging, rows_of("a1", "a2", "b1", "b2"))]
        await commit_batch(staging, "sink", 0, files, lambda: sites.connect("a"))
        assert await delivered(sites) == [b"a1", b"a2", b"b1", b"b2"]


@in_loop
async def test_chunks_fit_into_the_window_of_a_client_however_small_it_is(tmp_path: Path) -> None:
    """Messages and bytes. A single row may be larger than the share."""
    limits = {"window_messages": 40, "window_bytes": 60_000, "message_bytes": 60_000}
    texts = [f"a{n}" + "x" * (n * 500) for n in range(60)]
    async with (
        served_to_strangers(tmp_path, "send:*", "read:*", **limits) as sites,
        stranger(sites) as client,
    ):
        assert client.send_limits[:2] == (20, 30_000)
        staging = Staging(tmp_path / "staged")
        files = [stage(staging, rows_of(*texts, "a" + "y" * 50_000))]
        await commit_batch(staging, "sink", 0, files, lambda: stranger(sites))
        found = [payload.decode() for payload in await delivered(sites)]
        assert found == [*texts, "a" + "y" * 50_000]


headers = st.lists(st.binary(max_size=4_000), max_size=2).map(
    lambda values: tuple((str(n), value) for n, value in enumerate(values))
)


@given(
    st.integers(1, 20_000),
    st.integers(1, 8_000_000),
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 300), headers), max_size=6),
)
def test_a_chunk_fits_whatever_the_limits_are(
    messages: int, size: int, runs: list[tuple[int, int, HeaderItems]]
) -> None:
    rows = [StagedRow("alpha", bytes(n), items) for n, count, items in runs for _ in range(count)]
    limits = SendLimits(messages, size, 1_048_576, headers=True)
    fixed = cut(limits, "sink", 0, [])
    for part in chunks(iter(rows), fixed.chunk_rows, fixed.chunk_bytes):
        require_fitting(part, limits)
    if messages >= 4_000 and size >= 2_000_000:
        assert (fixed.chunk_rows, fixed.chunk_bytes) == (1_000, sending.CHUNK_BYTES)


def test_what_a_client_would_refuse_is_refused() -> None:
    row = StagedRow("alpha", b"x" * 60, (("h", b""),))
    for limits, kind, said in (
        (SendLimits(10, 10_000, 50, True), TooLarge, "a message of 60 bytes; the limit is 50"),
        (SendLimits(10, 10_000, 100, False), ConfigError, "headers: this cluster does not use"),
        (SendLimits(1, 10_000, 100, True), TooLarge, "a chunk of 2 rows .* may have 1 "),
        (SendLimits(2, 100, 100, True), TooLarge, r"a chunk of 2 rows .* \(100 bytes\) under way"),
    ):
        with pytest.raises(kind, match=said):
            require_fitting([row, row], limits)
    require_fitting([row], SendLimits(1, 1, 60, True))


@in_loop
async def test_a_limit_that_was_lowered_since_is_named_until_it_is_raised_again(
    tmp_path: Path,
) -> None:
    wide = SendLimits(10_000, 8_000_000, 1_048_576, True)
    async with served_to_strangers(tmp_path, "send:*", "read:*", window_messages=40) as sites:
        staging = Staging(tmp_path / "staged")
        file = stage(staging, rows_of(*(f"a{n}" for n in range(100))))
        staging.claim("sink")
        staging.fix(cut(wide, "sink", 0, [file]))
        with pytest.raises(TooLarge, match=r"batch 0: it was fixed when that could be sent.* 100 "):
            await commit_batch(staging, "sink", 0, [], lambda: stranger(sites))
        await commit_batch(staging, "sink", 0, [], lambda: sites.connect("a"))
        assert len(await delivered(sites)) == 100
        assert staging.is_done(0)


@in_loop
async def test_a_driver_that_another_one_overtakes_sends_what_that_has_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done, and has removed the rows, while this one looks at its own."""
    async with served(tmp_path, MEMBERS) as sites:
        staging = Staging(tmp_path / "staged")
        mine, other = (stage(staging, rows_of(text)) for text in ("a1", "a2"))
        walk = sending._walk

        def overtaken(limits: SendLimits, place: Staging, wanted: Any) -> None:
            place.fix(cut(limits, "sink", 0, [other]))
            shutil.move(tmp_path / "staged" / "0" / mine.name, tmp_path / "removed")
            walk(limits, place, wanted)

        monkeypatch.setattr(sending, "_walk", overtaken)
        await commit_batch(staging, "sink", 0, [mine], lambda: sites.connect("a"))
        assert await delivered(sites) == [b"a2"]


@in_loop
async def test_a_new_folder_needs_proof_that_it_is_the_first_and_no_grant_is_taken_for_one(
    tmp_path: Path,
) -> None:
    """The rows of the second folder have the numbers of the first: they would be dropped as copies,
    without a word, where nobody may ask for the mark."""
    async with served_to_strangers(tmp_path, "send:*") as sites:

        async def send(folder: str, batch: int, text: str, *, chosen: bool, site: str = "") -> None:
            staging = Staging(tmp_path / folder)
            files = [stage(staging, rows_of(text), batch)] if text else []
            client = partial(sites.connect, site) if site else partial(stranger, sites)
            producer = "sink" if text else ""
            await commit_batch(staging, producer, batch, files, client, chosen=chosen)

        with pytest.raises(
            ConfigError, match=r"one is new, and whether producer 'sink' .* enough\)"
        ):
            await send("one", 0, "a1", chosen=True)
        await send("one", 0, "a1", chosen=False)  # a name that nobody has used
        await send("one", 1, "a2", chosen=False)
        for batch, chosen in ((0, True), (1, True), (1, False), (2, False)):
            with pytest.raises(ConfigError, match=r"two is new, .* client:spark .* restore it"):
                await send("two", batch, "a3", chosen=chosen)
            assert Staging(tmp_path / "two").fixed(batch) is None
        with pytest.raises(Error, match="batch 1: some of it"):
            await send("two", 1, "a3", chosen=False, site="a")
        await send("two", 2, "a3", chosen=False, site="a")  # its member knows: nothing was sent
        await send("two", 3, "a4", chosen=False)
        await send("three", 0, "", chosen=False)  # no tasks: it is there from the beginning
        await send("three", 1, "", chosen=False)
        with pytest.raises(ConfigError, match="four is new"):
            await send("four", 4, "a5", chosen=False)
        await send("three", 4, "a5", chosen=False)
        assert await delivered(sites) == [b"a1", b"a2", b"a3", b"a4", b"a5"]


@in_loop
async def test_a_site_that_is_no_member_proves_nothing(tmp_path: Path) -> None:
    """It has no log of the group, and may know of a mark long after."""
    async with served(tmp_path, {"alpha": ["a", "b"], "beta": ["b", "c"]}) as sites:
        for folder, site, said in (("one", "b", ""), ("two", "c", "c is no member of group 'alp")):
            staging = Staging(tmp_path / folder)
            files = [stage(staging, rows_of("a1"))]
            sent = commit_batch(staging, "sink", 0, files, partial(sites.connect, site))
            if said:
                with pytest.raises(ConfigError, match=said):
                    await sent
            else:
                await sent
        assert await delivered(sites) == [b"a1"]
