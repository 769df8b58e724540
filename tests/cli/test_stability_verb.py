"""`ordercast stability`: the contract's JSON, a summary for people, one line for a mistake."""

import json
from typing import Any

import pytest

from cli.command import run
from ordercast.cli import main


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["stability", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_the_json_is_the_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--protocol", "s_train", "--tree", "b=3,p=3,z=2")
    assert found["protocol"] == "s_train"
    assert found["members"] == 31
    assert found["rtt_ms"] > 5
    assert found["messages_on_hops"] == sum(found["on_hops"].values()) == 107
    assert found["max_queue"] == {"link": 1, "cpu": 1}
    assert found["rounds"] == 10
    assert found["processed"] == {"root": 5, "internal": 5, "leaf": 4}
    assert found["processed_least"] == {"root": 5, "internal": 4, "leaf": 3}
    assert found["sent"] == {"start": 1, "ack": 30, "info": 1}
    assert found["tree"] == "b=3,p=3,z=2"


@pytest.mark.parametrize("protocol", ["coordp", "full_dist", "train", "s_coordp", "s_train"])
def test_every_protocol_runs_on_every_kind_of_tree(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_json(capsys, "--protocol", protocol, "--tree", "n=30,b=3")["members"] == 30
    drawn = ("--random-tree", "n=40,b=3,p=3,seed=5")
    found = as_json(capsys, "--protocol", protocol, *drawn, "--placement", "shuffled")
    assert found["members"] == 40
    assert found["tree"] == "n=40,b=3,p=3,seed=5"
    far = as_json(capsys, "--protocol", protocol, *drawn, "--links", "wan")
    assert far["rtt_ms"] > found["rtt_ms"]


def test_a_group_of_one_has_a_root_and_nobody_else(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--tree", "n=1,b=4")
    assert found["processed"] == {"root": 4, "internal": None, "leaf": None}


def test_a_person_gets_a_short_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stability", "--protocol", "coordp", "--tree", "b=2,p=5,z=1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "protocol     coordp, 47 members, tree b=2,p=5,z=1, lan links"
    assert "on all hops  270 messages: 46 start, 178 ack, 46 info" in lines
    assert "processed    root 50, internal 3, leaf 3" in lines
    assert len(lines) < 12


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--protocol", "s_coord"], "--protocol: 's_coord' is none of coordp, full_dist, train,"),
        (["--tree", "b=3"], "tree: neither n, the members, nor p, the height, is given"),
        (["--tree", "b=3,p=2", "--random-tree", "n=9,b=2,p=2"], "--tree and --random-tree exclude"),
        (["--random-tree", "n=9,b=2"], "random-tree: p is missing (n=…,b=…,p=…,seed=…)"),
        (["--links", "satellite"], "--links: 'satellite' is none of lan, wan"),
        (["--tre", "b=3,p=2"], "there is no option '--tre' (did you mean '--tree'?)"),
        (["--protocol", "full_dist", "--tree", "n=20000,b=4"], "full_dist: 20,000 members would"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stability", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ordercast: {line}")
    assert err.count("\n") == 1


def test_without_numpy_it_says_what_brings_it() -> None:
    done = run("stability", code="import sys\nsys.modules['numpy'] = None")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "ordercast: the stability protocols of [STAB] are simulated with NumPy, which the extra"
        " 'stability' brings: pip install 'ordercast[stability]'\n"
    )
