"""Verbs from another machine: contexts, the environment, and daemons that are reached over TLS."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ordercast.net.cluster.certificates import add_client_certificates
from processes.daemons import COMMAND, Daemons, up
from support.clusters.processes import write_cluster
from support.network.namespaces import Namespaces, why_not

FILE = "cluster.toml"
GRANTS = """
[grants]
socket = ["send", "read", "observe", "admin"]
"site:*" = ["observe"]
"client:boss" = ["send", "read", "observe", "admin"]
"client:clerk" = ["send:alpha"]
"""
LIMIT_S = 120.0  # only against hanging


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    options: dict[str, Any] = {"tls": True, "clients": True, "tables": GRANTS, "in_process": True}
    with up(tmp_path, durability="os", **options) as found:
        found.good("certs", FILE, "--client", "boss", "--client", "clerk")
        for name, sites in (("boss", "ab"), ("clerk", "a")):
            addresses = [f"--address=tls://127.0.0.1:{found.clients[site]}" for site in sites]
            found.good("context", "add", name, *addresses, "--cert", f"certs/clients/{name}.pem")
        yield found


def test_every_verb_goes_where_a_context_or_the_environment_says(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = daemons.json("context", "list")
    assert (listed["current"], list(listed["contexts"])) == ("boss", ["boss", "clerk"])
    file = tmp_path / "settings" / "ordercast" / "contexts.toml"
    assert file.stat().st_mode & 0o777 == 0o600

    # The current context.
    sent = daemons.json("send", "alpha", "hello", "--until", "stable")
    assert (sent["from"], sent["reached"]) == ("a", 1)
    assert daemons.json("send", "beta", "at b", "--from", "b", "--until", "stable")["from"] == "b"
    (line,) = daemons.lines("tail", "--site", "b", "--start", "2", "--count", "1")
    assert (line["text"], line["group"]) == ("at b", "beta")
    whole = daemons.json("status")
    assert {site: told["state"] for site, told in whole["sites"].items()} == {
        "a": "up", "b": "up", "c": "up",
    }  # fmt: skip
    assert whole["cluster"] == "demo"
    assert daemons.json("group", "join", "alpha", "c")["done"]
    assert daemons.json("group", "list", "--via", "c")["groups"]["alpha"]["members"] == list("abc")
    assert daemons.json("protocol", "switch", "centralized")["done"]
    assert daemons.json("voter", "remove", "c", "--via", "b")["via"] == "b"
    assert daemons.json("site", "list")["sites"]["c"] == {
        "groups": ["alpha", "beta"],
        "voter": False,
    }
    assert daemons.json("epoch")["epochs"][0]["protocol"] == "centralized"

    # What looks into stores: copies of them come here.
    kept = daemons.json("backup", "b", "b.backup")
    assert (kept["site"], kept["position"]) == ("b", 2)
    assert daemons.json("inspect", "b.backup")["stores"][0]["site"] == "b"
    (found,) = daemons.json("inspect", "c")["stores"]
    assert (found["path"], found["damage"]) == ("demo/c", [])
    assert "name the sites" in daemons.run("inspect").stderr
    refused = daemons.run("inspect", "d")
    assert refused.returncode == 2
    assert refused.stderr == "ordercast: --context boss: there is no site 'd' (known: a, b, c)\n"
    assert daemons.json("export", "far-history")["sites"] == ["a", "b", "c"]
    followed = daemons.lines("audit", "--follow", "--once", "--checkpoint", "followed")[-1]
    assert (followed["ok"], followed["rows"], followed["sites"]) == (True, 4, 3)
    told = daemons.json("doctor")
    assert (told["ok"], told["cluster"], told["dir"]) == (True, "demo", "")
    found = {each["about"]: each["found"] for each in told["findings"]}
    assert found["our certificate"].startswith("is good for ")
    assert found["c"].startswith("its certificate is good for ")
    assert "not seen from here" in found["not seen"]
    refused = daemons.run("backup", "a", "no.backup", "--context", "clerk")
    assert (refused.returncode, "client:clerk has no grant admin:*" in refused.stderr) == (2, True)
    refused = daemons.run("compact", "a")
    assert "CLUSTER is missing: it works on files of its machine" in refused.stderr
    assert not list(daemons.dir.glob("*.copy*")) + list(tmp_path.glob("*.tmp"))

    # A certificate whose file is gone is revoked by its fingerprint.
    assert daemons.json("certs", "revoke", "nobody", "--fingerprint", "ab" * 32)["done"]
    assert daemons.json("grant", "list")["revoked"] == {"ab" * 32: "client:nobody"}

    # The option, and what it may not.
    refused = daemons.run("send", "beta", "no", "--context", "clerk")
    assert refused.returncode == 2
    assert "client:clerk has no grant send:beta" in refused.stderr
    assert daemons.json("send", "alpha", "--size", "9", "--context", "clerk")["reached"] == 1
    refused = daemons.run("group", "leave", "alpha", "c", "--context", "clerk")
    assert refused.returncode == 2
    assert "client:clerk has no grant admin:alpha" in refused.stderr

    # The environment, above the current context.
    monkeypatch.setenv("ORDERCAST_CLUSTER", FILE)
    assert daemons.json("status")["dir"] != ""
    assert daemons.json("export", "history")["sites"] == ["a", "b", "c"]
    monkeypatch.setenv("ORDERCAST_CONTEXT", "clerk")
    assert "has no grant" in daemons.run("status").stderr
    assert daemons.json("status", FILE)["dir"] != ""  # the command line, above all
    monkeypatch.setenv("ORDERCAST_CONTEXT", "clark")
    assert "there is no context 'clark' (did you mean 'clerk'?)" in daemons.run("epoch").stderr


def test_the_whole_cluster_is_seen_from_one_place_also_when_a_site_is_gone(
    daemons: Daemons, tmp_path: Path
) -> None:
    daemons.good("cluster", "kill", FILE, "a")
    (followed,) = daemons.lines("audit", "--follow", "--once")
    assert (followed["ok"], followed["rows"]) == (True, 0)
    done = daemons.run("status", "--json")
    assert done.returncode == 1
    states = {site: told["state"] for site, told in json.loads(done.stdout)["sites"].items()}
    assert states["a"] == "down"
    assert {states["b"], states["c"]} <= {"up", "unwell"}
    # From the machine of a site: as it were, b alone is here.
    here = tmp_path / "elsewhere"
    here.mkdir(mode=0o700)
    done = daemons.run("status", FILE, "--dir", str(here), "--json")
    assert done.returncode == 1
    assert f"looked in {here}: nothing of cluster 'demo'" in done.stderr
    told = json.loads(done.stdout)["sites"]
    assert told["a"]["state"] == "down"
    assert told["b"]["site"] == "b"
    assert set(told["b"]["clients"]["connected"]) == {"site:a"}


@pytest.fixture(scope="module")
def _namespaces() -> None:
    if why := why_not():
        pytest.skip(why)


@pytest.mark.usefixtures("_namespaces")
def test_a_client_in_another_network_namespace_sends_reads_and_outlives_a_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    with ExitStack() as stack:
        network = stack.enter_context(Namespaces("ab"))
        host = network.address["a"]
        file = write_cluster(tmp_path, {"alpha": ["a"]}, {}, addresses={"a": f"{host}:7101"})
        text = file.read_text().replace("[sites.a]", f'[sites.a]\nclients = "{host}:7201"')
        file.write_text(f'{text}\n[grants]\n"client:far" = ["send", "observe"]\n')
        add_client_certificates("trial", ["far"], tmp_path / "certs")

        def start(side: str, *words: str) -> subprocess.Popen[str]:
            child = subprocess.Popen(
                [*network.words(side), *COMMAND, *words],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(child.communicate)
            stack.callback(child.kill)
            return child

        def run(*words: str) -> Any:
            out, _ = start("b", *words, "--json").communicate(timeout=LIMIT_S)
            return json.loads(out)

        node = start("a", "node", file.name, "--site", "a", "--dir", "stores", "--json")
        assert node.stdout is not None
        assert json.loads(node.stdout.readline())["event"] == "ready"
        cert = str(tmp_path / "certs" / "clients" / "far.pem")
        run("context", "add", "far", "--address", f"tls://{host}:7201", "--cert", cert)
        assert run("send", "alpha", "one", "--until", "stable")["from"] == "a"
        assert run("status")["sites"]["a"]["state"] == "up"

        piped = start("b", "send", "alpha", "-", "--until", "stable", "--json")
        tail = start("b", "tail", "--start", "2", "--count", "2", "--json")
        assert piped.stdin is not None
        assert tail.stdout is not None
        print("two", file=piped.stdin, flush=True)
        assert json.loads(tail.stdout.readline())["text"] == "two"
        network.cut("a", "b")
        print("three", file=piped.stdin, flush=True)
        network.mend()
        out, _ = piped.communicate(timeout=LIMIT_S)
        assert json.loads(out)["reached"] == 2
        assert json.loads(tail.stdout.readline())["text"] == "three"
