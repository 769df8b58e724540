"""A site that was away is owed more than a connection may have waiting: it is sent that in pieces,
as it takes them, and not all at once until the connection breaks."""

import logging
from pathlib import Path

import pytest

import ordercast
from ordercast.net.link.connection import LinkLimits
from support.clusters.layouts import primary_of
from support.clusters.processes import write_cluster
from support.clusters.sites import read
from support.harness.loops import in_loop

SIZE = 1_900_000
COUNT = 45  # above what may wait to be written


def test_a_site_that_returns_to_much_gets_all_of_it_on_one_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert 1.2 * LinkLimits().write_bytes < SIZE * COUNT
    path = write_cluster(
        tmp_path,
        {"alpha": ["a", "b"]},
        {"durability": "os", "deliver": "agreed", "on_failure": "wait"},
        tls=False,
        limits={"message_bytes": 2_000_000, "window_bytes": "200MB", "unread_bytes": "200MB"},
    )

    @in_loop
    async def run() -> None:
        async with ordercast.Node.open(path, "a", dir=tmp_path) as a:
            assert primary_of(a.cluster, "alpha") == "a"
            for n in range(COUNT):
                await a.multicast("alpha", bytes([n]) * SIZE)
            await a.flush("ordered")
            async with ordercast.Node.open(path, "b", dir=tmp_path) as b:
                items = await read(b, COUNT)
                assert [item.payload[0] for item in items] == list(range(COUNT))
                await a.flush("stable")

    with caplog.at_level(logging.WARNING):
        run()
    assert "it does not read" not in caplog.text
