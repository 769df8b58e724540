"""`ordercast grant` and `ordercast certs revoke` on running sites."""

from pathlib import Path
from typing import Any

import pytest

from cli.beside import Verbs
from ordercast.model.epochs import Grant, Withdraw
from ordercast.net.admin.frames import Welcome
from ordercast.net.cluster.certificates import add_client_certificates, fingerprint_of
from ordercast.net.daemon import client_connection
from ordercast.net.site.node import site_of
from support.clusters.served import served
from support.harness.loops import in_loop

FILE = """
[cluster]
name = "local"
[tls]
dir = "certs"
[sites.a]
address = "127.0.0.1:7101"
[groups]
alpha = ["a"]
"""
ALL = ["send:*", "read:*", "observe:*", "admin:*"]


@in_loop
async def test_grants_are_listed_given_and_withdrawn_and_certificates_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(FILE)

    verbs = Verbs(tmp_path, capsys)
    verb, told = verbs.run, verbs.told
    path = str(file)
    await verb(0, "certs", path)
    add_client_certificates("local", ["far"], tmp_path / "certs")
    async with served(tmp_path, {"alpha": ["a"]}) as running:
        assert "no table: sites and the sockets" in await verb(0, "grant", "list", path)
        done = await told("grant", "add", path, "client:far", "send:alpha", "read")
        assert done["edits"] == ["client:far is granted send:alpha, read:*"]
        listed = await told("grant", "list", path)
        assert listed["table"] == {
            "socket": ALL, "site:*": ALL, "client:far": ["send:alpha", "read:*"],
        }  # fmt: skip
        await verb(0, "grant", "remove", path, "client:far", "read")
        shown = (await verb(0, "grant", "list", path)).splitlines()
        assert shown[0].split() == ["subject", "grants"]
        assert shown[3].split() == ["client:far", "send:alpha"]
        await verb(0, "grant", "remove", path, "client:far")
        assert "client:far" not in (await told("grant", "list", path))["table"]
        done = await told("certs", "revoke", path, "far")
        fingerprint = fingerprint_of(tmp_path / "certs" / "clients" / "far.pem")
        assert (await told("grant", "list", path))["revoked"] == {fingerprint: "client:far"}
        assert "of client:far is revoked" in done["edits"][0]
        colons = ":".join("ab" for _ in range(32)).upper()
        await verb(0, "certs", "revoke", path, "gone", "--fingerprint", colons)
        assert f"revoked: {'ab' * 32} of client:gone" in await verb(0, "grant", "list", path)
        for words, said in (
            (("grant", "add", path, "client:far"), "GRANT is missing"),
            (("grant", "add", path, "klient:far", "send"), "there is no kind 'klient'"),
            (("grant", "add", path, "client:far", "sent"), "there is no verb 'sent'"),
            (("grant", "remove", path, "client:fra"), "there is no line client:fra"),
            (("certs", "revoke", path, "nobody"), "nobody.pem: cannot be read"),
            (("certs", "revoke", path), "NAME is missing"),
            (("certs", "revoke", path, "x", "--fingerprint", "12"), "is no SHA-256"),
            (("certs", path, "far"), "one argument too many: 'far'"),
        ):
            assert said in await verb(2, *words)
        done = await told("grant", "remove", path, "socket")
        assert done["done"]
        assert done["edits"] == ["socket is granted nothing any more"]
        refused = site_of(running.cluster["a"]).permits.refused
        before = refused["socket", "connect"]
        assert "socket has no grant" in await verb(2, "grant", "list", path)
        assert refused["socket", "connect"] == before + 1


@in_loop
async def test_a_list_of_grants_that_is_refused_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(FILE.replace('[tls]\ndir = "certs"\n', ""))
    table = {"site:*": ["admin", "send"], "socket": ["observe"]}
    verb = Verbs(tmp_path, capsys).run
    async with served(tmp_path, {"alpha": ["a"]}, grants=table) as running:
        assert "socket has no grant admin:*" in await verb(2, "grant", "list", str(file))
        assert site_of(running.cluster["a"]).permits.refused["socket", "admin"] == 1
        assert "grants" not in await Verbs(tmp_path, capsys).told("status", str(file))


@in_loop
async def test_a_daemon_of_an_earlier_release_tells_the_grants_in_its_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients may be upgraded before it."""

    def welcome(*told: Any, **named: Any) -> Welcome:
        return Welcome(*told, **{**named, "tells_grants": False})

    monkeypatch.setattr(client_connection, "Welcome", welcome)
    file = tmp_path / "cluster.toml"
    file.write_text(FILE.replace('[tls]\ndir = "certs"\n', ""))
    table = {"site:*": ["admin", "send"], "socket": ["admin"]}
    async with served(tmp_path, {"alpha": ["a"]}, grants=table) as running:
        listed = await Verbs(tmp_path, capsys).told("grant", "list", str(file))
        assert listed["table"]["socket"] == ["admin:*"]
        node = running.cluster["a"]
        await node.change(Grant("socket", ("read:*",)), Withdraw("socket", ("admin:*",)))
        refused = await Verbs(tmp_path, capsys).run(2, "grant", "list", str(file))
        assert "no grant admin:*" in refused
