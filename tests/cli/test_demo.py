"""`ordercast demo`: the paper's Figure 3, planned, explained, drawn and simulated."""

import json
import re
from pathlib import Path

import pytest

from cli.command import ROOT, run
from ordercast.cli import demo, main
from support.tables import FIGURE_3, FIGURE_3_TIE


def test_the_demo_is_figure_3() -> None:
    assert demo.FIGURE_3 == FIGURE_3
    assert demo.FIGURE_3_TIE == FIGURE_3_TIE


def test_it_explains_compares_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert main(["demo", "--out", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.isascii()
    assert "  d  (orders alpha1, alpha3, alpha4, alpha8; load 9)\n" in out
    assert "star has the shortest estimated delay" in out
    assert f"Drawn to {folder / 'figure3.svg'} and {folder / 'figure3.png'}." in out
    assert (folder / "figure3.svg").read_text().startswith("<?xml")
    assert (folder / "figure3.png").read_bytes().startswith(b"\x89PNG")


def test_it_simulates_the_groups_with_loss_and_a_partition_and_shows_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "no two sites disagree on an order" in out
    told = re.search(r"lost +(\d+) frames, and (\d+) more at the partition", out)
    assert told is not None
    assert all(int(count) > 0 for count in told.groups())


def test_the_line_that_repeats_the_simulation_does_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["demo", "--json", "--out", str(tmp_path)]) == 0
    shown = json.loads(capsys.readouterr().out)["simulation"]
    assert shown["violations"] == []
    monkeypatch.chdir(ROOT)
    assert main([*demo.AGAIN.split()[1:], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["history_hash"] == shown["history_hash"]


def test_json_is_that_of_plan_and_the_drawings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--json", "--out", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["builder"] == "greedy"
    assert found["parent"]["c"] == "d"
    assert sorted(found["compared"]) == ["balanced", "greedy", "star"]
    assert found["drawings"] == [str(tmp_path / "figure3.svg"), str(tmp_path / "figure3.png")]


def test_without_the_extra_it_says_how_to_get_drawings(tmp_path: Path) -> None:
    missing = "import sys; sys.modules['matplotlib'] = None"
    done = run("demo", "--out", str(tmp_path), code=missing)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'ordercast[plot]'" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_the_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"ordercast: --out {tmp_path / 'file'}: file exists\n"
