"""The live audit of a cluster: its stores, while sites write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from ordercast.cli import main
from ordercast.net.export.lake_export import append
from ordercast.pipeline.following.in_process import follow_folder
from support.stores.exporting import Cluster

FILE = """[cluster]
name = "c"
[sites]
a = { address = "127.0.0.1:7001" }
b = { address = "127.0.0.1:7002" }
c = { address = "127.0.0.1:7003" }
[groups]
g = ["a", "b", "c"]
h = ["b", "c"]
"""


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    (tmp_path / "cluster.toml").write_text(FILE)

    def run(*more: str) -> tuple[int, list[dict[str, Any]], str]:
        words = ["audit", "--follow", str(tmp_path / "cluster.toml"), "--dir", str(tmp_path)]
        code = main([*words, "--once", "--json", *more])
        out, err = capsys.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def test_the_verdict_goes_on_with_the_stores(said: Any, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    kept = ("--checkpoint", str(tmp_path / "kept"))
    cluster.some(1)
    code, found, err = said(*kept)
    assert code == 0, err
    assert (found[-1]["rows"], found[-1]["ok"]) == (24, True)
    cluster.some(2)
    placed = cluster.place(twice := cluster.batch("a", "g", b"x"))
    cluster.accept(twice)
    for site in "abc":
        cluster.passed(site, placed)
    cluster.passed("b", placed)  # a fault
    code, found, _ = said(*kept)
    assert found[0]["rows"] == 24  # as it was kept
    assert (code, found[-1]["rows"], found[-1]["ok"]) == (1, 76, False)
    assert [line["check"] for line in found if line["kind"] == "alert"][:1] == ["integrity"]
    cluster.close()
    code, found, _ = said()
    assert (code, found[-1]["rows"]) == (1, 76)


def test_what_is_killed_between_lake_and_checkpoint_is_judged_by_the_next(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    lake = tmp_path / "lake"
    places = (lake, lambda: append(tmp_path, lake))
    given: dict[str, Any] = {"checkpoint": tmp_path / "kept", "every_s": 0.0}
    for rounds in range(1, 5):
        cluster.some(1)
        following = follow_folder(*places, **given)
        verdict = next(following)  # and then it is gone
        assert verdict.report["rows"] in range(0, 24 * rounds + 1, 24)
    cluster.close()
    last = list(follow_folder(*places, once=True, **given))[-1]
    assert (last.report["rows"], last.ok) == (96, True)


def test_what_a_cluster_has_not_got_is_refused(said: Any, tmp_path: Path) -> None:
    assert said("--memory", "1g")[2].endswith("--memory: a cluster is followed by one process\n")
    code, found, err = said("--engine", "spark")
    assert (code, found, err.count("\n")) == (2, [], 1)
    assert "--engine spark: a cluster is followed by one process; leave this out, or append" in err
    code = main(["audit", "--follow", str(tmp_path), "--dir", str(tmp_path)])
    assert code == 2
