"""`ordercast demo`: its example, and what it refuses. tests/processes runs it for real."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ordercast
from ordercast.check.report import CHECKS
from ordercast.cli import demo, main
from ordercast.cli.demo_cluster import FILE, _Story, prepare
from ordercast.forest.greedy import build_greedy
from support.cases.tables import FIGURE_3, FIGURE_3_TIE, table_of
from support.clusters.layouts import structure_of
from support.clusters.sites import until
from support.harness.loops import in_loop

GROUPS = table_of(FIGURE_3).groups


def quiet(text: str) -> None:
    raise AssertionError(text)


def test_the_demo_is_figure_3() -> None:
    assert demo.FIGURE_3 == FIGURE_3
    assert demo.FIGURE_3_TIE == FIGURE_3_TIE


def test_the_tree_it_explains_is_the_one_that_its_sites_build(tmp_path: Path) -> None:
    cluster = prepare(tmp_path / "cluster", GROUPS, quiet, FIGURE_3_TIE)
    forest = structure_of(cluster, "alpha1").forest
    assert forest.parent == build_greedy(table_of(FIGURE_3), tie=FIGURE_3_TIE).parent
    assert forest.parent[demo.VICTIM] is None
    orders = [group for group, site in forest.primary.items() if site == demo.VICTIM]
    assert sorted(orders) == ["alpha1", "alpha3", "alpha4", "alpha8"]


def test_the_folder_of_an_earlier_demo_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    prepare(folder, GROUPS, quiet)
    for name in ("a.db", "a.db-wal", "j.log", "notes.txt"):
        (folder / name).write_text("x")
    (folder / "history" / "sent").mkdir(parents=True)
    prepare(folder, GROUPS, quiet)
    assert sorted(path.name for path in folder.iterdir()) == [FILE, "notes.txt"]


@pytest.mark.parametrize("name", ["a.db", FILE])
def test_a_folder_that_no_demo_made_is_not_touched(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("precious")
    assert main(["demo", "--out", str(tmp_path), "--dir", str(folder)]) == 2
    expected = f"ordercast: --dir {folder}: is not empty, and no earlier demo made it\n"
    assert capsys.readouterr() == ("", expected)
    assert [path.read_text() for path in folder.iterdir()] == ["precious"]


@pytest.mark.parametrize("option", ["--out", "--dir"])
def test_a_folder_that_cannot_be_made_is_the_users_mistake(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    others = {"--out": str(tmp_path / "out"), "--dir": str(tmp_path / "dir")}
    chosen = {**others, option: str(tmp_path / "file")}
    assert main(["demo", *(word for item in chosen.items() for word in item)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"ordercast: {option} {tmp_path / 'file'}: ")
    assert err.count("\n") == 1


def test_it_draws_the_figure_as_the_paper_prints_it(tmp_path: Path) -> None:
    files = demo._draw(table_of(FIGURE_3), tmp_path / "new" / "folder")
    assert [Path(file).name for file in files] == ["figure3.svg", "figure3.png"]
    assert Path(files[0]).read_text().startswith("<?xml")
    assert Path(files[1]).read_bytes().startswith(b"\x89PNG")


def test_a_missing_java_is_told_in_the_line_that_says_how_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("ordercast.pipeline.java.PROVIDED", tmp_path)
    told = str(demo._lacking())
    assert told.startswith("Spark needs Java")
    assert "\n" not in told


def test_every_check_of_the_audit_is_explained() -> None:
    assert list(demo.MEANING) == list(CHECKS)


@in_loop
async def test_ctrl_c_ends_all_senders(tmp_path: Path) -> None:
    """A cancelled phase leaves no task behind that goes on sending."""
    cluster = prepare(tmp_path / "cluster", GROUPS, quiet, FIGURE_3_TIE)
    async with ordercast.local_cluster(GROUPS) as running:
        daemons: Any = SimpleNamespace(cluster=cluster)
        clients: Any = {site: running[site] for site in sorted(cluster.sites)}
        story = _Story(daemons, clients, "d", 3, quiet, lambda _: None)
        sent: list[Any] = []
        sending = asyncio.create_task(story._send(9_000_000, list(clients), "", sent))
        await until(lambda: len(sent) > 100)
        before = asyncio.all_tasks()
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        ended = [task for task in before if task.done() and task is not sending]
        assert len(ended) >= len(clients)
        now = len(sent)
        await asyncio.sleep(0.05)
        assert len(sent) == now
