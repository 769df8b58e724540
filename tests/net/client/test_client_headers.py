"""Clients send and read headers, over the socket and TLS; what a client claims is checked."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ordercast.model.envelope import Envelope, HeaderRun, pack_envelope
from ordercast.model.errors import ConfigError, Error, TooLarge
from ordercast.model.features import FEATURES, HEADERS
from ordercast.net.admin.frames import DaemonFrame, Rejected, Send, StagesReached
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from support.clusters.served import Served, served
from support.clusters.sites import read_messages
from support.harness.loops import in_loop, run

RED = {"colour": b"red"}


@asynccontextmanager
async def reached(way: str, tmp_path: Path) -> AsyncIterator[tuple[Served, Client]]:
    if way == "socket":
        async with served(tmp_path) as running, running.connect("a") as client:
            yield running, client
        return
    certs = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c"], certs)
    add_client_certificates("local", ["billing"], certs)
    everything = ["send:*", "read:*", "observe:*", "admin:*"]
    grants = {"site:*": everything, "client:billing": everything}
    cert = certs / "clients" / "billing.pem"
    async with (
        served(tmp_path, remote=True, tls={"dir": str(certs)}, grants=grants) as running,
        connect(running.address("a"), cert=cert, start_s=20.0) as client,
    ):
        yield running, client


@pytest.mark.parametrize("way", ["socket", "tls"])
def test_a_client_sends_and_reads_headers(way: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with reached(way, tmp_path) as (running, client):
            began = time.time_ns()
            await client.multicast("alpha", b"1", RED)
            await client.multicast("alpha", b"2")
            client.multicast_nowait("alpha", b"3", {"n": b"3"})
            await client.multicast_many("alpha", [b"4", b"5"], [None, RED])
            await client.multicast_to(["a", "c"], b"6", RED)
            await client.multicast(["beta", "alpha"], b"7", RED)
            await (await client.multicast(["alpha", "beta"], b"8")).stable()
            found = await read_messages(client, 8, 1)
            assert [(item.payload, item.headers, item.groups) for item in found] == [
                (b"1", RED, ("alpha",)),
                (b"2", {}, ("alpha",)),
                (b"3", {"n": b"3"}, ("alpha",)),
                (b"4", {}, ("alpha",)),
                (b"5", RED, ("alpha",)),
                (b"6", RED, ()),
                (b"7", RED, ("beta", "alpha")),
                (b"8", {}, ("alpha", "beta")),
            ]
            assert all(began <= item.sent_ns <= time.time_ns() for item in found)
            assert found == await read_messages(running.cluster["a"], 8, 1)
            for wrong, error in (({"": b""}, ConfigError), ({"a": bytes(5_000)}, TooLarge)):
                with pytest.raises(error):
                    await client.multicast("alpha", b"x", wrong)

    run(main())


@in_loop
async def test_what_a_client_claims_is_checked_and_its_clock_does_not_count(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as client:
        answers: list[object] = []
        take = client._frame
        assert client._link is not None

        def noting(frame: DaemonFrame) -> None:
            answers.append(frame)
            take(frame)

        client._link._on_frame = noting
        items = (("colour", b"red"),)
        wrong = [
            Envelope([b"x"], 0, (HeaderRun(0, 2, items),)),
            Envelope([b"x"], 0, (HeaderRun(0, 1, (("b", b""), ("a", b""))),)),
            Envelope([b"x"], 0, (), ("alpha",)),
            Envelope([b"x", b"y"]),
        ]
        for number, envelope in enumerate(wrong, start=1):
            client._send(Send(number, "alpha", (), 1, pack_envelope(envelope), False, 0))
        body = pack_envelope(Envelope([b"x"], 5, (HeaderRun(0, 1, items),), ("alpha", "beta")))
        client._send(Send(5, "", ("a",), 1, body, False, 0))
        [item] = await read_messages(running.cluster["c"], 1, 1)
        assert item.groups == ("alpha", "beta")
        assert item.headers == RED
        assert item.sent_ns > 10**18
        refused = {frame.number: frame.reason for frame in answers if isinstance(frame, Rejected)}
        assert list(refused) == [1, 2, 3, 4]
        assert "are of 2 messages, the batch has 1" in refused[1]
        assert "header 'a' stands behind 'b'" in refused[2]
        assert "the batch goes to one group" in refused[3]
        assert any(isinstance(frame, StagesReached) for frame in answers)


def test_a_client_is_told_at_once_that_headers_are_not_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(FEATURES, HEADERS)

    async def main() -> None:
        async with served(tmp_path) as running, running.connect("a") as client:
            with pytest.raises(ConfigError, match="this cluster does not use them yet"):
                await client.multicast("alpha", b"x", RED)
            with pytest.raises(Error, match="headers: this cluster does not use them yet"):
                await client.multicast_to(["a"], b"x", RED)
            await (await client.multicast(["alpha", "beta"], b"plain")).stable()
            [item] = await read_messages(client, 1, 1)
            assert (item.payload, item.groups, item.sent_ns) == (b"plain", (), 0)

    run(main())
