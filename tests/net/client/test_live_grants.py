"""Grants and certificates that are changed while clients work: what counts, and from when."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.epochs import AddGroup, AddProducer, Grant, JoinGroup
from ordercast.model.errors import ConfigError, Error, NotGranted
from ordercast.model.grants import CLIENT, ClientSubject
from ordercast.model.messages import Delivery
from ordercast.net.client.calls import Away
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import (
    add_client_certificates,
    fingerprint_of,
    write_certificates,
)
from ordercast.net.site.node import site_of
from support.clusters.served import Served, served
from support.clusters.sites import read_messages, until
from support.harness.loops import in_loop

ALL = ["send:*", "read:*", "observe:*", "admin:*"]
TABLE = {"socket": ALL, "site:*": ALL, "client:billing": ALL}
QUICK: dict[str, Any] = {"start_s": 20.0, "patience_s": 20.0, "flush_s": 0.1}
OTHER = ClientSubject(CLIENT, "other")
WITHIN_S = 1.0


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    found = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c"], found)
    add_client_certificates("local", ["billing", "other"], found)
    return found


def opened(tmp_path: Path, certs: Path, grants: dict[str, list[str]] | None = None) -> Any:
    table = {} if grants == {} else {"grants": grants or TABLE}
    return served(tmp_path, remote=True, tls={"dir": str(certs)}, **table)


def client(running: Served, certs: Path, name: str = "other", site: str = "a") -> Client:
    return connect(running.address(site), cert=certs / "clients" / f"{name}.pem", **QUICK)


def everywhere(running: Served, wanted: Callable[[Any], bool]) -> bool:
    return all(wanted(site_of(running.cluster[site])) for site in running.admins)


async def soon(running: Served, wanted: Callable[[Any], bool]) -> None:
    """It holds at every site, within the time that is promised."""
    begun = time.monotonic()
    await until(lambda: everywhere(running, wanted))
    assert time.monotonic() - begun < WITHIN_S


@in_loop
async def test_a_grant_counts_at_every_site_soon_and_one_that_is_withdrawn_no_more(
    tmp_path: Path, certs: Path
) -> None:
    async with opened(tmp_path, certs) as running, client(running, certs, "billing") as boss:
        await until(lambda: everywhere(running, lambda at: at.core.layout.grants.lines is not None))
        with pytest.raises(NotGranted, match=r"client:other has no grant \('ordercast grant add"):
            async with client(running, certs, site="c"):
                pass
        await boss.grant("client:other", ["send:alpha", "read:alpha"])
        await soon(running, lambda at: at.permits.allows(OTHER, "send", "alpha"))
        async with client(running, certs, site="b") as other:
            await (await other.multicast("alpha", b"one")).stable()
            assert [each.payload for each in await read_messages(other, 1)] == [b"one"]
            with pytest.raises(NotGranted, match="client:other has no grant send:beta"):
                await (await other.multicast("beta", b"two")).ordered()
            await boss.withdraw("client:other", ["send:alpha"])
            await soon(running, lambda at: not at.permits.allows(OTHER, "send", "alpha"))
            with pytest.raises(NotGranted, match="client:other has no grant send:alpha"):
                await (await other.multicast("alpha", b"three")).ordered()
            counted = site_of(running.cluster["b"]).permits.refused
            assert counted["client:other", "send"] == 2


@in_loop
async def test_who_has_no_grant_left_is_told_so_and_its_connection_is_closed(
    tmp_path: Path, certs: Path
) -> None:
    table = {**TABLE, "client:other": ["send:alpha", "read"]}
    async with opened(tmp_path, certs, table) as running, client(running, certs) as other:
        await (await other.multicast("alpha", b"one")).stable()
        reading = asyncio.ensure_future(read_messages(other, 2))
        async with client(running, certs, "billing", "c") as boss:
            await boss.withdraw("client:other", ["read:*"])
            with pytest.raises(NotGranted, match="client:other has no grant read:"):
                await reading
            await (await other.multicast("alpha", b"two")).stable()  # it may still send
            begun = time.monotonic()
            await boss.withdraw("client:other")
            desk = running.admins["a"].desk
            await until(lambda: OTHER not in [each.subject for each in desk.served()])
            assert time.monotonic() - begun < WITHIN_S
        with pytest.raises(NotGranted, match="client:other has no grant"):
            await (await other.multicast("alpha", b"three")).ordered()


@in_loop
async def test_who_takes_its_own_grants_away_is_told_that_it_is_done_and_then_let_go(
    tmp_path: Path, certs: Path
) -> None:
    own = fingerprint_of(certs / "clients" / "other.pem")
    async with opened(tmp_path, certs) as running, client(running, certs, "billing") as boss:
        desk = running.admins["a"].desk
        for change in (Client.withdraw, lambda me, who: me.revoke_certificate(who, own)):
            await boss.grant("client:other", ["admin", "read"])
            async with client(running, certs) as other:
                reading = asyncio.ensure_future(read_messages(other, 1))
                await change(other, "client:other")
                with pytest.raises(NotGranted):
                    await reading
                await until(lambda: OTHER not in [each.subject for each in desk.served()])
                with pytest.raises(NotGranted):
                    await other.status()


@in_loop
@pytest.mark.parametrize("left", [[], ["read"]], ids=["nothing", "read"])
async def test_a_change_that_is_refused_only_when_it_is_repeated_may_have_been_done(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    """Its first answer was lost with the connection. What was never asked before is just refused,
    and so is a question that changes nothing."""
    table = {**TABLE, "client:other": ["admin", *left]}
    async with opened(tmp_path, certs, table) as running, client(running, certs) as other:
        boss, site = running.cluster["b"], site_of(running.cluster["a"])
        desk = running.admins["a"].desk
        await until(lambda: everywhere(running, lambda at: at.core.layout.grants.lines is not None))
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def held(*_asked: Any) -> None:
            begun.set()
            await go_on.wait()

        with monkeypatch.context() as patch:
            patch.setattr(site, "change", held)
            asked = asyncio.ensure_future(other.change(AddGroup("gamma", ("a",))))
            await begun.wait()
        turned_away: list[ClientSubject] = []

        def not_now(subject: ClientSubject, _certificate: str = "") -> None:
            turned_away.append(subject)
            raise Error("not now")

        with monkeypatch.context() as patch:
            patch.setattr(site.permits, "admit_client", not_now)
            next(each for each in desk.served() if each.subject == OTHER).wire.fail("cut by a test")
            await until(lambda: OTHER in turned_away)
            fresh = asyncio.ensure_future(other.change(AddGroup("delta", ("a",))))
            listed = asyncio.ensure_future(other.grants())
            await boss.withdraw("client:other", ["admin:*"])
            await soon(running, lambda at: not at.permits.allows(OTHER, "admin", "gamma"))
        with pytest.raises(Away, match=r"client:other has no grant .*not known whether"):
            await asked
        for never_asked in (fresh, listed):
            with pytest.raises(NotGranted, match="client:other has no grant"):
                await never_asked
        go_on.set()


@in_loop
async def test_a_change_whose_grant_goes_while_it_is_asked_for_names_the_grant_and_is_counted(
    tmp_path: Path, certs: Path
) -> None:
    table = {**TABLE, "client:other": ["admin", "read"]}
    async with opened(tmp_path, certs, table) as running, client(running, certs) as other:
        await until(lambda: everywhere(running, lambda at: at.core.layout.grants.lines is not None))
        withdrawn = asyncio.ensure_future(other.withdraw("client:other", ["admin:*"]))
        with pytest.raises(NotGranted, match="client:other has no grant admin:gamma"):
            await asyncio.ensure_future(other.change(AddGroup("gamma", ("a",))))
        await withdrawn
        assert site_of(running.cluster["a"]).permits.refused["client:other", "admin"] == 1


@in_loop
async def test_a_follower_of_a_named_reader_loses_it_with_the_grant(
    tmp_path: Path, certs: Path
) -> None:
    table = {**TABLE, "client:other": ["read:alpha", "read:beta"]}
    async with opened(tmp_path, certs, table) as running, client(running, certs, site="b") as other:
        node = running.cluster["b"]
        await (await node.multicast("alpha", b"one")).stable()
        reader = other.deliveries(reader="r", groups=["alpha", "beta"])
        first = await anext(reader)
        assert isinstance(first, Delivery)
        assert first.payload == b"one"
        await node.withdraw("client:other", ["read:beta"])
        with pytest.raises(NotGranted, match="client:other has no grant read:beta"):
            await anext(reader)


@in_loop
async def test_a_node_is_the_subject_of_its_site_for_what_it_sends_and_changes(
    tmp_path: Path, certs: Path
) -> None:
    async with opened(tmp_path, certs) as running:
        a, b = running.cluster["a"], running.cluster["b"]
        await (await b.multicast("alpha", b"before")).stable()
        await a.change(Grant("site:a", ("admin:*", "send:*")), Grant("site:b", ("send:alpha",)))
        await a.withdraw("site:*")
        await soon(running, lambda at: len(at.core.layout.grants.lines) == 4)
        await (await b.multicast("alpha", b"one")).stable()
        sends: list[Callable[[], Coroutine[Any, Any, object]]] = [
            lambda: b.multicast("beta", b"two"),
            lambda: b.multicast_many("beta", [b"two"]),
            lambda: b.multicast_to(["a"], b"two"),
            lambda: b.multicast(["alpha", "beta"], b"two"),
            lambda: b.join("alpha", "c"),
        ]
        for sending in sends:
            with pytest.raises(NotGranted, match="site:b has no grant"):
                await sending()
        with pytest.raises(NotGranted, match="site:b has no grant send:beta"):
            b.multicast_nowait("beta", b"two")
        assert site_of(b).permits.refused == {("site:b", "send"): 5, ("site:b", "admin"): 1}


@in_loop
async def test_the_manager_asks_for_the_grant_of_whoever_wants_a_change(
    tmp_path: Path, certs: Path
) -> None:
    """A site that does not look at the grants itself has its change refused all the same."""
    async with opened(tmp_path, certs) as running:
        a, b = running.cluster["a"], running.cluster["b"]
        await a.change(Grant("site:a", ("admin:*", "send:*")), Grant("site:b", ("admin:gamma",)))
        await a.withdraw("site:*")
        changes = site_of(b).changes
        await changes.change((AddGroup("gamma", ("b",)),), "allowed", None)
        for name, edits, subject in (
            ("of the site", (JoinGroup("alpha", "c"),), None),
            ("of a client", (AddGroup("gamma-2", ("b",)),), OTHER),
            ("of grants", (Grant("site:b", ("send:*",)),), None),
        ):
            who = subject or "site:b"
            with pytest.raises(ConfigError, match=f"{who} has no grant admin:"):
                await changes.change(edits, name, subject)
        assert list(site_of(a).core.layout.groups) == ["alpha", "beta", "gamma"]


@in_loop
async def test_who_may_send_needs_no_other_grant_for_numbers_ids_and_repeats(
    tmp_path: Path, certs: Path
) -> None:
    """The site asks for what that needs, and has no grant of its own."""
    table = {"socket": ["admin:*"], "client:other": ["send:alpha"], "site:c": ["send:beta"]}
    async with opened(tmp_path, certs, table) as running, client(running, certs) as other:
        await (await other.multicast("alpha", b"one")).stable()
        await (await other.produce("sink", 1, "alpha", [b"two"])).stable()
        await (await other.multicast("alpha", b"three", id="order-17")).stable()
        await until(lambda: len(site_of(running.cluster["b"]).core.layout.producers) == 3)
        for pair in (("+clients", "alpha"), ("+ids", "alpha"), ("sink", "alpha")):
            assert pair in site_of(running.cluster["b"]).core.layout.producers
        with pytest.raises(NotGranted, match="site:b has no grant send:beta"):
            await running.cluster["b"].produce("sink", 1, "beta", [b"four"])
        changes = site_of(running.cluster["b"]).changes  # a program that does not look
        with pytest.raises(ConfigError, match="site:b has no grant send:beta"):
            await changes.change((AddProducer("sink", "beta"),), "of the site", None)
        with pytest.raises(ConfigError, match="client:other has no grant send:beta"):
            await changes.change((AddProducer("sink", "beta"),), "of a client", OTHER)
        await (await running.cluster["c"].produce("sink", 1, "beta", [b"five"])).stable()


@in_loop
async def test_a_restarted_site_knows_grants_and_revoked_certificates_before_it_serves(
    tmp_path: Path, certs: Path
) -> None:
    async with opened(tmp_path, certs) as running:
        a = running.cluster["a"]
        await a.grant("client:other", ["send:alpha"])
        shown = fingerprint_of(certs / "clients" / "billing.pem")
        await a.revoke_certificate("client:billing", shown)
        await soon(running, lambda at: shown in at.core.layout.revoked)
        for site in ("a", "b", "c"):
            await running.kill(site)
        await running.start("a")  # alone: nobody tells it anything
        permits = site_of(running.cluster["a"]).permits
        assert permits.allows(OTHER, "send", "alpha")
        with pytest.raises(NotGranted, match="client:billing: its certificate is revoked"):
            permits.admit_client(ClientSubject(CLIENT, "billing"), shown)
        for site in ("b", "c"):
            await running.start(site)


@in_loop
async def test_a_revoked_certificate_is_let_in_nowhere_and_its_connections_are_closed(
    tmp_path: Path, certs: Path
) -> None:
    table = {**TABLE, "client:other": ["send:alpha"]}
    async with opened(tmp_path, certs, table) as running:
        others = [client(running, certs, site=site) for site in ("a", "b", "c")]
        for each in others:
            await each.__aenter__()
            await (await each.multicast("alpha", b"one")).ordered()
        file = certs / "clients" / "other.pem"
        await running.cluster["b"].revoke_certificate("client:other", fingerprint_of(file))
        begun = time.monotonic()
        await until(lambda: not any(running.admins[site].desk.served() for site in "abc"))
        assert time.monotonic() - begun < WITHIN_S
        for each in others:
            with pytest.raises(NotGranted, match="its certificate is revoked"):
                await (await each.multicast("alpha", b"two")).ordered()
            await each.__aexit__(None, None, None)
        for site in ("a", "b", "c"):
            with pytest.raises(NotGranted, match="client:other: its certificate is revoked"):
                async with client(running, certs, site=site):
                    pass
        add_client_certificates("local", ["other"], certs, renew=True)
        async with client(running, certs) as again:
            await (await again.multicast("alpha", b"three")).ordered()
        refused = site_of(running.cluster["a"]).permits.refused
        assert refused["client:other", "connect"] >= 2


@in_loop
async def test_without_a_table_the_first_grant_writes_down_what_was_allowed(
    tmp_path: Path, certs: Path
) -> None:
    async with opened(tmp_path, certs, {}) as running, running.connect("a") as owner:
        assert (await owner.status())["grants"] == {"table": None, "revoked": {}}
        await owner.grant("client:other", ["send:alpha"])
        table = (await owner.status())["grants"]["table"]
        assert table == {"socket": ALL, "site:*": ALL, "client:other": ["send:alpha"]}
        await (await running.cluster["c"].multicast("beta", b"still")).ordered()
        async with client(running, certs) as other:
            await (await other.multicast("alpha", b"now")).ordered()
            with pytest.raises(NotGranted, match="client:other has no grant observe:"):
                await other.status()
        for edit, said in (
            (owner.withdraw("client:nobody"), "there is no line client:nobody"),
            (owner.withdraw("client:other", ["read:x"]), "the line client:other has no read:x"),
            (owner.grant("client:x", ["sing:x"]), "there is no verb 'sing'"),
            (owner.change(Grant("client:x", ("send",)), JoinGroup("beta", "a")), "by themselves"),
        ):
            with pytest.raises(ConfigError, match=said):
                await edit
        await owner.withdraw("site:*")
        with pytest.raises(ConfigError, match=r"nobody would have admin:\*"):
            await owner.withdraw("socket", ["admin:*"])


@in_loop
async def test_a_site_with_a_changed_program_sends_to_no_group_that_it_is_not_granted(
    tmp_path: Path, certs: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = {"socket": ["admin"], "site:a": ["send", "admin"], "site:*": ["send:beta", "read"]}
    async with opened(tmp_path, certs, lines) as running:
        a, c = running.cluster["a"], running.cluster["c"]
        await (await c.multicast("beta", b"granted")).stable()
        changed = site_of(c)
        monkeypatch.setattr(changed.permits, "require", lambda *_: None)
        monkeypatch.setattr(changed.core.senders, "of", lambda *_: None)
        receipt = await c.multicast("alpha", b"not granted")
        await until(lambda: "site:c has no grant send:alpha" in caplog.text)
        assert receipt.seq == 1
        refused = [site_of(running.cluster[s]).permits.refused["site:c", "send"] for s in "ab"]
        assert sum(refused) >= 1
        await (await a.multicast("alpha", b"others go on")).stable()
        assert [m.payload for m in await read_messages(a, 1)] == [b"others go on"]
        await a.grant("site:c", ["send:alpha"])
        await receipt.stable()
