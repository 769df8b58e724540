"""TLS between sites: who is let in, and certificates that change while the sites run."""

import asyncio
import logging
import os
import shutil
import ssl
from collections import Counter
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.cluster.certificates import (
    add_certificates,
    add_client_certificates,
    fingerprint_of,
    make_authority,
    make_site_certificate,
    read_authority,
    write_certificates,
)
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.tls import REVOKED, Certificates, ClientCertificates, TlsConfig, TlsSession
from support.network.links import (
    CLUSTER,
    End,
    Runner,
    anywhere,
    both_loops,
    connected,
    frame,
    on_asyncio,
    started,
    until,
)
from support.network.proxy import Manners, Proxy

AB = anywhere("ab")


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    write_certificates(CLUSTER, ["a", "b", "c"], tmp_path / "certs")
    return tmp_path / "certs"


def ends(a: Path, b: Path) -> tuple[End, End]:
    return End("a", AB, tls=TlsConfig(a)), End("b", AB, tls=TlsConfig(b))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


@both_loops
def test_sites_with_certificates_of_one_authority_exchange_frames(run: Runner, certs: Path) -> None:
    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b):
            a.transport.connect("b")
            b.transport.connect("a")
            await until(lambda: connected(a, b), "connected")
            sizes = [0, 1, 16_384, 16_385, 262_144, 3_000_000]
            sent = [frame(number, size) for number, size in enumerate(sizes, 1)]
            a.transport.send("b", sent)
            for each in sent:
                b.transport.send("a", [each])
            await until(lambda: len(a.frames) == len(b.frames) == len(sizes), "frames")
            assert [found for _, found in a.frames] == sent
            assert [found for _, found in b.frames] == sent

    run(main())


