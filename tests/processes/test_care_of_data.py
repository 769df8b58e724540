"""Backup, restore, inspect and compact, as an operator uses them on real daemons."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes.daemons import Daemons, soon, up

FILE = "cluster.toml"
QUICK = '[timeouts]\nsuspect = "400ms"\n[limits]\nretention = "24h"'


def status(daemons: Daemons, site: str) -> dict[str, Any]:
    """Well or not."""
    told = json.loads(daemons.run("status", FILE, "--site", site, "--json").stdout)
    found: dict[str, Any] = told["sites"][site]
    return found


def stands(daemons: Daemons, site: str, wanted: str, incarnation: int) -> bool:
    found = status(daemons, site)
    return (found.get("standing"), found.get("incarnation")) == (wanted, incarnation)


@contextmanager
def load(daemons: Daemons) -> Iterator[None]:
    """Messages from b to alpha meanwhile, and some more afterwards."""
    over = threading.Event()
    words = ("send", FILE, "alpha", "-", "--from", "b", "--until", "stable")
    with subprocess.Popen(
        daemons.command(*words), cwd=daemons.place, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, text=True,
    ) as sending:  # fmt: skip
        pipe = sending.stdin
        assert pipe is not None

        def feed() -> None:
            while not over.wait(0.001):
                print("x" * 200, file=pipe, flush=True)
            print("after\n" * 50, file=pipe, end="")
            pipe.close()

        feeding = threading.Thread(target=feed)
        feeding.start()
        try:
            yield
        finally:
            over.set()
            feeding.join()
            assert sending.wait(60) == 0


def log_of(daemons: Daemons, site: str) -> list[str]:
    return (daemons.dir / f"{site}.log").read_text(encoding="utf-8").splitlines()


def test_a_site_returns_on_a_store_restored_from_a_copy_made_under_load(tmp_path: Path) -> None:
    groups = {"alpha": ["a", "b", "c"], "beta": ["b", "c"]}
    options = {"durability": "os", "log_level": "warning"}
    with up(tmp_path, groups=groups, tables=QUICK, in_process=True, **options) as daemons:
        with load(daemons):
            assert soon(lambda: status(daemons, "a").get("position", 0) > 100)
            copied = daemons.json("backup", FILE, "a", "a.backup")
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
        assert not [line for line in log_of(daemons, "a") if " INFO " in line]
        daemons.good("cluster", "restart", FILE, "a", "--log", "json", "--log-level", "info")
        assert soon(lambda: stands(daemons, "a", "present", 2))
        logged = [json.loads(line) for line in log_of(daemons, "a") if line.startswith("{")]
        assert "info" in [line["level"] for line in logged]
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
