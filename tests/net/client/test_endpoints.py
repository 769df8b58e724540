"""The ways to a daemon: which certificates a client uses, and whom it takes for a daemon."""

import asyncio
import ssl
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.admin.frames import StatusRequest, Wire, decode_reply
from ordercast.net.client.endpoints import Credentials, endpoints_of
from ordercast.net.cluster import certificates
from ordercast.net.cluster.certificates import (
    add_client_certificates,
    read_authority,
    write_certificates,
)
from support.harness.loops import in_loop


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    found = tmp_path / "certs"
    write_certificates("local", ["a"], found)
    add_client_certificates("local", ["billing"], found)
    return found


def test_key_and_authority_are_found_as_they_were_written(certs: Path, tmp_path: Path) -> None:
    cert = certs / "clients" / "billing.pem"
    found, cluster = Credentials(cert).certificates()
    assert (found.names, cluster) == (("ordercast://local/client/billing",), "local")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in (cert, cert.with_suffix(".key"), certs / "ca.pem"):
        (elsewhere / file.name).write_bytes(file.read_bytes())
    assert Credentials(elsewhere / "billing.pem").certificates()[1] == "local"
    with pytest.raises(ConfigError, match="is not the key of"):
        Credentials(cert, key=certs / "a.key").certificates()
    assert Credentials(certs / "a.pem").certificates()[0].names == ("ordercast://local/a",)


def test_several_addresses_are_a_list_or_a_text_with_commas(certs: Path) -> None:
    given = Credentials(certs / "clients" / "billing.pem")
    text = "tls://one.example.org:7001, tls://[::1]:7002"
    assert [str(each) for each in endpoints_of(text, given)] == text.split(", ")
    assert [str(each) for each in endpoints_of(text.split(", "), given)] == text.split(", ")


@pytest.mark.parametrize(
    ("name", "said"), [("clients/billing", "is not accepted"), ("listening", "names no site of")]
)
@in_loop
async def test_a_client_does_not_take_a_clients_certificate_for_a_daemon(
    certs: Path, name: str, said: str
) -> None:
    """Not even one that an authority has made for listening, by mistake."""
    uri = "ordercast://local/client/billing"
    authority = read_authority(certs)
    certificates._make_certificate(authority, uri, certs / "listening", (), 10, listens=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certs / f"{name}.pem", certs / f"{name}.key")
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(1_000))
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    lost = asyncio.Event()
    wire = Wire(
        decode_reply,
        lambda *_: None,
        lambda _: lost.set(),
        lambda made: made.send(StatusRequest(1)),
    )
    cert = certs / "clients" / "billing.pem"
    (endpoint,) = endpoints_of(f"tls://127.0.0.1:{port}", Credentials(cert))
    await endpoint.open(wire)
    async with asyncio.timeout(60):
        await lost.wait()
    assert said in wire.failure
    assert not heard
    server.close()
