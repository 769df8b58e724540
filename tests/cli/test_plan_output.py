"""`ordercast plan` for scripts and for people: the contract's JSON, and the terminal's text."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command import EXAMPLES, run
from ordercast.cli import main
from support.cases.tables import random_table

FIGURE_3 = str(EXAMPLES / "figure3.toml")
FIGURE_3_EXTRA = str(EXAMPLES / "figure3-extra.toml")
FIGURE_5 = str(EXAMPLES / "figure5.toml")
PAPER = ("--builder", "greedy", "--tie", "d,c,e")


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["plan", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)  # one object and nothing else
    assert isinstance(found, dict)
    return found


def as_text(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.isascii()
    return out


def test_figure_3_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, FIGURE_3, *PAPER)
    assert plan["builder"] == "greedy"
    assert plan["parent"] == {
        "a": "c", "b": "c", "c": "d", "d": None, "e": "d", "f": "e", "g": "b", "h": "c", "j": "d",
    }  # fmt: skip
    assert plan["primary"] == {
        "alpha1": "d", "alpha2": "c", "alpha3": "d", "alpha4": "d",
        "alpha5": "e", "alpha6": "b", "alpha7": "c", "alpha8": "d",
    }  # fmt: skip
    assert plan["groups"] == {
        "alpha1": {"depth": 1, "extra": [], "messages": 2},
        "alpha2": {"depth": 1, "extra": [], "messages": 3},
        "alpha3": {"depth": 2, "extra": [], "messages": 4},
        "alpha4": {"depth": 2, "extra": [], "messages": 3},
        "alpha5": {"depth": 1, "extra": [], "messages": 2},
        "alpha6": {"depth": 1, "extra": [], "messages": 2},
        "alpha7": {"depth": 1, "extra": [], "messages": 2},
        "alpha8": {"depth": 1, "extra": [], "messages": 2},
    }
    # c: alpha1 and alpha3 from d, alpha2 and alpha7 from origins; alpha3 to b, alpha2 to a and b,
    # alpha7 to h. Receives and sends of the others in the same way.
    loads = {site: entry["load"] for site, entry in plan["sites"].items()}
    assert loads == {"a": 1, "b": 4, "c": 8, "d": 9, "e": 5, "f": 2, "g": 1, "h": 1, "j": 1}
    summary = plan["summary"]
    assert 0 < summary.pop("seconds") < 60
    assert summary == {
        "sites": 9,
        "groups": 8,
        "domains": 1,
        "depth_mean": 10 / 8,
        "depth_max": 2,
        "extra_mean": 0.0,
        "load_max": 9,
        "cyclic": [[f"alpha{i}" for i in range(1, 9)]],
    }
    assert all(isinstance(reason, str) for reason in plan["reasons"])
    assert plan["objective"] == "delay"
    assert list(plan["compared"]) == ["greedy"]


def test_an_extra_site_is_named_with_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, FIGURE_3_EXTRA, *PAPER)
    assert plan["groups"]["alpha9"] == {"depth": 2, "extra": ["c"], "messages": 3}
    assert plan["summary"]["extra_mean"] == pytest.approx(1 / 9)
    assert plan["parent"]["a"] == "c"


def test_auto_reports_every_builder_it_compared(capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, FIGURE_3, "--tie", "d,c,e")
    assert list(plan["compared"]) == ["star", "greedy", "balanced"]
    assert plan["compared"]["greedy"]["load_max"] == 9
    assert plan["compared"]["star"]["depth_max"] == 1
    assert plan["builder"] == "star"
    best = min(measures["delay_ms"] for measures in plan["compared"].values())
    assert plan["compared"]["star"]["delay_ms"] == best


def test_an_overloaded_builder_has_no_delay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "busy.toml"
    path.write_text('[groups]\nx = ["a", "b"]\n[rates]\nx = 60000\n')
    plan = as_json(capsys, str(path), "--builder", "star")
    assert plan["compared"]["star"]["delay_ms"] is None
    assert plan["compared"]["star"]["utilisation"] == pytest.approx(2.4)
    assert "overloaded" in as_text(capsys, str(path), "--builder", "star")


def test_sites_in_no_group_have_no_parent_and_no_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "idle.json"
    path.write_text('{"sites": ["a", "b", "idle"], "groups": {"x": ["a", "b"]}}')
    plan = as_json(capsys, str(path))
    assert plan["parent"]["idle"] is None
    assert plan["sites"]["idle"] == {"load": 0}
    assert plan["summary"]["domains"] == 1
    assert "idle  (" not in as_text(capsys, str(path))


def test_rebalance_is_figure_5(capsys: pytest.CaptureFixture[str]) -> None:
    before = as_json(capsys, FIGURE_5, "--builder", "greedy", "--tie", "b")
    assert before["sites"]["b"]["load"] == 11
    after = as_json(capsys, FIGURE_5, "--builder", "greedy", "--tie", "b", "--rebalance")
    assert after["summary"]["load_max"] < 11
    assert after["summary"]["extra_mean"] == 0
    assert after["summary"]["depth_max"] == 2


def test_branching_reaches_the_balanced_builder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ring.json"
    table = random_table(300, 300, 5, seed=1, spread=4.0)
    path.write_text(json.dumps({"groups": dict(table.groups)}))
    plans = [
        as_json(capsys, str(path), "--builder", "balanced", "--branching", n) for n in ("2", "8")
    ]
    assert plans[0]["parent"] != plans[1]["parent"]


def test_more_than_a_million_extra_sites_are_counted_unless_named_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line of pairs is a path; across it, groups of its two ends have everyone between extra."""
    count = 1500
    groups = {f"p{i}": [f"s{i:04}", f"s{i + 1:04}"] for i in range(count - 1)}
    hubs = {f"h{i}": ["s0000", f"t{i}"] for i in range(3)}
    far = {f"far{i}": ["s0000", f"s{count - 1}"] for i in range(700)}
    path = tmp_path / "path.json"
    path.write_text(json.dumps({"groups": {**groups, **hubs, **far}}))
    counted = as_json(capsys, str(path), "--builder", "greedy")
    extra = [entry["extra"] for entry in counted["groups"].values()]
    assert all(isinstance(entry, int) for entry in extra)
    assert sum(extra) > 1_000_000
    named = as_json(capsys, str(path), "--builder", "greedy", "--full")
    assert [len(entry["extra"]) for entry in named["groups"].values()] == extra


