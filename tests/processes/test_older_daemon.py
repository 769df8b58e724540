"""A client of this release at a daemon of the first one that agrees on versions: what that daemon
does not know is refused in one line, and the connection goes on."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ordercast.model.epochs import AddProducer
from ordercast.model.errors import Error
from ordercast.net.client.client import Client, connect
from ordercast.net.client.store_fetch import fetch_store
from support.clusters.processes import write_cluster
from support.clusters.upgrades import first_commit, has_commit, has_history, source_of
from support.harness.loops import in_loop


async def produced(client: Client) -> None:
    await (await client.produce("p", 1, "alpha", [b"x"])).ordered()


ASKED: dict[str, Callable[[Client], Awaitable[object]]] = {
    "Grant": lambda client: client.grant("client:x", ["send"]),
    "Withdraw": lambda client: client.withdraw("client:x"),
    "RevokeCertificate": lambda client: client.revoke_certificate("client:x", "0" * 64),
    "AddProducer": lambda client: client.change(AddProducer("p", "alpha")),
    "Produce": lambda client: produced(client),
    "ReaderReset": lambda client: client.reset_reader("r"),
    "ReaderRemoval": lambda client: client.remove_reader("r"),
    "Follow": lambda client: anext(client.deliveries(reader="r", groups=["alpha"])),
    "ids": lambda client: client.id_mark("alpha"),
    "backups of clients": lambda client: fetch_store(client, Path(os.devnull)),
}


@in_loop
async def test_what_an_older_daemon_does_not_know_is_refused_and_it_drops_nobody(
    tmp_path: Path,
) -> None:
    commit = first_commit()
    if not has_commit(commit) and not has_history():
        pytest.skip(f"commit {commit} is not in this checkout: it is shallow, or no repository")
    file = write_cluster(tmp_path, {"alpha": ["a"]}, {"durability": "memory"}, tls=False)
    earlier = source_of(commit, tmp_path / "earlier")
    words = [sys.executable, "-m", "ordercast.cli", "node", str(file), "--site", "a"]
    with subprocess.Popen(
        [*words, "--dir", str(tmp_path / "stores")],
        env={**os.environ, "PYTHONPATH": str(earlier)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as daemon:
        try:
            async with connect(file, "a", tmp_path / "stores", start_s=60) as client:
                await (await client.multicast("alpha", b"one")).ordered()
                link = client._link
                assert link is not None
                wire = link._wire
                for name, ask in ASKED.items():
                    with pytest.raises(Error, match="the daemon's program does not know"):
                        await ask(client)
                    assert link._wire is wire, name
                await (await client.multicast("alpha", b"two")).ordered()
        finally:
            daemon.terminate()
