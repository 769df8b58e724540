"""Changing a running cluster with the verbs, as an operator does, with and without TLS."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from processes.daemons import Daemons, soon
from processes.daemons import up as really_up
from support.harness.ports import free_ports

FILE = "cluster.toml"


def up(place: Path, **options: Any) -> AbstractContextManager[Daemons]:
    """Daemons are processes; the verbs that ask them need not be."""
    return really_up(place, in_process=True, durability="os", **options)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    """One cluster for the tests that leave its groups as they found them."""
    with up(tmp_path_factory.mktemp("cluster")) as daemons:
        yield daemons


def members(daemons: Daemons, via: str = "a") -> dict[str, list[str]]:
    told = daemons.json("group", "list", FILE, "--via", via)
    assert (told["source"], told["via"]) == ("running", via)
    return {group: row["members"] for group, row in told["groups"].items()}


def manager_of(daemons: Daemons) -> str:
    """Nobody is, for the first moments."""
    assert soon(lambda: daemons.json("epoch", FILE)["manager"] is not None)
    return str(daemons.json("epoch", FILE)["manager"])


def statuses(daemons: Daemons) -> Any:
    """Also where a link is not there yet, and the exit code says so."""
    return json.loads(daemons.run("status", FILE, "--json").stdout)["sites"]


def received(daemons: Daemons, site: str) -> list[str]:
    """Texts that a site has delivered so far."""
    position = statuses(daemons)[site]["position"]
    if not position:
        return []
    rows = daemons.lines("tail", FILE, "--site", site, "--start", "1", "--count", str(position))
    return [row["text"] for row in rows if "opened" not in row]


def test_groups_come_and_go_and_their_members_too(cluster: Daemons) -> None:
    done = cluster.json("group", "add", FILE, "gamma", "a", "c")
    assert (done["done"], done["edits"]) == (True, ["group gamma is added, of a, c"])
    assert members(cluster)["gamma"] == ["a", "c"]
    cluster.good("send", FILE, "gamma", "to gamma", "--from", "b", "--until", "stable")
    cluster.good("group", "join", FILE, "gamma", "b")
    cluster.good("send", FILE, "gamma", "to all", "--from", "a", "--until", "stable")
    cluster.good("group", "leave", FILE, "gamma", "b")
    cluster.good("send", FILE, "gamma", "without b", "--from", "a", "--until", "stable")
    text = cluster.good("group", "remove", FILE, "gamma")
    assert text.endswith("group gamma is removed\n")
    assert "gamma" not in members(cluster)
    sent = cluster.run("send", FILE, "gamma", "too late")
    assert (sent.returncode, sent.stdout) == (2, "")
    assert "there is no group 'gamma'" in sent.stderr
    assert received(cluster, "b")[-1:] == ["to all"]
    assert received(cluster, "c")[-3:] == ["to gamma", "to all", "without b"]


def test_a_tail_shows_where_epochs_open(cluster: Daemons) -> None:
    start = statuses(cluster)["a"]["position"] + 1
    cluster.good("send", FILE, "alpha", "before", "--until", "stable")
    cluster.good("group", "join", FILE, "beta", "a")
    cluster.good("send", FILE, "beta", "after", "--until", "stable")
    cluster.good("group", "leave", FILE, "beta", "a")
    words = ("tail", FILE, "--site", "a", "--start", str(start), "--count", "2")
    rows = cluster.lines(*words)
    rows = rows[next(n for n, row in enumerate(rows) if "opened" not in row) :]
    before, opened, after = rows
    assert (before["text"], after["text"]) == ("before", "after")
    assert opened["opened"]["position"] == before["position"]
    assert opened["opened"]["joined"] == ["beta"]
    assert opened["opened"]["members"]["beta"] == ["a", "b", "c"]
    assert before["epoch"] < opened["opened"]["epoch"] == after["epoch"]
    text = cluster.good(*words).splitlines()
    assert f"-\t(epoch {after['epoch']} opens: propagation; groups of this site: " in text[-2]


def test_the_protocol_is_switched_and_back(cluster: Daemons) -> None:
    for protocol in ("centralized", "propagation"):
        cluster.good("protocol", "switch", FILE, protocol)
        told = cluster.json("epoch", FILE)
        assert {epoch["protocol"] for epoch in told["epochs"]} == {protocol}
        for origin in "abc":
            sent = ("send", FILE, "beta", f"{protocol} {origin}", "--from", origin)
            cluster.good(*sent, "--until", "stable")
    wanted = {f"{p} {o}" for p in ("centralized", "propagation") for o in "abc"}
    assert set(received(cluster, "c")[-6:]) == wanted
    assert received(cluster, "c")[-6:] == received(cluster, "b")[-6:]


def test_epochs_are_shown(cluster: Daemons) -> None:
    told = cluster.json("epoch", FILE, "--via", "b")
    assert told["manager"] in told["voters"] == ["a", "b", "c"]
    (epoch,) = told["epochs"]
    assert epoch["sites"] == ["a", "b", "c"]
    assert epoch["groups"]["alpha"]["members"] == ["a", "b"]
    assert (told["changes"], told["suspects"]) == ([], [])
    text = cluster.good("epoch", FILE).splitlines()
    assert text[0].split() == ["epoch", "protocol", "builder", "sites", "groups"]
    assert text[-1] == f"manager: {told['manager']}; voters: a, b, c"
    assert statuses(cluster)["c"]["epoch"] == epoch["epoch"]


def test_what_is_impossible_is_refused_in_one_line(cluster: Daemons) -> None:
    for words, said in (
        (("group", "add", FILE, "alpha", "a"), "alpha"),
        (("group", "add", FILE, "x!", "a"), "x!"),
        (("group", "add", FILE, "delta", "z"), "there is no site 'z'"),
        (("group", "join", FILE, "alhpa", "c"), "no group 'alhpa' (did you mean 'alpha'?)"),
        (("group", "join", FILE, "alpha", "a"), "site 'a' is in group 'alpha' already"),
        (("group", "leave", FILE, "alpha", "c"), "site 'c' is not in group 'alpha'"),
        (("group", "leave", FILE, "alpha", "a", "b"), "is the last member of 'alpha'"),
        (("group", "remove", FILE, "delta"), "there is no group 'delta'"),
        (("site", "add", FILE, "b", "--address", "127.0.0.1:9"), "b"),
        (("site", "retire", FILE, "z"), "there is no site 'z'"),
        (("site", "retire", FILE, "a"), f"('ordercast voter remove {FILE} a')"),
        (("protocol", "switch", FILE, "centralized", "--site", "z"), "there is no site 'z'"),
        (("voter", "add", FILE, "z"), "there is no site 'z'"),
    ):
        done = cluster.run(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stdout == ""
        assert said in done.stderr, words
        assert len(done.stderr.splitlines()) == 1
    assert members(cluster) == {"alpha": ["a", "b"], "beta": ["b", "c"]}


def test_a_change_waits_for_a_site_that_is_down_and_says_so(tmp_path: Path) -> None:
    with up(tmp_path, on_failure="wait") as daemons:
        daemons.good("send", FILE, "alpha", "before", "--until", "stable")
        manager = manager_of(daemons)
        # Not the root of the tree, b: without it the Close comes to nobody, and all are missing.
        gone = next(site for site in "ac" if site != manager)
        daemons.good("cluster", "kill", FILE, gone)
        words = ("group", "join", FILE, "alpha", "c", "--via", manager, "--timeout", "4")
        waits = daemons.run(*words, "--json")
        assert waits.returncode == 1
        told = json.loads(waits.stdout)
        assert (told["done"], told["waits_for"]) == (False, [gone])
        why = rf"not done after 4\.\d s: epoch 1 must be closed by {gone}"
        assert re.search(why, waits.stderr), waits.stderr
        shown = daemons.json("epoch", FILE, "--via", manager)
        assert [change["waits_for"] for change in shown["changes"]] == [[gone]]
        assert shown["epochs"][0]["closing"]
        assert soon(lambda: daemons.json("epoch", FILE)["suspects"] == [gone])
        assert f"(waits for {gone})" in daemons.good("epoch", FILE)
        daemons.good("cluster", "restart", FILE, gone)
        assert soon(lambda: members(daemons, manager)["alpha"] == ["a", "b", "c"])
        daemons.good("send", FILE, "alpha", "after", "--until", "stable")
        assert received(daemons, "c") == ["after"]


def test_without_a_majority_of_the_voters_nothing_is_decided(tmp_path: Path) -> None:
    with up(tmp_path) as daemons:
        daemons.good("send", FILE, "alpha", "before", "--until", "stable")
        for site in "bc":
            daemons.good("cluster", "kill", FILE, site)
        done = daemons.run("group", "join", FILE, "alpha", "c", "--via", "a", "--timeout", "4")
        assert done.returncode == 1
        assert "a majority of the voters (a, b, c) must run" in done.stderr


@pytest.mark.parametrize("tls", [False, True])
def test_a_site_is_added_used_restarted_and_retired(tmp_path: Path, tls: bool) -> None:
    with up(tmp_path, tls=tls) as daemons:
        daemons.good("send", FILE, "alpha", "before d", "--until", "stable")
        address = daemons.run_newcomer("d")
        assert soon(lambda: "d" in daemons.pids())
        early = daemons.run("send", FILE, "alpha", "x", "--from", "d", "--timeout", "1")
        assert early.returncode in (1, 2)
        assert "not admitted yet" in early.stderr
        done = daemons.run("site", "add", FILE, "d", "--address", address)
        assert done.returncode == 0, done.stderr
        assert daemons.json("site", "list", FILE)["sites"]["d"] == {"groups": [], "voter": False}
        assert "in no group: d" in daemons.good("epoch", FILE)
        sent = ("send", FILE, "alpha")
        assert soon(
            lambda: (
                daemons.run(*sent, "from outside", "--from", "d", "--timeout", "2").returncode == 0
            )
        )
        daemons.good("group", "join", FILE, "alpha", "d")
        daemons.good(*sent, "with d", "--from", "a", "--until", "stable")
        daemons.good(*sent, "of d", "--from", "d", "--until", "stable")
        assert received(daemons, "d") == ["with d", "of d"]
        assert received(daemons, "a")[-2:] == ["with d", "of d"]

        daemons.good("cluster", "restart", FILE, "d")  # its store knows its address
        daemons.good(*sent, "again", "--from", "d", "--until", "stable")
        daemons.good("cluster", "down", FILE)
        up_again = daemons.json("cluster", "up", FILE, "--detach")
        assert sorted(up_again["sites"]) == ["a", "b", "c", "d"]
        daemons.good(*sent, "all again", "--from", "b", "--until", "stable")
        assert received(daemons, "d")[-2:] == ["again", "all again"]
        assert list(statuses(daemons)) == ["a", "b", "c", "d"]

        daemons.good("site", "retire", FILE, "d")
        assert members(daemons)["alpha"] == ["a", "b"]
        daemons.good(*sent, "without d", "--from", "a", "--until", "stable")
        assert soon(lambda: statuses(daemons)["d"]["state"] == "retired")
        assert soon(lambda: statuses(daemons)["a"]["state"] == "up")
        late = daemons.run(*sent, "x", "--from", "d", "--timeout", "1")
        assert late.returncode in (1, 2)
        assert "retired" in late.stderr
        assert received(daemons, "d")[-1:] == ["all again"]
        assert verdict_on(daemons)["ok"]
        daemons.good("cluster", "down", FILE)
        assert sorted(daemons.json("cluster", "up", FILE, "--detach")["sites"]) == ["a", "b", "c"]
        assert soon(lambda: daemons.run("status", FILE).returncode == 0)


def verdict_on(daemons: Daemons) -> Any:
    exported = daemons.json("export", FILE, "history", "--replace")
    assert exported["missing"] == []
    return daemons.json("audit", "history", "--engine", "memory")


def test_voters_are_chosen_while_messages_flow(tmp_path: Path) -> None:
    with up(tmp_path, voters=["a"]) as daemons:
        for site in ("b", "c"):
            daemons.good("voter", "add", FILE, site)
        assert daemons.json("epoch", FILE)["voters"] == ["a", "b", "c"]
        daemons.good("cluster", "kill", FILE, "a")
        assert soon(lambda: daemons.json("epoch", FILE, "--via", "b")["manager"] in ("b", "c"))
        daemons.good("cluster", "restart", FILE, "a")
        daemons.good("voter", "remove", FILE, "a")
        assert soon(lambda: daemons.json("epoch", FILE)["voters"] == ["b", "c"])
        # It may have been away for long enough to be excluded. Then it is asked for again.
        assert soon(lambda: daemons.run("group", "join", FILE, "beta", "a").returncode == 0)
        daemons.good("send", FILE, "beta", "x", "--from", "a", "--until", "stable")
        daemons.good("site", "retire", FILE, "a")
        assert members(daemons, "b") == {"alpha": ["b"], "beta": ["b", "c"]}


def test_an_unknown_newcomer_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with up(tmp_path) as daemons:
        (port,) = free_ports(1)
        daemons.run_newcomer("d", "--metrics", f"127.0.0.1:{port}")
        log = daemons.dir / "d.log"
        assert soon(lambda: "ordercast site add" in log.read_text(encoding="utf-8"))
        assert "Traceback" not in log.read_text(encoding="utf-8")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert 'ordercast_epoch{cluster="demo",site="d"} 0.0' in answer.read().decode()
        daemons.good("send", FILE, "alpha", "x", "--until", "stable")
        assert verdict_on(daemons)["ok"]  # with a store that has nothing in it
        daemons.good("cluster", "down", FILE)
        assert verdict_on(daemons)["ok"]
