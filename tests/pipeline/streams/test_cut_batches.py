"""A reader may begin and end within a batch. Whichever way it reads, each message has the contents
and the part of its request that the store has."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ordercast.model.errors import FrameError
from ordercast.model.messages import (
    DeliveredBatch,
    Requests,
    is_by_id,
    is_client,
    is_once,
    ticket_in,
)
from ordercast.net.admin import frames
from ordercast.net.client.client import Client
from ordercast.net.daemon import client_connection
from ordercast.net.export.contents import contents_of, parts_of
from ordercast.net.store.reader import LogReader
from ordercast.pipeline.streams.columns import RowsOfBatches
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.source import BatchReader, QueryReader
from pipeline.streams.test_nodes import GROUPS, local, rows_of
from support.clusters.served import Served, served
from support.clusters.sites import until
from support.harness.loops import in_loop

MANY = [{"n": b"%d" % (n // 2)} for n in range(5)]  # headers that some messages share


def texts(kind: str, count: int) -> list[bytes]:
    return [f"{kind} {n}".encode() for n in range(count)]


async def send_every_kind(sites: Served, client: Client) -> None:
    """Batches of several messages: of a site, of a client that is not remembered and one that is,
    of a producer, and with an id."""
    node = sites.cluster["a"]
    await (await node.multicast_many("alpha", texts("plain", 5), headers=MANY)).stable()
    quick = [await client.multicast("beta", text, {"h": text}) for text in texts("quick", 3)]
    await asyncio.gather(*(receipt.stable() for receipt in quick))
    await (await client.multicast_many("beta", texts("sent", 3))).stable()
    await (await client.produce("p", 1, "alpha", texts("produced", 5))).stable()
    await (
        await client.multicast_many("alpha", texts("named", 4), id="x", headers=MANY[:4])
    ).stable()
    await until(lambda: bool(client._outgoing.marks))
    await (await client.multicast_many("beta", texts("once", 4))).stable()


def rows(batches: Iterable[DeliveredBatch]) -> list[tuple[Any, ...]]:
    """One for each message: all that a batch says of it."""
    found = []
    for batch in batches:
        part = batch.placed.batch
        contents, parts = contents_of(part), parts_of(part)
        for n, item in enumerate(batch.deliveries()):
            request = (
                None
                if parts.request is None or parts.part is None
                else (parts.client, parts.request[n], parts.part[n])
            )
            items = () if contents.headers is None else contents.headers[n]
            assert (item.payload, item.header_items) == (contents.payloads[n], items)
            found.append((batch.placed.number + n, request, item))
    return found


async def collected(batches: Any, last: int) -> list[DeliveredBatch]:
    """Up to a position, which may be within a batch."""
    found = []
    async for batch in batches:
        if isinstance(batch, DeliveredBatch):
            found.append(batch)
            if batch.last >= last:
                break
    await batches.aclose()
    return found


def stored(tmp_path: Path) -> list[DeliveredBatch]:
    reader = LogReader(tmp_path / "a.db")
    try:
        return reader.read(1, 1_000)
    finally:
        reader.close()


def kinds(batches: Iterable[DeliveredBatch]) -> set[str]:
    found = set()
    for batch in batches:
        requests = batch.placed.batch.requests
        if batch.count == 1:
            continue
        if requests is None:
            found.add("plain")
        elif is_client(requests.client):
            found.add("client")
        elif ticket_in(requests.client):
            found.add("producer")
        elif is_by_id(requests.client):
            found.add("id")
        elif is_once(requests.client):
            found.add("once")
    return found


@in_loop
async def test_a_range_with_any_borders_has_the_contents_and_parts_of_the_store(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send_every_kind(sites, client)
        batches = stored(tmp_path)
        assert kinds(batches) == {"plain", "client", "producer", "id", "once"}
        wanted, node = rows(batches), sites.cluster["a"]
        last = len(wanted)
        await client.open_reader("r", "*")
        await client.reset_reader("r", 1)
        for start in range(1, last + 1):
            for end in range(start, last + 1):
                ranged = await collected(client.read_batches(start, end, reader="r"), end)
                assert rows(ranged) == wanted[start - 1 : end]
            items = wanted[start - 1 :]
            for reading in (
                client.batches(start, observe=True), client.batches(start), node.batches(start),
                client.read_batches(start, last),
            ):  # fmt: skip
                assert rows(await collected(reading, last)) == items
            await client.reset_reader("r", start)
            assert rows(await collected(client.batches(reader="r"), last)) == items
            one_by_one = [item async for item in client.read("r", start, last)]
            assert one_by_one == [item for _, _, item in items]
            following = client.deliveries(start)
            assert [await anext(following) for _ in items] == one_by_one
            await following.aclose()


@in_loop
async def test_the_source_has_the_rows_of_the_store_wherever_its_batches_end(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, GROUPS) as sites, sites.connect("a") as client:
        await send_every_kind(sites, client)
        options = {"sites": "a", "includeHeaders": "true"}

        def of_nodes(most: int) -> list[dict[str, Any]]:
            """A query with a limit, to its end."""
            limit = {"maxOffsetsPerTrigger": str(most), "readerName": "lake"}
            reader = QueryReader(source_options(local(sites, **options, **limit)))
            start, found = reader.initialOffset(), []
            while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
                found += rows_of(reader, reader.partitions(start, end))
                start = end
            reader.stop()
            return found

        def from_there(first: int, place: dict[str, str]) -> list[dict[str, Any]]:
            """A batch, which has no reader."""
            begin = {"startingOffsets": json.dumps({"a": [1, first - 1]})}
            reader = BatchReader(source_options({**place, **options, **begin}))
            return rows_of(reader, reader.partitions())

        table = RowsOfBatches("a", headers=True)
        for batch in stored(tmp_path):
            table.add(batch, 0, batch.last)
        wanted = [row for part in table.rest() for row in part.to_pylist()]
        assert {row["part"] for row in wanted} == {None, 0, 1, 2, 3, 4}
        for n in range(1, len(wanted)):
            assert await asyncio.to_thread(of_nodes, n) == wanted
            await client.reset_reader("lake", 1)
            assert await asyncio.to_thread(from_there, n, local(sites)) == wanted[n - 1 :]
            found = await asyncio.to_thread(from_there, n, {"store": str(tmp_path)})
            assert found == wanted[n - 1 : n - 1 + len(found)]  # the store knows later what stays


@in_loop
async def test_parts_that_an_earlier_daemon_cut_wrong_are_never_guessed(tmp_path: Path) -> None:
    """It cuts both ends of a batch and leaves it all requests, as this one did."""
    welcome = frames.Welcome

    def earlier(*given: Any, **named: Any) -> frames.Welcome:
        return welcome(*given, **{**named, "cuts_requests": False})

    def uncut(self: Requests, *_: int) -> Requests:
        return self

    async with served(tmp_path, GROUPS) as sites:
        with (
            patch.object(client_connection, "Welcome", earlier),
            patch.object(Requests, "between", uncut),
        ):
            async with sites.connect("a") as client:
                await (await client.produce("p", 1, "alpha", texts("produced", 5))).stable()
                await client.open_reader("r", "*")
                (cut,) = await collected(client.read_batches(2, 4, reader="r"), 4)
                assert [item.payload for item in cut.deliveries()] == texts("produced", 5)[1:4]
                with pytest.raises(FrameError, match="earlier release; upgrade its site"):
                    parts_of(cut.placed.batch)
                (cut,) = await collected(client.batches(3), 5)  # here the end is never cut
                assert parts_of(cut.placed.batch).part == [2, 3, 4]
