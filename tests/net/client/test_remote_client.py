"""A client on another machine: TLS on the loopback, what it may do, and what it survives."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.model.epochs import JoinGroup, LeaveGroup, UseProtocol
from ordercast.model.errors import ConfigError, NotGranted
from ordercast.net.client.calls import Away
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import (
    add_client_certificates,
    make_client_certificate,
    read_authority,
    write_certificates,
)
from ordercast.net.cluster.secret import secret_of
from ordercast.net.daemon.metrics import exposition
from support.clusters.served import GROUPS, Served, served
from support.clusters.sites import is_quiet, read_messages, until
from support.harness.loops import in_loop

ALL = ["send:*", "read:*", "observe:*", "admin:*"]
QUICK: dict[str, Any] = {"start_s": 20.0, "patience_s": 20.0}


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    found = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c"], found)
    add_client_certificates("local", ["billing", "other"], found)
    return found


def open_served(
    tmp_path: Path, certs: Path, grants: Mapping[str, Sequence[str]] | None = None, **options: Any
) -> AbstractAsyncContextManager[Served]:
    """Grants for the owner and the sites are added. Without any there is no table."""
    table = {"client:billing": ALL} if grants is None else grants
    if table:
        table = {"socket": ALL, "site:*": ALL, **table}
        options["grants"] = {name: list(acts) for name, acts in table.items()}
    return served(tmp_path, remote=True, tls={"dir": str(certs)}, **options)


def client(running: Served, certs: Path, name: str = "billing", site: str = "a") -> Client:
    return connect(running.address(site), cert=certs / "clients" / f"{name}.pem", **QUICK)


@in_loop
async def test_a_client_elsewhere_sends_reads_confirms_and_changes_as_one_on_the_socket(
    tmp_path: Path, certs: Path
) -> None:
    async with open_served(tmp_path, certs) as running, client(running, certs) as remote:
        assert (remote.site, remote.cluster.name, remote.sites) == ("a", "local", ("a", "b", "c"))
        receipts = [await remote.multicast("alpha", b"%d" % n) for n in range(50)]
        large = await remote.multicast("alpha", bytes(900_000))
        await large.stable()
        assert [receipt.seq for receipt in receipts] == list(range(1, 51))
        await (await remote.multicast_to(["b", "c"], b"listed")).ordered()
        found = await read_messages(remote, 51)
        assert [item.payload for item in found] == [*(b"%d" % n for n in range(50)), bytes(900_000)]
        await remote.confirm(51)
        assert (await remote.status())["confirmed"] == 51
        await remote.join("beta", "a")
        await (await remote.multicast("beta", b"joined")).stable()
        assert running.cluster["a"].site in dict(running.cluster["a"].cluster.groups)["alpha"]


@in_loop
async def test_a_daemon_that_is_killed_and_comes_back_costs_a_remote_client_a_pause(
    tmp_path: Path, certs: Path
) -> None:
    async with open_served(tmp_path, certs) as running, client(running, certs) as remote:
        reading = asyncio.ensure_future(read_messages(remote, 60))
        sent = []
        for number in range(60):
            sent.append(await remote.multicast("alpha", b"%d" % number))
            if number == 20:
                await running.kill("a")
            if number == 40:
                await running.start("a")
            await asyncio.sleep(0)
        await remote.flush("stable")
        assert [item.payload for item in await reading] == [b"%d" % n for n in range(60)]
        assert remote.boot == 2


@in_loop
async def test_a_client_that_vanishes_leaves_a_daemon_that_serves_others(
    tmp_path: Path, certs: Path
) -> None:
    async with open_served(tmp_path, certs) as running:
        one = await client(running, certs).__aenter__()
        await (await one.multicast("alpha", b"one")).ordered()
        link = one._link
        assert link is not None
        assert link._wire is not None
        assert link._wire.transport is not None
        link._wire.transport.abort()
        await one._close()
        await until(lambda: not running.admins["a"].desk._connections)
        async with client(running, certs) as two:
            await (await two.multicast("alpha", b"two")).ordered()


# --- who is let in --------------------------------------------------------------------------------


async def refused(opening: Client, said: str) -> bool:
    """Whether it is not let in, for this reason; without waiting until it gives up."""
    entering = asyncio.ensure_future(opening.__aenter__())

    def told() -> str:
        if entering.done():
            return str(entering.exception())
        return "" if opening._link is None else opening._link.trouble

    await until(lambda: said in told() or entering.done())
    found = said in told()
    entering.cancel()
    await asyncio.gather(entering, return_exceptions=True)
    return found


@in_loop
async def test_who_is_let_in_is_who_has_a_certificate_of_the_authority_and_a_grant(
    tmp_path: Path, certs: Path
) -> None:
    foreign, expired, unlike = tmp_path / "foreign", tmp_path / "expired", tmp_path / "unlike"
    write_certificates("local", ["a"], foreign)
    add_client_certificates("local", ["billing"], foreign)
    (foreign / "ca.pem").write_bytes((certs / "ca.pem").read_bytes())
    make_client_certificate(read_authority(certs), "local", "billing", expired, days=-1)
    make_client_certificate(read_authority(certs), "elsewhere", "billing", unlike)
    for folder in (expired, unlike):
        (folder / "ca.pem").write_bytes((certs / "ca.pem").read_bytes())
    with pytest.raises(ConfigError, match="expired"):
        connect("tls://127.0.0.1:1", cert=expired / "clients" / "billing.pem")
    with pytest.raises(ConfigError, match=r"does not pass with ca\.pem"):
        connect("tls://127.0.0.1:1", cert=foreign / "clients" / "billing.pem")
    async with open_served(tmp_path, certs) as running:
        address = running.address("a")
        cert = unlike / "clients" / "billing.pem"
        assert await refused(connect(address, cert=cert), "names no site of this cluster")
        with pytest.raises(NotGranted, match=r"client:other has no grant"):
            async with client(running, certs, "other"):
                pass
        wrong = connect(address, "b", cert=certs / "clients" / "billing.pem")
        assert await refused(wrong, "this is site 'a'")
        async with connect(address, cert=certs / "b.pem") as site:  # a site is a subject too
            await (await site.multicast("alpha", b"from the machine of b")).ordered()
            told = (await site.status())["clients"]
        assert told["connected"] == {"site:b": 1}
        assert {"subject": "client:other", "act": "connect", "count": 1} in told["refused"]


@in_loop
async def test_certificates_that_the_daemon_alone_finds_wrong_are_refused_with_the_reason(
    tmp_path: Path, certs: Path
) -> None:
    """The client believes in two authorities, the daemon in one of them; and the other way."""
    foreign = tmp_path / "foreign"
    write_certificates("local", ["a"], foreign)
    add_client_certificates("local", ["billing"], foreign)
    both = tmp_path / "both.pem"
    both.write_bytes((certs / "ca.pem").read_bytes() + (foreign / "ca.pem").read_bytes())
    async with open_served(tmp_path, certs) as running:
        address, cert = running.address("a"), foreign / "clients" / "billing.pem"
        assert await refused(
            connect(address, cert=cert, ca=both), "does not accept our certificate"
        )
        assert await refused(connect(address, cert=cert), "its certificate is not accepted")


@in_loop
async def test_without_grants_remote_clients_may_do_nothing_and_the_socket_everything(
    tmp_path: Path, certs: Path
) -> None:
    async with open_served(tmp_path, certs, {}) as running:
        assert await refused(client(running, certs), "client:billing has no grant")
        async with running.connect("a") as owner:
            await (await owner.multicast("alpha", b"hello")).ordered()


@in_loop
async def test_the_socket_owner_has_what_is_granted_and_no_more(
    tmp_path: Path, certs: Path
) -> None:
    table = {"socket": ["observe"]}
    async with open_served(tmp_path, certs, table) as running, running.connect("a") as owner:
        await owner.status()
        with pytest.raises(NotGranted, match=r"socket has no grant send:alpha"):
            await (await owner.multicast("alpha", b"hello")).ordered()


# --- what it may do -------------------------------------------------------------------------------


@in_loop
async def test_every_request_without_its_grant_is_refused_by_name_and_counted(
    tmp_path: Path, certs: Path
) -> None:
    grants = {"client:bill*": ["send:alp*"], "client:other": ["admin:beta", "read:beta"]}
    async with open_served(tmp_path, certs, grants) as running:
        async with client(running, certs) as billing:
            await (await billing.multicast("alpha", b"may")).ordered()
            for send in (billing.multicast("beta", b""), billing.multicast_to(["b"], b"")):
                with pytest.raises(NotGranted, match=r"client:billing has no grant send:"):
                    await (await send).ordered()
            with pytest.raises(NotGranted, match="observe:"):
                await billing.status()
            with pytest.raises(NotGranted, match="observe:"):
                await anext(billing.deliveries(1, observe=True))
            with pytest.raises(NotGranted, match="read:"):
                await anext(billing.deliveries(1))
            with pytest.raises(NotGranted, match="read:"):
                await billing.confirm(1)
            with pytest.raises(NotGranted, match="admin:alpha"):
                await billing.change(LeaveGroup("alpha", "b"))
        async with client(running, certs, "other") as other:
            with pytest.raises(NotGranted, match=r"admin:\*"):
                await other.change(JoinGroup("beta", "a"), UseProtocol("centralized"))
            with pytest.raises(NotGranted, match=r"read:\*"):  # it reads only a part of them
                await other.confirm(0)
            with pytest.raises(NotGranted, match="read:alpha"):
                await other.exchange_digests("alpha", None, "")
            await other.change(JoinGroup("beta", "a"))
            told = (await other.status())["clients"]["refused"]
        counts = {(row["subject"], row["act"]): row["count"] for row in told}
        assert counts == {
            ("client:billing", "send"): 2,
            ("client:billing", "observe"): 2,
            ("client:billing", "read"): 2,
            ("client:billing", "admin"): 1,
            ("client:other", "admin"): 1,
            ("client:other", "read"): 2,
        }
        shown = exposition(running.admins["a"].desk.status())
        assert shown is not None
        line = 'client_refusals_total{act="send",cluster="local",site="a",subject="client:billing"}'
        assert f"ordercast_{line} 2.0" in shown.decode()


@in_loop
async def test_a_reader_gets_the_messages_of_its_groups_and_the_credit_goes_on(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when far more is withheld than it may be ahead, also across a broken connection."""
    from ordercast.net.client import readers

    monkeypatch.setattr(readers, "AHEAD_MESSAGES", 8)
    grants = {"client:billing": ["read:beta"]}
    async with open_served(tmp_path, certs, grants, durability="memory", dir=None) as running:
        node = running.cluster["b"]
        async with client(running, certs, site="b") as billing:
            items = billing.deliveries(1)
            for number in range(40):
                await (await node.multicast("alpha", b"not for it")).stable()
                if number % 10 == 9:
                    await (await node.multicast("beta", b"%d" % number)).stable()
                if number == 20:
                    assert billing._link is not None
                    if billing._link._wire is not None:
                        billing._link._wire.fail("for a test")
            found: list[tuple[int, str, bytes]] = []
            while len(found) < 4:
                item = await anext(items)
                if isinstance(item, ordercast.Delivery):
                    found.append((item.position, item.group, item.payload))
            assert found == [
                (11, "beta", b"9"), (22, "beta", b"19"), (33, "beta", b"29"), (44, "beta", b"39"),
            ]  # fmt: skip
            assert await is_quiet(items)
            await (await node.multicast(["alpha", "beta"], b"for both")).stable()
            await (await node.multicast_to(["a", "b"], b"not for it")).stable()
            both = await anext(items)
            assert isinstance(both, ordercast.Delivery)
            assert (both.position, both.groups) == (45, ("alpha", "beta"))
            assert await is_quiet(items)


