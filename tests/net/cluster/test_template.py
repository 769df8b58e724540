"""A new cluster file shows every setting with the default that it has."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ordercast.net.cluster import multicast
from ordercast.net.cluster.config import Cluster, LimitsConfig, Timeouts
from ordercast.net.cluster.file import parse_cluster
from ordercast.net.cluster.template import SETTINGS, WIDTH, NewCluster

SITES = {"a": "127.0.0.1:7101", "b.c": "127.0.0.1:7102"}
NEW = NewCluster("demo", SITES, {"alpha": ["a", "b.c"], "x.y": ["a"]})
TABLES = {
    "name",
    "sites",
    "groups",
    "limits",
    "timeouts",
    "tls",
    "multicast",
    "grants",
    "source",
    "beside",
}


def uncommented(text: str, *but: str) -> str:
    """Every setting as it is shown, but those that are no defaults."""
    lines = []
    for line in text.splitlines():
        shown = line[2:] if re.match(r"# (\w+ = |\[\w+\]$)", line) else line
        lines.append(line if shown.split(" ")[0] in but else shown)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "changed", [{}, {"dir": "data/demo"}, {"sites": {"a": "[::1]:7101", "b.c": "[::1]:7102"}}]
)
def test_what_is_commented_out_is_the_default(changed: dict[str, Any]) -> None:
    text = replace(NEW, **changed).text()
    plain = parse_cluster(text, source="file", base=Path("beside"))
    every = uncommented(text, "[tls]", "[grants]", "insecure", "metrics", "clients").replace(
        'dir = "certs"', ""
    )
    assert every.count("\n# ") < text.count("\n# ") - 25  # it did uncomment
    assert parse_cluster(every, source="file", base=Path("beside")) == plain
    shown = f'{every}\n[tls]\ndir = "certs"'
    shown = "\n".join(line for line in shown.splitlines() if not line.startswith("secret"))
    spread = shown.replace('"unicast"', '"multicast"')
    before = f'{text}\n[tls]\ndir = "certs"'.replace(
        '# dissemination = "unicast"', 'dissemination = "multicast"'
    )
    assert parse_cluster(spread, source="file") == parse_cluster(before, source="file")


def test_every_setting_is_shown() -> None:
    told = {table: {setting.name for setting in rows} for table, rows in SETTINGS.items()}
    assert told["cluster"] == {field.name for field in fields(Cluster)} - TABLES - {"insecure"}
    assert told["limits"] == {field.name for field in fields(LimitsConfig)}
    assert told["timeouts"] == {field.name for field in fields(Timeouts)}
    assert told["multicast"] == set(multicast.KEYS)
    assert told["tls"] == {"dir", "insecure"}


def test_it_reads_back_as_it_was_asked_for() -> None:
    secured = replace(NEW, tls="certs").text()
    found = parse_cluster(secured, source="file", base=Path("there"))
    assert found.tls is not None
    assert found.tls.directory == Path("there/certs")
    assert found.groups == {"alpha": ("a", "b.c"), "x.y": ("a",)}
    assert found.addresses()["b.c"] == ("127.0.0.1", 7102)
    assert "secret" not in secured
    spread = NewCluster(
        "far", {"a": "[2001:db8::1]:7101"}, {"g": ["a"]}, insecure=True, secret="far.secret"
    ).text()
    other = parse_cluster(spread, source="file")
    assert (other.insecure, other.secret) == (True, Path("far.secret"))
    assert all(len(line) <= WIDTH for line in (secured + spread).splitlines())
