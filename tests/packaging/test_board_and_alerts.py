"""The board and the alerting rules in `deploy` ask for metrics and labels that there are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ordercast.net.daemon.desk import ClientDesk
from ordercast.net.daemon.metrics import _families
from ordercast.net.daemon.session import ClientLimits
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from support.harness.loops import run

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
OPERATIONS = (DEPLOY.parent / "docs" / "operations.md").read_text(encoding="utf-8")
_SUFFIXES = {
    "gauge": ("",),
    "counter": ("_total",),
    "histogram": ("_bucket", "_sum", "_count"),
}
_FUNCTIONS = {
    "and", "avg", "by", "changes", "count", "deriv", "histogram_quantile", "label_replace",
    "max", "min", "on", "or", "rate", "sum", "timestamp", "unless", "vector",
}  # fmt: skip
_OF_PROMETHEUS = {"instance", "job", "le"}


def known() -> dict[str, set[str]]:
    """The labels of every metric that a site with certificates tells."""

    async def status() -> dict[str, Any]:
        async with local_cluster({"alpha": ["a", "b"]}) as cluster:
            desk = ClientDesk(site_of(cluster["a"]), ClientLimits(1, 1))
            found = desk.status()
            desk.close()
        return {**found, "certificate_ends_s": 1}

    found: dict[str, set[str]] = {"up": set()}
    for family in _families(run(status())):
        for suffix in _SUFFIXES[family.type]:
            found[family.name + suffix] = set(family._labelnames)  # type: ignore[attr-defined]
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression, and the text that shows labels of its result."""
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], rule["annotations"]["summary"]
    board = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for annotation in board["annotations"]["list"]:
        yield annotation["expr"], annotation["textFormat"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            yield name, f"{{{{{label}}}}}"


def wrong(expression: str, shown: str, metrics: dict[str, set[str]]) -> list[str]:
    """What the expression asks for and is not there."""
    plain = re.sub(r'"[^"]*"', '""', expression)
    selected = {label for part in re.findall(r"\{(.*?)\}", plain) for label in _words(part)}
    grouped = {
        label for part in re.findall(r"\b(?:by|on) \((.*?)\)", plain) for label in _words(part)
    }
    made = set(re.findall(r'label_replace\(\w+, "(\w+)"', expression))
    bare = re.sub(r"\{.*?\}|\[.*?\]|\b(?:by|on) \(.*?\)", "", plain)
    names = {word for word in _words(bare) if word not in _FUNCTIONS}
    labels = {label for name in names for label in metrics.get(name, ())} | _OF_PROMETHEUS | made
    used = selected | grouped | set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+)", shown))
    found = sorted(name for name in names if name not in metrics)
    return found + sorted(label for label in used if label not in labels)


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z_]\w*", text)


def test_every_metric_and_label_of_the_board_and_the_rules_is_there() -> None:
    metrics = known()
    asked = list(expressions())
    assert len(asked) > 40
    for expression, shown in asked:
        assert expression.count("(") == expression.count(")"), expression
        assert wrong(expression, shown, metrics) == [], expression


def test_a_metric_or_a_label_that_is_not_there_is_found() -> None:
    metrics = {"ordercast_x_total": {"site"}}
    assert wrong("rate(ordercast_x[5m])", "", metrics) == ["ordercast_x"]
    assert wrong("rate(ordercast_x_total[5m])", "{{ $labels.group }}", metrics) == ["group"]
    assert wrong('sum by (by) (ordercast_x_total{site="a"})', "{{site}}", metrics) == ["by"]
    assert wrong('sum by (site) (ordercast_x_total{site="a"})', "{{site}}", metrics) == []


def test_every_alert_is_told_on_the_page() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert len(names) == len(set(names)) > 15
    told = set(re.findall(r"`(Ordercast\w+)`", OPERATIONS))
    assert set(names) == told
