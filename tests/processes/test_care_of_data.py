"""Backup, restore, inspect and compact, as an operator uses them on real daemons."""

import shlex
from pathlib import Path

from processes.daemons import Daemons, up
from processes.test_verbs import soon

FILE = "cluster.toml"
QUICK = '[timeouts]\nsuspect = "400ms"\n[limits]\nretention = "24h"'


def stands(daemons: Daemons, site: str, wanted: str, incarnation: int) -> bool:
    status = daemons.json("status", FILE, "--site", site)["sites"][site]
    return (status.get("standing"), status.get("incarnation")) == (wanted, incarnation)


def position(daemons: Daemons, site: str) -> int:
    return int(daemons.json("status", FILE, "--site", site)["sites"][site]["position"])


def test_a_site_returns_on_a_store_restored_from_a_copy_made_under_load(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b", "c"], "beta": ["b", "c"]}
    with up(tmp_path, groups=groups, durability="os", tables=QUICK, in_process=True) as daemons:
        words = f"send {FILE} alpha --size 200 --count 3000 --from b --until stable"
        load = daemons.start(*shlex.split(words))
        try:
            assert soon(lambda: position(daemons, "a") > 100)
            copied = daemons.json("backup", FILE, "a", "a.backup")
        finally:
            assert load.wait(60) == 0
        assert load.communicate()[1] == ""
        live, copy = (
            daemons.json("inspect", *words.split()) for words in (f"{FILE} a", "a.backup")
        )
        for told in (live, copy):
            (found,) = told["stores"]
            assert (found["site"], found["damaged"]) == ("a", 0)
        assert 100 < copied["position"] < live["stores"][0]["positions"]["logged"]
        daemons.good("send", FILE, "beta", "from a", "--from", "a", "--until", "stable")

        daemons.good("cluster", "kill", FILE, "a")
        refused = daemons.run("restore", FILE, "a", "a.backup")
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert "a.db: is there: a store is restored where there is none" in refused.stderr
        for path in daemons.dir.glob("a.db*"):
            path.unlink()
        daemons.good("restore", FILE, "a", "a.backup")
        daemons.good("cluster", "restart", FILE, "a")
        assert soon(lambda: stands(daemons, "a", "present", 2))
        for origin in ("a", "b"):
            daemons.good(
                "send", FILE, "alpha", f"again {origin}", "--from", origin, "--until", "stable"
            )
        tail = daemons.good("tail", FILE, "--site", "a", "--start", "1", "--count", "2")
        assert "again a" in tail
        assert "again b" in tail
        running = daemons.run("compact", FILE, "a")
        assert "site 'a' runs here" in running.stderr
        daemons.good("export", FILE, "history")
        judged = daemons.json("audit", "history", "--engine", "memory")
        assert judged["ok"], judged
        daemons.good("cluster", "down", FILE)
        done = daemons.json("compact", FILE, "b")
        assert done["after"] <= done["before"]
