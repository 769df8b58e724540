"""A daemon on an older copy of its store ends with one line, and the others run on."""

import shutil
from pathlib import Path

from processes.daemons import soon, up


def test_a_daemon_on_an_older_copy_of_its_store_ends_with_one_line(tmp_path: Path) -> None:
    with up(tmp_path, durability="os", on_failure="wait", in_process=True) as daemons:
        send = ("send", "cluster.toml", "alpha", "text", "--from", "a", "--until", "stable")
        daemons.good(*send, "--count", "5")
        daemons.good("cluster", "kill", "cluster.toml", "a")
        for name in ("a.db", "a.db-wal"):
            shutil.copy(daemons.dir / name, tmp_path / name)
        daemons.good("cluster", "restart", "cluster.toml", "a")
        daemons.good(*send, "--count", "5")
        daemons.good("cluster", "kill", "cluster.toml", "a")
        for name in ("a.db", "a.db-wal"):
            shutil.copy(tmp_path / name, daemons.dir / name)
        daemons.run("cluster", "restart", "cluster.toml", "a")
        assert soon(lambda: "a" not in daemons.pids())
        log = (daemons.dir / "a.log").read_text(encoding="utf-8")
        said = [line for line in log.splitlines() if "an older copy was put back" in line]
        assert said
        assert "a.db: this store is older than what site a has said to " in said[0]  # b or c
        assert "Traceback" not in log
        assert set(daemons.pids()) == {"b", "c"}
