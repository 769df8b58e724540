"""Most voters are lost for good: an operator says so, and the others go on."""

import json
import shutil
from pathlib import Path
from typing import Any

from processes.daemons import Daemons, soon, up

FILE = "cluster.toml"
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"]}
LOST = ("--lost", "a", "--lost", "b")


def status(daemons: Daemons, site: str) -> Any:
    return json.loads(daemons.run("status", FILE, "--json").stdout)["sites"][site]


def move(daemons: Daemons, site: str, to: Path) -> None:
    to.mkdir(exist_ok=True)
    for path in daemons.dir.glob(f"{site}.db*"):
        shutil.move(path, to / path.name)


def refused(daemons: Daemons, *words: str) -> str:
    done = daemons.run("cluster", "recover", FILE, *words)
    assert done.returncode == 2, done.stdout
    return done.stderr.splitlines()[-1]


def test_the_voters_that_are_left_go_on_and_the_lost_return_as_new_incarnations(
    tmp_path: Path,
) -> None:
    aside = tmp_path / "aside"
    with up(tmp_path, groups=GROUPS, voters=["a", "b", "c"], in_process=True) as daemons:
        daemons.good("send", FILE, "alpha", "before", "--from", "a", "--until", "stable")
        daemons.good("group", "leave", FILE, "beta", "d")
        daemons.good("group", "join", FILE, "beta", "d")
        assert "runs here" in refused(daemons, *LOST)
        daemons.good("cluster", "down", FILE)
        assert "is here, so it is not lost" in refused(daemons, *LOST)
        move(daemons, "a", aside)
        assert "b, c: a majority of the voters" in refused(daemons, "--lost", "a")
        move(daemons, "b", aside)
        assert "site 'd' is no voter" in refused(daemons, *LOST, "--lost", "d")
        assert "name the lost voters" in refused(daemons)
        assert "nothing was changed: c would decide alone" in refused(daemons, *LOST)
        done = daemons.json("cluster", "recover", FILE, *LOST, "--accept-loss")
        assert (done["from"], done["voters"], done["lost"]) == ("c", ["c"], ["a", "b"])

        for site in "cd":
            daemons.good("cluster", "restart", FILE, site)
        assert soon(lambda: sorted(status(daemons, "c").get("excluded", ())) == ["a", "b"])
        daemons.good("send", FILE, "alpha", "after", "--from", "c", "--until", "stable")
        daemons.good("send", FILE, "beta", "to d", "--from", "d", "--until", "stable")
        assert daemons.json("epoch", FILE)["voters"] == ["c"]

        shutil.copy(aside / "a.db", daemons.dir / "a.db")
        done = daemons.run("node", FILE, "--site", "a")
        assert done.returncode == 2
        assert "site a was declared lost by 'ordercast cluster recover'" in done.stderr
        again = daemons.run("node", FILE, "--site", "a")
        assert "site a was declared lost" in again.stderr.splitlines()[-1]

        move(daemons, "a", tmp_path / "old")
        daemons.good("cluster", "restart", FILE, "a")
        assert soon(lambda: status(daemons, "a").get("standing") == "present")
        assert status(daemons, "a")["incarnation"] == 2
        daemons.good("voter", "add", FILE, "a")
        daemons.good("send", FILE, "alpha", "again", "--from", "a", "--until", "stable")
        daemons.good("voter", "add", FILE, "d")
        assert daemons.json("epoch", FILE)["voters"] == ["a", "c", "d"]
        daemons.json("export", FILE, "history")
        assert daemons.json("audit", "history", "--engine", "memory")["ok"]