@in_loop
async def test_an_observer_looks_on_at_its_groups_and_holds_nobody_up(
    tmp_path: Path, certs: Path
) -> None:
    grants = {"client:other": ["observe:alpha"]}
    async with open_served(tmp_path, certs, grants) as running:
        for group in ("beta", "alpha", "beta", "alpha"):
            await (await running.cluster["b"].multicast(group, b"")).stable()
        async with client(running, certs, "other", "b") as other:
            found = await read_messages(_Observer(other), 2, 1)
            assert [(item.position, item.group) for item in found] == [(2, "alpha"), (4, "alpha")]
            with pytest.raises(NotGranted, match="read:"):
                await anext(other.deliveries(1))


class _Observer:
    def __init__(self, client: Client) -> None:
        self.deliveries = partial(client.deliveries, observe=True)


@in_loop
async def test_nobody_speaks_for_the_requests_of_another_client(
    tmp_path: Path, certs: Path
) -> None:
    """Whoever reads sees the ids of those who sent; said by another they are other ids."""
    grants = {"client:*": ALL}
    async with open_served(tmp_path, certs, grants) as running:
        async with client(running, certs) as billing, running.connect("a") as owner:
            for known in (billing, owner):
                await (await known.multicast("alpha", b"first")).stable()
                thief = client(running, certs, "other")
                thief._hello = known._hello
                async with thief:
                    for _ in range(2):  # numbers that the other has used, or will use
                        await (await thief.multicast("alpha", b"stolen")).stable()
                await (await known.multicast("alpha", b"second")).stable()
        found = await read_messages(running.cluster["a"], 8)
        assert [item.payload for item in found] == [b"first", b"stolen", b"stolen", b"second"] * 2


