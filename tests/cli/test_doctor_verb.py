"""`ordercast doctor`: what it finds in what sites say, and what it says to do."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from ordercast.cli import main
from ordercast.cli.doctor import OK, WARNING, WRONG, Diagnosis, examine
from ordercast.net.cluster.certificates import make_site_certificate, read_authority
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
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
    assert found[:3] == (WRONG, "a", why)
    down = {"state": "down", "reasons": ["no process runs it"]}
    (found,) = troubles(cluster, tmp_path, a=UP, b=UP, c=down)
    assert found.cure == f"ordercast cluster restart {cluster.source} c"
    with socket.create_server(cluster.address("c")):
        (found,) = troubles(cluster, tmp_path, a=UP, b=UP, c=down)
    host, port = cluster.address("c")
    assert found.cure.startswith(f"{host}:{port} is taken: ")


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
