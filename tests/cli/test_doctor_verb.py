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