# --- within one machine ---------------------------------------------------------------------------


@in_loop
async def test_without_certificates_the_secret_lets_its_owner_in_and_nobody_else(
    tmp_path: Path,
) -> None:
    secret, wrong = tmp_path / "secret", tmp_path / "wrong"
    for number, file in enumerate((secret, wrong)):
        file.write_text(f"{number:064x}\n")
        file.chmod(0o600)
    async with served(tmp_path, GROUPS, remote=True, secret=str(secret)) as running:
        assert secret_of(running.cluster.cluster) is not None
        address = running.address("a", "tcp")
        async with connect(address, secret=secret, **QUICK) as owner:
            await (await owner.multicast("alpha", b"hello")).stable()
            assert (await owner.status())["clients"]["connected"] == {"socket": 1}
            await running.kill("a")
            sent = await owner.multicast("alpha", b"again")
            await running.start("a")
            await sent.stable()
        assert await refused(connect(address, secret=wrong), "another secret")
        with pytest.raises(ConfigError, match="needs certificates"):
            connect("tcp://192.0.2.1:7001", secret=secret)


@pytest.mark.parametrize(
    ("address", "options", "said"),
    [
        ("tls://127.0.0.1:7001", {}, "no certificate is given"),
        ("tls://127.0.0.1", {"cert": "there.pem"}, "cannot be read"),
        (["127.0.0.1:7001"], {}, "is not the address of a daemon"),
        ([], {}, "no address"),
        ("tcp://127.0.0.1:7001", {}, "secret="),
        ("tcp://127.0.0.1:70010", {"secret": "x"}, "a port is a number"),
    ],
)
def test_mistakes_in_addresses_are_one_line(
    address: Any, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        connect(address, **options)


@in_loop
async def test_nobody_there_is_away_and_says_so(certs: Path) -> None:
    opening = connect("tls://127.0.0.1:1", cert=certs / "clients" / "billing.pem", start_s=0.2)
    with pytest.raises(
        Away, match=r"tls://127\.0\.0\.1:1: no daemon answers \(connection refused\)"
    ):
        async with opening:
            pass