def test_text_compares_the_builders_and_marks_the_chosen_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = as_text(capsys, FIGURE_3, "--tie", "d,c,e")
    table = text.splitlines()[2:7]
    assert [line[0] for line in table] == [" ", " ", "*", " ", " "]
    assert table[2].split()[1] == "star"
    greedy = table[3].split()
    assert greedy[:9] == ["greedy", "1.25", "2", "0.00", "9", "at", "d", "2.50", "2.2"]


def test_text_shows_a_small_forest_as_an_indented_tree(capsys: pytest.CaptureFixture[str]) -> None:
    text = as_text(capsys, FIGURE_3_EXTRA, *PAPER)
    tree = text[text.index("Who forwards to whom:") :].splitlines()[1:10]
    assert tree == [
        "  d  (orders alpha1, alpha3, alpha4, alpha8, alpha9; load 11)",
        "    c  (orders alpha2, alpha7; load 10; extra for alpha9)",
        "      a  (load 2)",
        "      b  (orders alpha6; load 4)",
        "        g  (load 1)",
        "      h  (load 1)",
        "    e  (orders alpha5; load 5)",
        "      f  (load 2)",
        "    j  (load 1)",
    ]


def test_text_shows_a_large_forest_by_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "chain.json"
    groups = {f"p{i:02}": [f"s{i:02}", f"s{i + 1:02}"] for i in range(60)}
    path.write_text(json.dumps({"groups": groups}))
    text = as_text(capsys, str(path), "--builder", "greedy")
    lines = text[text.index("The forest by level") :].splitlines()
    assert lines[1].split() == [
        "level",
        "sites",
        "groups",
        "ordered",
        "mean",
        "load",
        "highest",
        "load",
    ]
    assert lines[2].split() == ["0", "1", "2", "4.0", "4"]
    assert any("more levels" in line for line in lines)
    star = as_text(capsys, str(path), "--builder", "star")
    assert "more levels" not in star


def test_only_the_last_line_tells_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (as_text(capsys, FIGURE_3).splitlines() for _ in range(2))
    assert first[:-1] == second[:-1]
    assert first[-1].endswith(" s")


@pytest.mark.parametrize("builder", ["auto", "balanced"])
def test_the_same_file_gives_the_same_plan_in_any_process(builder: str, tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    table = random_table(120, 90, 5, seed=4, spread=6.0)
    path.write_text(json.dumps({"groups": dict(table.groups)}))
    found = []
    for seed in ("1", "2"):
        done = run("plan", str(path), "--builder", builder, "--json", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        plan = json.loads(done.stdout)
        del plan["summary"]["seconds"]
        found.append(plan)
    assert found[0] == found[1]


def test_without_the_extra_partition_balanced_still_works_and_says_so() -> None:
    missing = "import sys; sys.modules['pymetis'] = None"
    done = run("plan", FIGURE_3, "--builder", "balanced", "--json", code=missing)
    assert done.returncode == 0, done.stderr
    reasons = json.loads(done.stdout)["reasons"]
    assert any("The extra 'partition' is not installed" in reason for reason in reasons)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_every_example_can_be_planned(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = as_json(capsys, str(path))
    assert plan["summary"]["groups"] >= 3
