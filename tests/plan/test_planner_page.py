"""docs/planner.md: what it shows is what the command prints and draws today."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ordercast.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "planner.md"
PICTURE = ROOT / "docs" / "images" / "figure3.svg"
FIGURE_3 = str(ROOT / "examples" / "groups" / "figure3.toml")


def test_the_example_prints_what_the_page_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = re.search(
        r"```sh\nordercast (.*)\n```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found is not None
    monkeypatch.chdir(ROOT)
    assert main(found[1].split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:-1] == found[2].splitlines()[:-1]  # the last line is the time taken


def test_every_key_of_the_json_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", FIGURE_3, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    keys = {*found, *found["summary"]}
    for part in ("groups", "sites", "compared", "protocols"):
        keys |= set(next(iter(found[part].values())))
    assert keys <= set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))


def test_the_picture_is_the_one_the_command_draws(tmp_path: Path) -> None:
    fresh = tmp_path / "figure3.svg"
    options = ["--builder", "greedy", "--tie", "d,c,e", "--draw", str(fresh), "--json"]
    assert main(["plan", FIGURE_3, *options]) == 0
    assert words(fresh) == words(PICTURE)
    assert len(words(fresh)) > 15


def test_the_drawing_in_characters_has_the_same_forest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", FIGURE_3, "--builder", "greedy", "--tie", "d,c,e", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    above: list[str] = []
    parents: dict[str, str | None] = {}
    primaries: dict[str, str] = {}
    for line in PICTURE.with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        tree, _, groups = line.partition("orders ")
        site = tree.strip("│├└─ ")
        del above[tree.index(site) // 4 :]
        parents[site] = above[-1] if above else None
        above.append(site)
        primaries |= dict.fromkeys(groups.split(", "), site) if groups else {}
    assert (parents, primaries) == (found["parent"], found["primary"])


def words(path: Path) -> list[str]:
    elements = ET.fromstring(path.read_text(encoding="utf-8")).iter()
    return ["".join(e.itertext()).strip() for e in elements if e.tag.endswith("}text")]
