"""Drawings: well-formed, complete, the same bytes every time."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest

from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable
from ordercast.plan.colours import PALETTE, colour_groups, ink_on
from ordercast.plan.drawing import LABELLED, draw
from support.cases.tables import FIGURE_3, FIGURE_3_TIE, random_table, table_of

SVG = "{http://www.w3.org/2000/svg}"


def texts(path: Path) -> list[str]:
    root = ET.fromstring(path.read_text(encoding="utf-8"))
    assert root.tag == f"{SVG}svg"
    return ["".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")]


def drawn(forest: Forest, table: GroupTable, folder: Path) -> list[str]:
    path = folder / "forest.svg"
    draw(forest, table, str(path))
    return texts(path)


@pytest.fixture
def extra() -> GroupTable:
    return table_of({**FIGURE_3, "alpha9": "da"})


def test_figure_3_shows_every_site_every_group_and_the_extra_site(
    extra: GroupTable, tmp_path: Path
) -> None:
    words = drawn(build_greedy(extra, tie=FIGURE_3_TIE), extra, tmp_path)
    assert sorted(word for word in words if len(word) == 1) == sorted(extra.sites)
    assert "extra for alpha9" in words
    assert "alpha3 (b, c, d, e), ordered by d" in words
    assert "alpha9 (a, d), ordered by d" in words
    assert "greedy: 9 groups, 9 sites" in words
    assert any("highest load 11 at d" in word for word in words)


def test_without_extra_sites_nothing_is_dashed(tmp_path: Path) -> None:
    table = table_of(FIGURE_3)
    words = drawn(build_greedy(table, tie=FIGURE_3_TIE), table, tmp_path)
    assert not any("extra for" in word or "extra site:" in word for word in words)


def test_as_many_as_200_sites_are_labelled(tmp_path: Path) -> None:
    table = random_table(LABELLED, 150, 4, seed=3, spread=3.0)
    words = drawn(build_greedy(table), table, tmp_path)
    members = {site for members in table.groups.values() for site in members}
    assert members <= set(words)


def test_more_are_shown_by_level(tmp_path: Path) -> None:
    table = random_table(LABELLED + 1, 150, 4, seed=3, spread=3.0)
    words = drawn(build_star(table), table, tmp_path)
    assert "Sites per level" in words
    assert any(word.startswith("Load per level") for word in words)
    assert "Depth of the groups" in words
    assert "s7" not in words


def test_a_path_of_thousands_of_levels_is_shown_by_level(tmp_path: Path) -> None:
    table = GroupTable.of({f"g{i}": [f"s{i:04}", f"s{i + 1:04}"] for i in range(3000)})
    words = drawn(build_greedy(table), table, tmp_path)
    assert any(word.startswith("greedy: 3,000 groups, 3,001 sites") for word in words)


def test_one_site_alone_can_be_drawn(tmp_path: Path) -> None:
    table = GroupTable.of({"x": ["only"]}, sites=["only", "idle"])
    words = drawn(build_star(table), table, tmp_path)
    assert "only" in words
    assert "idle" not in words
    assert "in no group, not drawn: 1" in words


def test_names_of_any_length_fit_into_their_boxes(tmp_path: Path) -> None:
    table = GroupTable.of({"x": ["a" * 64, "b" * 64, "c"]})
    words = drawn(build_star(table), table, tmp_path)
    assert f"{'a' * 10}…{'a' * 11}" in words


def test_a_png_is_a_png(extra: GroupTable, tmp_path: Path) -> None:
    path = tmp_path / "forest.PNG"
    draw(build_greedy(extra), extra, str(path))
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    assert [file.name for file in tmp_path.iterdir()] == ["forest.PNG"]


def test_the_users_style_does_not_matter_and_is_left_alone(
    extra: GroupTable, tmp_path: Path
) -> None:
    forest = build_greedy(extra)
    draw(forest, extra, str(tmp_path / "plain.svg"))
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9}):
        draw(forest, extra, str(tmp_path / "styled.svg"))
        assert mpl.rcParams["font.size"] == 30
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "styled.svg").read_bytes()


def test_the_same_forest_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from support.cases.tables import random_table\n"
        "from ordercast.forest.greedy import build_greedy\n"
        "from ordercast.plan.drawing import draw\n"
        "for sites, ending in ((50, 'svg'), (30, 'png'), (300, 'svg')):\n"
        "    table = random_table(sites, 20, 4, seed=5, spread=4.0)\n"
        "    draw(build_greedy(table), table, f'{sys.argv[1]}/{sites}.{ending}')\n"
    )
    folders = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        subprocess.run(
            [sys.executable, "-c", script, str(folder)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "tests"},
            cwd=Path(__file__).resolve().parent.parent.parent,
            check=True,
            timeout=120,
        )
        folders.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len(folders[0]) == 3
    assert folders[0] == folders[1]


def test_up_to_twelve_groups_have_a_colour_each(extra: GroupTable) -> None:
    forest = build_greedy(extra)
    colouring = colour_groups(forest, extra, sorted(extra.sites))
    assert colouring.each_group
    assert len(set(colouring.of_group.values())) == 9


def test_more_groups_have_the_colour_of_the_site_that_orders_them() -> None:
    table = GroupTable.of({f"g{i:02}": [f"s{i:02}", f"s{i + 1:02}"] for i in range(30)})
    forest = build_greedy(table)
    colouring = colour_groups(forest, table, sorted(table.sites))
    for group, primary in forest.primary.items():
        assert colouring.of_group[group] == colouring.of_site[primary]
    assert colouring.repeats
    star = colour_groups(build_star(table), table, sorted(table.sites))
    assert not star.repeats
    assert len(star.legend) == 1


def test_names_are_readable_on_every_colour() -> None:
    assert {ink_on(colour) for colour in PALETTE} == {"#22313F", "#FFFFFF"}
    assert ink_on("#FFFFFF") == "#22313F"
    assert ink_on("#22313F") == "#FFFFFF"