@both_loops
def test_a_revoked_certificate_closes_the_link_and_is_let_in_no_more_until_it_is_renewed(
    run: Runner, certs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            await asyncio.sleep(0.3)  # one connection, and nobody dials
            a.transport.revoke({fingerprint_of(certs / "c.pem"): "site:c"})
            assert connected(a, b)
            a.transport.revoke({fingerprint_of(certs / "b.pem"): "site:b"})
            await until(lambda: {end.events[-1][0] for end in (a, b)} == {"lost"}, "closed")
            refused = a.transport.refusals[REVOKED]
            a.transport.connect("b")
            b.transport.connect("a")
            await until(lambda: a.transport.refusals[REVOKED] > refused + 3, "refused again")
            assert a.events == [("connected", "b"), ("lost", "b")]
            told = f"a: it refuses us: {REVOKED}"
            await until(lambda: told in warnings(caplog), "told why")
            add_certificates(CLUSTER, ["b"], certs, renew=True)
            assert b.transport._certificates is not None
            b.transport._certificates.refresh()  # as each few seconds
            await until(lambda: connected(a, b), "connected with the new one")

    run(main())


def test_nothing_readable_travels(certs: Path) -> None:
    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            proxy.record = bytearray()
            a.transport.addresses["b"] = proxy.address
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            a.transport.send("b", [frame(1, 5_000)])
            await until(lambda: len(b.frames) == 1, "frame")
            assert len(proxy.record) > 5_000
            assert bytes(100) not in proxy.record
            assert b"ordercast" not in proxy.record  # TLS 1.3 hides certificates too
            assert b"demo" not in proxy.record

    on_asyncio(main())


@both_loops
def test_a_peer_of_another_authority_is_refused_and_logged_once(
    run: Runner, certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_certificates(CLUSTER, ["b"], tmp_path / "foreign")

    async def main() -> None:
        a, b = ends(certs, tmp_path / "foreign")
        async with started(a, b):
            a.transport.connect("b")
            b.transport.connect("a")
            for end in (a, b):
                cause = "its certificate is not accepted"
                await until(lambda: end.transport.refusals[cause] > 5, "refused")  # noqa: B023
            assert a.events == b.events == []

    run(main())
    said = Counter(warnings(caplog))  # both ends log here
    assert [line for line, times in said.items() if times > (1 if line[0] in "ab" else 2)] == []
    refusal = "its certificate is not accepted: self-signed certificate in certificate chain"
    assert said[f"b: {refusal}"] == said[f"a: {refusal}"] == 1


@both_loops
def test_a_certificate_that_names_another_site_is_refused(
    run: Runner, certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """c is a site of the cluster too, but not the one that it says it is."""
    theirs = tmp_path / "theirs"
    shutil.copytree(certs, theirs)
    pretender = Pretender(theirs, says="b", has="c")

    async def main() -> None:
        a = End("a", anywhere("abc"), tls=TlsConfig(certs))
        b = pretender.end()
        async with started(a, b):
            a.transport.connect("b")
            b.transport.connect("a")
            await until(
                lambda: a.transport.refusals["its certificate names another site"] > 5, "refused"
            )
            assert a.events == []

    run(main())
    line = f"its certificate names another site: ordercast://{CLUSTER}/c, not ordercast://"
    found = [said for said in warnings(caplog) if line in said]
    assert sorted(said.split(":")[0] for said in found) == ["127.0.0.1", "b"]


class Pretender:
    """Starts with its own certificate and swaps files below the check that refuses this."""

    def __init__(self, directory: Path, says: str, has: str) -> None:
        self.directory, self.says, self.has = directory, says, has

    def end(self) -> End:
        end = End(self.says, anywhere("abc"), tls=TlsConfig(self.directory))
        end.transport._certificates = Certificates(TlsConfig(self.directory), CLUSTER, self.has)
        return end


def test_an_expired_certificate_is_refused(
    certs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b):
            expired = tmp_path / "expired"
            shutil.copytree(certs, expired)
            make_site_certificate(read_authority(certs), CLUSTER, "b", expired, days=-1)
            force(b, expired)
            a.transport.connect("b")
            await until(lambda: a.transport.refusals.total() > 3, "refused")
            assert a.events == b.events == []

    on_asyncio(main())
    expected = "b: its certificate is not accepted: certificate has expired"
    assert warnings(caplog).count(expected) == 1


def force(end: End, directory: Path) -> None:
    """Use files that a site would refuse to start with, as if they had expired since."""
    certificates = end.transport._certificates
    assert certificates is not None
    certificates._files = TlsConfig(directory).files(end.name)
    certificates._own = lambda _: {  # type: ignore[method-assign, assignment]
        "subjectAltName": (("URI", f"ordercast://{CLUSTER}/{end.name}"),),
        "notAfter": "Jan  1 00:00:00 2100 GMT",
    }


def test_certificates_are_read_again_while_the_sites_run(certs: Path, tmp_path: Path) -> None:
    """A whole new authority: both in ca.pem, then new certificates, then the old one goes."""

    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            b.transport.addresses["a"] = ("127.0.0.1", 9)
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            new = make_authority(CLUSTER, tmp_path / "new")
            old_ca, new_ca = (certs / "ca.pem").read_text(), (tmp_path / "new/ca.pem").read_text()
            first = serial(a)
            for step in range(3):
                if step == 0:
                    (certs / "ca.pem").write_text(old_ca + new_ca)
                elif step == 1:
                    for site in "ab":
                        make_site_certificate(new, CLUSTER, site, certs)
                else:
                    (certs / "ca.pem").write_text(new_ca)
                proxy.cut()
                losses = step + 1
                await until(lambda: a.events.count(("lost", "b")) == losses, "lost")  # noqa: B023
                await until(lambda: connected(a, b), "connected")
                assert (serial(a) == first) is (step == 0)
            # With this one our certificates do not pass: it is not taken.
            (certs / "ca.pem").write_text(old_ca)
            proxy.cut()
            await until(lambda: a.events.count(("lost", "b")) == 4, "lost")
            await until(lambda: connected(a, b), "connected")

    on_asyncio(main())


def serial(end: End) -> str:
    """Of the certificate that the peer shows now."""
    connection = end.transport._peers["b"].current
    assert connection is not None
    assert connection.session is not None
    return str(connection.session.certificate()["serialNumber"])


@both_loops
def test_a_damaged_record_ends_the_connection_and_not_the_watch_over_the_others(
    run: Runner, certs: Path
) -> None:
    """Between the damage and the end of the connection signs of life fall due."""

    async def main() -> None:
        a, b = ends(certs, certs)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            connection = a.transport._peers["b"].current
            assert connection is not None
            damaged = b"\x17\x03\x03\x00\x20" + bytes(32)
            a.transport.read_buffer[: len(damaged)] = damaged
            connection.buffer_updated(len(damaged))
            assert a.transport.refusals["TLS failed"] == 1
            connection.wrote_at -= 60
            a.transport._watch()
            connection.over = False  # as if the failure were not known
            connection.ping(1)
            connection.over = True
            await until(lambda: a.events.count(("connected", "b")) == 2, "connected again")

    run(main())


def test_new_files_that_are_wrong_are_not_taken_and_said_once(
    certs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(TlsConfig(certs), CLUSTER, "a")
    good = (certs / "a.key").read_bytes()
    (certs / "a.key").write_bytes((certs / "b.key").read_bytes())
    certificates.refresh()
    assert warnings(caplog) == []  # perhaps the certificate follows at once
    for _ in range(3):
        certificates.refresh()
    assert warnings(caplog) == [
        f"{certs / 'a.key'}: is not the key of a.pem; going on with the certificates read before"
    ]
    assert shakes_hands(certificates)
    (certs / "a.key").write_bytes(good)
    os.utime(certs / "a.key", (1, 1))
    certificates.refresh()
    assert shakes_hands(certificates)
    assert len(warnings(caplog)) == 1


def shakes_hands(certificates: Certificates) -> bool:
    client, server = (certificates.session(server_side=side) for side in (False, True))
    for _ in range(4):
        client.handshake()
        server.feed(client.outgoing())
        server.handshake()
        client.feed(server.outgoing())
    return client.handshake() and server.handshake()


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda d: (d / "ca.pem").unlink(), r"ca\.pem: there is no such file; .ordercast certs"),
        (lambda d: (d / "a.key").unlink(), r"a\.key: there is no such file; .ordercast certs"),
        (lambda d: (d / "ca.pem").write_text("x"), r"ca\.pem: not a certificate in PEM form"),
        (lambda d: (d / "a.pem").write_text("x"), r"a\.pem or a\.key: cannot be used"),
        (lambda d: shutil.copy(d / "b.key", d / "a.key"), r"a\.key: is not the key of a\.pem"),
        (
            lambda d: [shutil.copy(d / f"b.{x}", d / f"a.{x}") for x in ("pem", "key")],
            r"a\.pem: does not name ordercast://demo/a",
        ),
        (
            lambda d: make_site_certificate(read_authority(d), CLUSTER, "a", d, days=-1),
            r"a\.pem: does not pass with ca\.pem: certificate has expired",
        ),
    ],
)
def test_a_site_does_not_start_with_files_that_cannot_work(
    certs: Path, spoil: "object", line: str
) -> None:
    assert callable(spoil)
    spoil(certs)
    with pytest.raises(ConfigError, match=line):
        End("a", AB, tls=TlsConfig(certs))


def test_a_certificate_of_another_authority_is_found_at_the_start(
    certs: Path, tmp_path: Path
) -> None:
    write_certificates(CLUSTER, ["a"], tmp_path / "foreign")
    shutil.copy(tmp_path / "foreign" / "ca.pem", certs / "ca.pem")
    with pytest.raises(ConfigError, match=r"a\.pem: does not pass with ca\.pem: "):
        End("a", AB, tls=TlsConfig(certs))


def test_what_an_operator_should_see_to_is_logged(
    certs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_site_certificate(read_authority(certs), CLUSTER, "a", certs, days=10)
    (certs / "a.key").chmod(0o644)
    Certificates(TlsConfig(certs), CLUSTER, "a")
    key, expiry = warnings(caplog)
    assert key == f"{certs / 'a.key'}: others can read it (chmod 600)"
    assert expiry.startswith(f"{certs / 'a.pem'}: expires in 9 days, on ")


def test_only_tls_1_3_is_spoken(certs: Path) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    client = TlsSession(old, server_side=False)
    server = Certificates(TlsConfig(certs), CLUSTER, "a").session(server_side=True)
    client.handshake()
    server.feed(client.outgoing())
    with pytest.raises(LinkTrouble, match="TLS failed: unsupported protocol"):
        server.handshake()


@both_loops
def test_a_certificate_of_a_client_is_nobodys_at_a_link(
    run: Runner, certs: Path, tmp_path: Path
) -> None:
    """Not even of a client that has the name of a site."""
    add_client_certificates(CLUSTER, ["b"], certs)
    theirs = tmp_path / "theirs"
    shutil.copytree(certs, theirs)
    for end in ("pem", "key"):
        shutil.copy(certs / "clients" / f"b.{end}", theirs / f"b.{end}")
    with pytest.raises(ConfigError, match="does not pass with"):
        Certificates(TlsConfig(theirs), CLUSTER, "b")

    async def main() -> None:
        a, b = ends(certs, certs)
        files = (theirs / "ca.pem", theirs / "b.pem", theirs / "b.key")
        b.transport._certificates = ClientCertificates(files)  # type: ignore[assignment]
        async with started(a, b):
            b.transport.connect("a")
            await until(lambda: a.transport.refusals["its certificate names another site"] > 0, "")
            a.transport.connect("b")
            await until(lambda: a.transport.refusals["its certificate is not accepted"] > 0, "")
            assert a.events == b.events == []

    run(main())
