"""Each option of the source over the addresses of daemons: certificates, a secret, one address for
all sites, offsets and limits."""

import asyncio
import json
import secrets
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.options import source_options
from ordercast.pipeline.streams.source import BatchReader
from pipeline.streams.test_nodes import (
    GROUPS,
    Query,
    certs,
    eventually,
    open_tls,
    rows_of,
    send,
    stream,
    tls_options,
)
from support.clusters.served import Served, served
from support.harness.loops import in_loop

__all__ = ["certs"]
ALL = ["a 1", "a 2", "a 3", "b 1", "b 2"]


def advertise(sites: Served) -> None:
    """As cluster files do that have `clients = …` for each site."""
    known = sites.cluster.cluster.sites
    assert isinstance(known, dict)
    for site in "ab":
        _, port = sites.remotes[site].address
        known[site] = replace(known[site], clients=("127.0.0.1", port))


async def read(options: dict[str, str]) -> tuple[list[str], int]:
    """Sites and positions of the rows, and how many tasks there were."""
    reader = BatchReader(source_options({"timeout": "20", **options}))
    tasks = await asyncio.to_thread(reader.partitions)
    rows = await asyncio.to_thread(rows_of, reader, tasks)
    return sorted(f"{row['site']} {row['position']}" for row in rows), len(tasks)


@in_loop
async def test_each_option_of_a_batch_over_addresses(tmp_path: Path, certs: Path) -> None:
    async with open_tls(tmp_path, certs, "read:*") as sites, sites.connect("a") as client:
        advertise(sites)
        await send(client, "a1", "b1", "a2")
        only = {"nodes": sites.address("a")}
        files = {"key": str(certs / "clients" / "spark.key"), "ca": str(certs / "ca.pem")}
        split = {"a": [1, 2], "b": [1, 1]}
        table: list[tuple[dict[str, Any], list[str], int]] = [
            ({}, ALL, 2),
            (files, ALL, 2),
            (only, ALL[:3], 1),
            ({**only, "sites": "b"}, ALL[3:], 1),  # one address leads to the others
            ({**only, "sites": "a,b"}, ALL, 2),
            ({"startingOffsets": split}, ["a 3", "b 2"], 2),
            ({"endingOffsets": split}, ["a 1", "a 2", "b 1"], 2),
            ({"startingOffsets": "latest"}, [], 1),
            ({"maxRecordsPerPartition": "1"}, ALL, 5),
            ({**only, "subscribe": "beta"}, ["a 2"], 1),
        ]
        for given, rows, tasks in table:
            told = {n: json.dumps(v) if isinstance(v, dict) else v for n, v in given.items()}
            assert await read({**tls_options(sites, certs), **told}) == (rows, tasks), given
        with pytest.raises(ConfigError, match="sites: 'd' is not of this cluster"):
            await read({**tls_options(sites, certs), **only, "sites": "d"})


@in_loop
async def test_a_query_from_the_latest_reads_what_comes_in_batches_within_its_limit(
    tmp_path: Path, certs: Path
) -> None:
    async with open_tls(tmp_path, certs, "read:*") as sites, sites.connect("a") as client:
        advertise(sites)
        await send(client, "a1", "b1", "a2")
        options = tls_options(sites, certs, startingOffsets="latest", maxOffsetsPerTrigger="2")
        query = Query(stream(**{**options, "nodes": sites.address("b"), "sites": "a,b"}))
        while (await query.batch(), query.start) != ([], {"a": [1, 3], "b": [1, 2]}):
            assert query.start is not None
        await send(client, "a3", "a4", "a5")
        found: Counter[tuple[str, int, str]] = Counter()
        while sum(found.values()) < 6:
            batch = await query.batch()
            assert len(batch) <= 2
            found.update(batch)
        wanted = [("a", 4, "a3"), ("a", 5, "a4"), ("a", 6, "a5"), ("b", 3, "a3")]
        assert sorted(found.elements()) == [*wanted, ("b", 4, "a4"), ("b", 5, "a5")]
        await query.stop()


@in_loop
async def test_without_certificates_the_secret_opens_all_sites(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(secrets.token_hex(32))
    secret.chmod(0o600)
    async with (
        served(tmp_path, GROUPS, remote=True, secret=str(secret)) as sites,
        sites.connect("a") as client,
    ):
        advertise(sites)
        await send(client, "a1", "b1", "a2")
        options = {"nodes": sites.address("a", "tcp"), "sites": "a,b", "secret": str(secret)}
        assert await read(options) == (ALL, 2)
        query = Query(stream(**options))
        assert len(await eventually(query, 5)) == 5
        await query.stop()
