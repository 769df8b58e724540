"""Every verb that asks daemons, through a context: what it did, as another machine sees it; and
sites that are not in the cluster file."""

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ordercast import blocking
from processes.daemons import Daemons, up
from processes.test_remote_verbs import FILE, GRANTS
from support.harness.ports import free_ports

CERT = "certs/clients/boss.pem"


@pytest.fixture
def daemons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemons]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    options: dict[str, Any] = {"tls": True, "clients": True, "tables": GRANTS, "in_process": True}
    with up(tmp_path, durability="os", **options) as found:
        found.good("certs", FILE, "--client", "boss")
        addresses = [f"--address={door(found, site)}" for site in "ab"]
        found.good("context", "add", "boss", *addresses, "--cert", CERT)
        yield found


def door(daemons: Daemons, site: str) -> str:
    return f"tls://127.0.0.1:{daemons.clients[site]}"


def until(found: Callable[[], Any], limit_s: float = 60) -> Any:
    end = time.monotonic() + limit_s
    while not (told := found()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return told


@contextmanager
def serving(daemons: Daemons, *words: str) -> Iterator[dict[str, Any]]:
    """A verb that does not end by itself, and its first line."""
    child = daemons.start(*words, "--json")
    try:
        assert child.stdout is not None
        yield json.loads(child.stdout.readline())
    finally:
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)


def newcomer(daemons: Daemons, site: str, *options: str) -> str:
    """Add a site through the context, and run it. Returns its address."""
    address = daemons.run_newcomer(site, *options)
    daemons.good("site", "add", site, "--address", address)
    return address


def states(daemons: Daemons) -> tuple[int, dict[str, Any]]:
    done = daemons.run("status", "--json")
    return done.returncode, json.loads(done.stdout)["sites"]


def test_readers_producers_changes_and_screens_go_through_a_context(daemons: Daemons) -> None:
    readers_and_producers(daemons)
    changes(daemons)
    screens(daemons)


def readers_and_producers(daemons: Daemons) -> None:
    with blocking.connect([door(daemons, "a")], cert=daemons.place / CERT) as client:
        for number in range(1, 4):
            client.produce("sink", number, "alpha", [b"%d" % number]).stable()
        reader = client.deliveries(reader="billing", groups=["alpha"])
        taken = next(each for each in reader if hasattr(each, "payload"))
        client.confirm(taken.position, reader="billing")
    assert daemons.json("reader", "list", "a")["readers"]["billing"]["confirmed"] == 1
    assert daemons.json("reader", "reset", "a", "billing", "--to", "end")["position"] == 4
    assert daemons.json("reader", "list", "a")["readers"]["billing"]["confirmed"] == 3
    daemons.good("reader", "remove", "a", "billing")
    assert daemons.json("reader", "list", "a")["readers"] == {}

    told = daemons.json("producer", "list")["producers"]
    assert {(one["producer"], one["number"]) for one in told} >= {("sink", 3)}
    assert daemons.json("producer", "remove", "sink", "alpha")["done"]

    def forgotten() -> bool:
        told = daemons.json("producer", "list", "--via", "b")["producers"]
        return all(one["producer"] != "sink" for one in told)

    until(forgotten)  # another site hears of it a moment later


def changes(daemons: Daemons) -> None:
    assert daemons.json("voter", "remove", "c")["done"]
    assert daemons.json("voter", "add", "c")["done"]
    assert daemons.json("site", "list")["sites"]["c"]["voter"]

    assert daemons.json("group", "add", "gamma", "a", "c")["done"]
    assert daemons.json("group", "list")["groups"]["gamma"]["members"] == ["a", "c"]
    assert daemons.json("send", "gamma", "hello", "--until", "stable")["reached"] == 1
    assert daemons.json("group", "remove", "gamma")["done"]
    assert "gamma" not in daemons.json("group", "list")["groups"]

    assert daemons.json("grant", "add", "client:new", "send:alpha", "read:alpha")["done"]
    assert set(daemons.json("grant", "list")["table"]["client:new"]) == {"read:alpha", "send:alpha"}
    assert daemons.json("grant", "remove", "client:new", "read:alpha")["done"]
    assert daemons.json("grant", "list")["table"]["client:new"] == ["send:alpha"]

    newcomer(daemons, "d")
    assert daemons.json("group", "join", "alpha", "d")["done"]
    assert daemons.json("group", "list")["groups"]["alpha"]["members"] == ["a", "b", "d"]
    assert daemons.json("site", "retire", "d")["done"]
    assert "d" not in daemons.json("site", "list")["sites"]


def screens(daemons: Daemons) -> None:
    daemons.good("send", "alpha", "hello", "--until", "stable")
    with serving(daemons, "top", "--every", "0.2") as view:
        assert view["cluster"] == "demo"
        assert {site: each["known"] for site, each in view["sites"].items()} == dict.fromkeys(
            "abc", True
        )
        assert view["groups"]["alpha"]["delivered"] == 4  # of the producer, too
    with (
        serving(daemons, "dashboard", "--port", "0") as told,
        urllib.request.urlopen(f"{told['url']}/api/cluster", timeout=60) as answer,
    ):
        page = json.dumps(json.load(answer))
        assert "demo" in page


def test_sites_that_were_added_are_seen_from_everywhere_and_so_is_their_end(
    daemons: Daemons,
) -> None:
    (port,) = free_ports(1)
    newcomer(daemons, "d", "--clients", f"127.0.0.1:{port}")
    newcomer(daemons, "e")  # with no address for clients
    assert daemons.json("group", "join", "alpha", "d", "e")["done"]
    until(lambda: "site" in states(daemons)[1]["d"])  # sites tell their doors when they connect
    until(lambda: states(daemons)[0] == 0)
    _, told = states(daemons)
    assert told["d"]["site"] == "d"
    assert told["a"]["doors"]["d"] == f"127.0.0.1:{port}"
    sent = daemons.json("send", "alpha", "from d", "--from", "d", "--until", "stable")
    assert sent["from"] == "d"
    why = "no site that answers knows an address of it for clients"
    assert told["e"] == {"state": "elsewhere", "reasons": [why]}
    for number, site in enumerate("de"):
        os.kill(daemons.pids()[site], signal.SIGKILL)
        daemons._added[number].wait(20)
    until(lambda: states(daemons)[1]["e"]["state"] == "down")
    code, told = states(daemons)
    assert code == 1
    assert told["d"]["state"] == "down"
    assert told["e"]["reasons"] == [f"{why}, or has a connection to it"]
