"""`ordercast doctor`: what it finds in what sites say, and what it says to do."""

import asyncio
import json
import socket
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ordercast.cli import main
from ordercast.cli.doctor import OK, WARNING, WRONG, Diagnosis, examine
from ordercast.model.groups import Site
from ordercast.net.cluster.certificates import make_site_certificate, read_authority
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from ordercast.net.store.formats import newest_format
from ordercast.net.store.store import Store
from support.clusters.processes import NAME, write_cluster

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
UP: dict[str, Any] = {
    "state": "up", "reasons": [], "position": 3, "records": 4, "version": "1.0", "excluded": {},
    "frozen": {}, "apart": [],
}  # fmt: skip
ELSEWHERE = {"state": "elsewhere", "reasons": []}


def cluster_in(folder: Path, *, tls: bool = False) -> Cluster:
    return read_cluster(write_cluster(folder, GROUPS, {}, tls=tls))


def troubles(cluster: Cluster, folder: Path, **sites: dict[str, Any]) -> list[Diagnosis]:
    return [finding for finding in examine(cluster, folder, sites) if finding.level != OK]


def test_a_healthy_cluster_has_no_trouble(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    assert troubles(cluster, tmp_path, a=UP, b=UP, c=ELSEWHERE) == []


def test_a_founding_that_waits_and_sites_that_are_down_are_named(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    why = "not founded yet: founding needs every voter once; start c"
    waiting = {**UP, "state": "unwell", "reasons": [why]}
    (found,) = troubles(cluster, tmp_path, a=waiting, b=UP, c=ELSEWHERE)
    assert found == (WRONG, "a", why, f"ordercast cluster restart {cluster.source} c")
    down = {"state": "down", "reasons": ["no process runs it"]}
    (found,) = troubles(cluster, tmp_path, a=UP, b=UP, c=down)
    assert found.cure == f"ordercast cluster restart {cluster.source} c"
    with socket.create_server(cluster.address("c")):
        (found,) = troubles(cluster, tmp_path, a=UP, b=UP, c=down)
    host, port = cluster.address("c")
    assert found.cure.startswith(f"{host}:{port} is taken: ")


def test_voters_on_other_machines_are_started_there(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    far = {site: replace(cluster.sites[site], address=("10.0.0.9", 7101)) for site in "bc"}
    cluster = replace(cluster, sites={**cluster.sites, **far})
    why = "not founded yet: founding needs every voter once; start b and c"
    waiting = {**UP, "state": "unwell", "reasons": [why]}
    (found,) = troubles(cluster, tmp_path, a=waiting, b=ELSEWHERE, c=ELSEWHERE)
    assert found.cure == "; ".join(
        f"on its machine: ordercast node {cluster.source} --site {site}" for site in "bc"
    )


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("no majority: site a has heard of no majority", "ordercast cluster restart {file} c"),
        ("store: no space left on device", "then ordercast cluster restart {file} a"),
        ("replica of alpha: diverged: from b at 7", "ordercast docs operations"),
        ("excluded: the others went on", "it returns by itself"),
        ("returning: no manager has been heard lately", "it returns by itself"),
        ("link to c: lost for 9 s", "see that the peer runs"),
        ("what a later release says", "it returns by itself"),
    ],
)
def test_whatever_a_site_complains_of_there_is_a_next_step(
    reason: str, cure: str, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    unwell = {**UP, "state": "unwell", "reasons": [reason], "voters": ["a", "b", "c"]}
    (found,) = troubles(cluster, tmp_path, a=unwell, b=UP, c=ELSEWHERE)
    assert found.found == reason
    assert cure.format(file=cluster.source) in found.cure


def test_one_group_is_no_plural(tmp_path: Path) -> None:
    cluster = read_cluster(write_cluster(tmp_path, {"alpha": ["a"]}, {}))
    first = next(iter(examine(cluster, tmp_path, {"a": UP})))
    assert first.found == "1 site, 1 group"


def made_store(path: Path, cluster: str, site: str) -> Path:
    """A store that was begun, as a daemon leaves it."""

    async def begin() -> None:
        store = Store.open(path, cluster=cluster, site=Site(site), durability="os")
        await store.close()

    asyncio.run(begin())
    return path


def spoiled(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"no database at all")


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version={newest_format() + 1}")


@pytest.mark.parametrize(
    ("site", "name", "harm", "found", "cure"),
    [
        ("b", NAME, None, "belongs to site 'b', not 'a'", "give the folder of this site with"),
        ("a", "other", None, "belongs to cluster 'other', not", "give the folder of this cluster"),
        ("a", NAME, newer, "is a store of format", "it was written by a newer release, run that"),
        ("a", NAME, spoiled, "is not a store, or its first page", "keep it, and put back"),
    ],
)
def test_a_store_that_its_site_would_refuse_is_named_and_left_as_it_is(
    site: str, name: str, harm: Any, found: str, cure: str, tmp_path: Path
) -> None:
    cluster = cluster_in(tmp_path)
    folder = tmp_path / "dir"
    folder.mkdir()
    path = made_store(folder / "a.db", name, site)
    if harm is not None:
        harm(path)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    down = {"state": "down", "reasons": ["no process runs it"]}
    (wrong,) = troubles(cluster, folder, a=down, b=UP, c=ELSEWHERE)
    assert wrong[:2] == (WRONG, "a")
    assert wrong.found.startswith(f"{path}: {found}")
    assert wrong.cure.startswith(cure)
    first = troubles(cluster, folder, a=down, b=ELSEWHERE, c=ELSEWHERE)[0]
    assert first.cure.startswith("mend the stores that are named below; then ordercast cluster up")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_a_store_of_its_own_is_started(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    down = {"state": "down", "reasons": ["no process runs it"]}
    made_store(tmp_path / "a.db", NAME, "a")
    (tmp_path / "b.db").touch()  # a start ended before it was made
    found = troubles(cluster, tmp_path, a=down, b=down, c=UP)
    assert [each.cure for each in found] == [
        f"ordercast cluster restart {cluster.source} {site}" for site in "ab"
    ]


def test_what_the_sites_say_of_each_other_is_told(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    other = {
        **UP, "version": "1.1", "records": 5, "excluded": {"c": 2},
        "frozen": {"beta": ["b", "c"]}, "apart": [["a", "b"]],
    }  # fmt: skip
    found = troubles(cluster, tmp_path, a=UP, b=other, c=ELSEWHERE)
    assert [(each.level, each.about) for each in found] == [
        (WARNING, "versions"), (WARNING, "c"), (WRONG, "beta"), (WARNING, "a, b"),
    ]  # fmt: skip
    assert found[0].found == "1.0: a; 1.1: b"
    assert found[2].cure == "start b or c"


def with_clock(ahead_s: float, round_trip_s: float) -> dict[str, Any]:
    """A site that answered in the middle of the round trip."""
    begun, trip = 1_000_000_000_000, int(round_trip_s * 1e9)
    clock = begun + trip // 2 + int(ahead_s * 1e9)
    return {**UP, "clock_ns": clock, "asked_ns": [begun, begun + trip]}


def test_clocks_that_differ_for_certain_are_told(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    near, far = with_clock(0.0, 0.01), {**with_clock(-7.0, 1.0), "here": False}
    (found,) = troubles(cluster, tmp_path, a=near, b=UP, c=far)
    assert (found.level, found.about) == (WARNING, "a, c")
    assert found.found == "the clocks differ by 6.5 s: a is ahead of c"
    agree = [with_clock(0.4, 0.01), with_clock(-0.5, 0.01)]
    assert troubles(cluster, tmp_path, a=agree[0], b=agree[1], c=UP) == []
    slow = with_clock(3.0, 5.0)  # it may have read its clock at any time within 5 s
    assert troubles(cluster, tmp_path, a=near, b=slow, c=UP) == []


def test_a_site_of_another_machine_is_told_with_another_cure(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, tls=True)
    (tmp_path / "certs" / "c.key").unlink()  # which is right: that key is on the other machine
    down = {"state": "down", "reasons": ["no answer within 2 s"], "here": False}
    (found,) = troubles(cluster, tmp_path, a=UP, b=UP, c=down)
    assert found.cure == "start it on its machine, or mend the way"
    assert troubles(cluster, tmp_path, a=UP, b=UP, c={**UP, "here": False}) == []


def test_certificates_that_end_soon_or_are_missing_are_told(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path, tls=True)
    certs = tmp_path / "certs"
    make_site_certificate(read_authority(certs), NAME, "b", certs, days=3)
    (certs / "c.key").unlink()
    found = troubles(cluster, tmp_path, a=UP, b=UP, c=UP)
    assert [(each.level, each.about) for each in found] == [(WARNING, "b"), (WRONG, "c")]
    assert found[0].cure == f"ordercast certs {cluster.source} --site b --renew"
    assert "c.key: there is no such file" in found[1].found


def test_a_directory_with_nothing_in_it_is_no_good_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = cluster_in(tmp_path).source
    assert main(["doctor", file, "--json", "--dir", str(tmp_path / "empty")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["findings"][-1]["found"]) == (
        False,
        "nothing of this cluster is here",
    )
    assert main(["doctor", file, "--dir", str(tmp_path / "empty")]) == 1
    assert f"-> ordercast cluster up {file} --detach" in capsys.readouterr().out
