"""`bench/peers`: rows over TLS, and rows of runs that delivered nothing."""

import asyncio
import ssl
from pathlib import Path

import pytest

from bench.peers.__main__ import PEERS, best, shown
from bench.peers.servers import Servers
from bench.peers.tls import HOST, TLS, files_for, member_context, server_context, told, with_tls


def test_each_variant_of_a_server_stands_beside_the_same_over_tls() -> None:
    assert with_tls("", "disk") == ("", "TLS", "disk", "disk, TLS")
    over = {peer.name for peer in PEERS if any(each.endswith(TLS) for each in peer.variants)}
    assert over == {"Redis Streams", "NATS JetStream", "etcd"}


def test_members_and_servers_trust_the_certificates_of_one_run_alone(tmp_path: Path) -> None:
    asyncio.run(_dial_with_right_and_wrong_certificates(tmp_path))


async def _dial_with_right_and_wrong_certificates(tmp_path: Path) -> None:
    places = [Servers(tmp_path / name) for name in ("one", "other")]
    ours, others = (files_for(place, "disk, TLS") for place in places)
    assert ours is not None
    assert others is not None
    listening = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ours.authority)
    listening.load_cert_chain(ours.certificate, ours.key)
    listening.verify_mode = ssl.CERT_REQUIRED

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        writer.close()

    async with await asyncio.start_server(answer, HOST, 0, ssl=listening) as server:
        port = server.sockets[0].getsockname()[1]
        for context in (member_context(told(ours)), server_context(ours)):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
            writer.write(b"x")
            assert await reader.read() == b"x"
            assert writer.get_extra_info("ssl_object").version() == "TLSv1.3"
            writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection(HOST, port, ssl=member_context(told(others)))


def test_without_tls_nobody_is_told_of_certificates(tmp_path: Path) -> None:
    files = files_for(Servers(tmp_path), "disk")
    assert files is None
    assert told(files) == {}
    assert member_context({}) is None


def test_a_run_that_delivered_nothing_is_a_dash_and_never_the_best() -> None:
    nothing = {"p50_ms": None, "msgs_per_s": 0}
    found = {"p50_ms": 2.0, "msgs_per_s": 5}
    for rate in (0.0, 1_000.0):
        assert best(best({}, nothing, rate=rate), found, rate=rate) == found
        assert best(best({}, found, rate=rate), nothing, rate=rate) == found
    assert (shown(None, 2), shown(2.0, 2)) == ("-", "2.00")
