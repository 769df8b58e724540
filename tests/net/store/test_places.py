"""Known places of stores: none is begun in another directory by mistake."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import MOST_BYTES
from ordercast.net.cluster.file import parse_cluster
from ordercast.net.local import local_cluster
from ordercast.net.store.places import (
    NOTES,
    elsewhere_told,
    has_past,
    known_places,
    note_place,
    require_place,
)
from ordercast.net.store.store import Store
from support.harness.loops import in_loop

FILE = """
[cluster]
name = "demo"
durability = "os"
[sites.a]
address = "127.0.0.1:7101"
[groups]
alpha = ["a"]
"""


@in_loop
async def found(directory: Path) -> None:
    """The store of a site that has founded its cluster."""
    async with local_cluster({"alpha": ["a"]}, dir=directory, name="demo", durability="os"):
        pass


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return parse_cluster(FILE, source="c.toml", base=tmp_path)


def default(cluster: Cluster) -> Path:
    assert cluster.beside is not None
    return cluster.beside


@pytest.mark.parametrize("place", [".ordercast/demo", "../.ordercast/demo", "noted"])
def test_a_store_is_not_begun_while_another_known_place_has_one(
    place: str, cluster: Cluster, tmp_path: Path
) -> None:
    found(Path(place))
    note_place(cluster, Path("noted"))
    here = tmp_path / "here"
    require = (
        r"has no founded store of site 'a' of cluster 'demo', but .* has: say .*; --new begins"
    )
    with pytest.raises(ConfigError, match=require):
        require_place(cluster, ["a"], here)
    require_place(cluster, ["b"], here)
    require_place(cluster, ["a"], here, new=True)
    require_place(replace(cluster, durability="memory"), ["a"], here)
    assert "has stores of it: say --dir" in elsewhere_told(cluster, here)
    found(here)
    require_place(cluster, ["a"], here)
    with pytest.raises(ConfigError, match=r"is a store with a past: --new is for a place without"):
        require_place(cluster, ["a"], here, new=True)


def test_a_store_that_was_moved_is_where_it_is_now(cluster: Cluster, tmp_path: Path) -> None:
    found(Path("before"))
    note_place(cluster, Path("before"))
    shutil.move("before", tmp_path / "now")
    require_place(cluster, ["a"], tmp_path / "now")
    require_place(cluster, ["a"], tmp_path / "another")  # nobody knows of it
    assert elsewhere_told(cluster, tmp_path / "another") == ""


def test_a_store_in_which_nothing_was_recorded_is_no_past(cluster: Cluster) -> None:
    path = default(cluster) / "a.db"
    assert not has_past(path)
    Store.open(path, cluster="demo", site="a", durability="os").close_sync()
    assert not has_past(path)
    require_place(cluster, ["a"], Path("elsewhere"))
    path.write_bytes(b"damaged")
    assert has_past(path)


def test_a_place_that_the_file_stands_for_is_not_noted(cluster: Cluster, tmp_path: Path) -> None:
    note_place(cluster, default(cluster))
    assert not (default(cluster) / NOTES).exists()
    assert known_places(cluster)[0] == default(cluster)
    note_place(cluster, tmp_path / "one")
    note_place(cluster, tmp_path / "two")
    note_place(cluster, tmp_path / "one")
    assert known_places(cluster)[1:3] == [tmp_path / "one", tmp_path / "two"]


def test_notes_that_cannot_be_written_or_read_hold_nobody_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    for number in range(80):
        note_place(cluster, tmp_path / f"{number:0100d}")
    notes = default(cluster) / NOTES
    assert notes.stat().st_size <= MOST_BYTES
    assert tmp_path / f"{79:0100d}" in known_places(cluster)
    notes.unlink()
    notes.mkdir()
    note_place(cluster, tmp_path / "one")
    assert tmp_path / "one" not in known_places(cluster)
    shutil.rmtree(default(cluster))
    default(cluster).write_text("no directory")
    note_place(cluster, tmp_path / "one")
    require_place(cluster, ["a"], tmp_path / "one")
