"""Copies of a store for clients: one at a time, in pieces, and nothing is left of them."""

import asyncio
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError, Error
from ordercast.net.admin.frames import PIECE_BYTES, CopyPiece, CopyRequest
from ordercast.net.client.client import Client
from ordercast.net.client.store_fetch import fetch_store
from ordercast.net.daemon import store_copies
from ordercast.net.store.backup import write_copy
from ordercast.net.store.inspection import inspect_store
from support.clusters.served import Served, served
from support.harness.loops import in_loop


async def begin(client: Client) -> None:
    await client._ask(CopyRequest)


async def piece(client: Client, offset: int) -> bytes:
    return await client._ask(CopyPiece, offset)


async def ask_for_too_much(running: Served, client: Client) -> None:
    """A client asks for much at once and does not read: what does not fit the bound is refused."""
    assert client._link is not None
    assert client._link._wire is not None
    transport = client._link._wire.transport
    assert transport is not None
    transport.pause_reading()
    asked = [asyncio.create_task(piece(client, 0)) for _ in range(100)]
    desk = running.admins["a"].desk
    while any(each._tasks for each in desk.served()) or not any(
        w.unsent for w in desk._connections
    ):
        await asyncio.sleep(0.01)
    waiting = sum(wire.unsent for wire in desk._connections)
    assert PIECE_BYTES < waiting < store_copies.UNSENT_BYTES + 4 * PIECE_BYTES
    transport.resume_reading()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert {len(each) for each in found if isinstance(each, bytes)} == {PIECE_BYTES}
    assert "does not read the pieces" in str(found[-1])


@in_loop
async def test_a_client_fetches_a_whole_copy_while_the_site_runs_and_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, {"alpha": ["a"]}) as running:
        async with running.connect("a") as one, running.connect("a") as other:
            for number in range(30):
                await one.multicast("alpha", bytes(50_000) + b"%d" % number)
            await one.flush("stable")
            with pytest.raises(Error, match="there is no copy of the store for this connection"):
                await piece(one, 0)
            await begin(one)
            with pytest.raises(Error, match="copied for another client: try again later"):
                await begin(other)
            assert list(running.directory.glob("*.copy*")) == []  # it has no name any more
            await ask_for_too_much(running, one)
            monkeypatch.setattr(store_copies, "IDLE_S", -1.0)
            left: list[tuple[int, int]] = []
            await fetch_store(other, tmp_path / "copy", lambda *told: left.append(told))
            assert left[-1] == (0, (tmp_path / "copy").stat().st_size)
            assert len(left) > 4
            report = inspect_store(tmp_path / "copy", alone=True)
            assert (report.site, report.positions["logged"], report.damage) == ("a", 30, [])
            with pytest.raises(Error, match="there is no copy"):
                await piece(one, 0)  # the other one has taken its place
            await begin(one)
        async with running.connect("a") as third:  # the connection that had the copy has ended
            monkeypatch.setattr(store_copies, "IDLE_S", 60.0)
            await begin(third)


@in_loop
async def test_a_copy_that_does_not_arrive_as_it_was_made_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, {"alpha": ["a"]}) as running, running.connect("a") as client:
        honest = store_copies._read
        monkeypatch.setattr(store_copies, "_read", lambda file, at: honest(file, at)[:-1] + b"?")

        def write(draft: Path) -> None:
            asyncio.run(fetch(draft))

        async def fetch(draft: Path) -> None:
            async with running.connect("a") as another:
                await fetch_store(another, draft)

        with pytest.raises(Error, match="did not arrive as it was made"):
            await asyncio.to_thread(write_copy, tmp_path / "copy", write)
        assert list(tmp_path.glob("copy*")) == []
        assert client.site == "a"


@in_loop
async def test_a_site_without_a_store_says_so(tmp_path: Path) -> None:
    memory = served(tmp_path, {"alpha": ["a"]}, durability="memory")
    async with memory as running, running.connect("a") as client:
        with pytest.raises(ConfigError, match="there are no stores"):
            await fetch_store(client, tmp_path / "copy")
