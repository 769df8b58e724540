"""What the words of [GS] §4 have to mean: every half of a claim can make its verdict fall."""

from typing import Any

import pytest

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.studies.gs.design_findings import compromise_findings, heuristic_findings
from ordercast.studies.gs.findings import load_findings, table1_findings, table2_findings
from ordercast.studies.gs.forests import forest_costs
from ordercast.studies.gs.load import PROTOCOLS
from ordercast.studies.reproduction import AGREES, DIFFERS, MEASURED, PARTLY, Finding


def row(measure: str, mean: float, protocol: str, **parameters: Any) -> ResultRow:
    return ResultRow({"protocol": protocol, **parameters}, measure, mean, 0.0, 30)


def starting(found: list[Finding], words: str) -> Finding:
    (one,) = (each for each in found if each.statement.startswith(words))
    return one


def broadcast(*times: float) -> Finding:
    """Two-phase takes so many times as many transmissions as propagation, with 5 and 20 sites."""
    rows = []
    for size, more in zip((5, 20), times, strict=True):
        two_phase = size + 2.0
        n = {"propagation": two_phase / more, "centralized": 2.0, "two_phase": two_phase}
        for protocol in PROTOCOLS:
            of = dict.fromkeys(("messages", "messages_formula", "delay_ms"), n[protocol])
            of |= {"depth_mean": 1.0, "extra_mean": 0.5, "checks": 20.0, "wanted_checks": 5.0}
            rows += [row(name, value, protocol, size=size) for name, value in of.items()]
    return starting(table2_findings(Results.of(rows)), "Two-phase (n + 2) is comparable")


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((1.8, 3.0), AGREES), ((2.5, 4.0), PARTLY), ((1.8, 1.9), PARTLY), ((2.5, 1.5), DIFFERS)],
)
def test_comparable_for_small_groups_only_is_judged_of_small_and_of_larger_ones(
    times: tuple[float, float], verdict: str
) -> None:
    assert broadcast(*times).verdict == verdict


@pytest.mark.parametrize(("share", "verdict"), [(0.5, AGREES), (0.9, DIFFERS)])
def test_far_fewer_is_less_than_fewer(share: float, verdict: str) -> None:
    rows = []
    for protocol, messages in (("propagation", 30 * share), ("two_phase", 30.0),
                               ("centralized", 10.0)):  # fmt: skip
        of = dict.fromkeys(("messages", "messages_formula"), messages)
        of |= dict.fromkeys(("depth_mean", "extra_mean"), 1.0)
        of |= {f"delay_{which}ms": 10.0 for which in ("", "first_", "mean_", "formula_")}
        rows += [row(name, value, protocol, size=10) for name, value in of.items()]
    found = table1_findings(Results.of(rows))
    assert starting(found, "Propagation needs far fewer").verdict == verdict


def loads(
    x: str = "size", *, crowded: float = 500.0, sparse: float = 40.0, two_phase: float = 30.0,
    mean: float = 25.0, source: float = 90.0,
) -> list[Finding]:  # fmt: skip
    """Of 10 groups: `size` 40 is the crowded end, as are 20 sites."""
    rows = []
    ends = (5, 40) if x == "size" else (1000, 20)
    for at, propagation in zip(ends, (sparse, crowded), strict=True):
        where = {x: at, "groups": 10}
        rows += [
            row("load_max", propagation, "propagation", **where),
            row("load_max", two_phase, "two_phase", **where),
            row("load_mean", mean, "two_phase", **where),
            row("load_source", source, "two_phase", **where),
            row("load_max", 900.0, "centralized", **where),
            row("load_star", 900.0, "centralized", **where),
        ]
    return list(load_findings(x)(Results.of(rows)))


@pytest.mark.parametrize(
    ("sparse", "verdict"), [(50.0, AGREES), (120.0, PARTLY), (499.0, PARTLY), (500.0, DIFFERS)]
)
def test_a_load_that_falls_need_not_be_very_low(sparse: float, verdict: str) -> None:
    for x in ("size", "sites"):
        assert starting(loads(x, sparse=sparse), "Propagation's load is high").verdict == verdict


@pytest.mark.parametrize(
    ("mean", "two_phase", "verdict"),
    [(25.0, 30.0, AGREES), (10.0, 30.0, PARTLY), (500.0, 600.0, PARTLY), (300.0, 600.0, DIFFERS)],
)
def test_a_load_below_propagations_need_not_be_spread_very_well(
    mean: float, two_phase: float, verdict: str
) -> None:
    found = loads(mean=mean, two_phase=two_phase)
    assert starting(found, "Two-phase spreads load").verdict == verdict


@pytest.mark.parametrize(("source", "verdict"), [(90.0, AGREES), (40.0, PARTLY), (20.0, DIFFERS)])
def test_much_higher_is_more_than_higher(source: float, verdict: str) -> None:
    assert starting(loads(source=source), "At a source of two-phase").verdict == verdict
    assert starting(loads("sites"), "At a source of two-phase").verdict == MEASURED


def test_the_mean_receiver_is_of_the_sites_that_are_in_a_group() -> None:
    """Two groups of 3 among 1,000 sites: hardly a site is in both, and few are in any."""
    found = forest_costs({"sites": 1000, "groups": 2, "size": 3}, 1, "").measures
    assert found["two_phase/load_mean"] == found["two_phase/load_max"] == 3


@pytest.mark.parametrize(
    ("anyhow", "verdict"),
    [((3.0, 2.0), AGREES), ((3.0, 1.5), PARTLY), ((2.0, 2.0), PARTLY), ((1.0, 1.0), DIFFERS)],
)
def test_the_greedy_choice_helps_where_trees_are_shorter_and_nowhere_deeper(
    anyhow: tuple[float, float], verdict: str
) -> None:
    rows = []
    for sites, other in zip((20, 50), anyhow, strict=True):
        at = {"sites": sites, "groups": 10}
        rows.append(row("depth_mean", 2.0, "propagation", **at))
        rows.append(row("depth_mean_at_random", other, "propagation", **at))
    (found,) = heuristic_findings(Results.of(rows), "sites")
    assert found.verdict == verdict
    assert heuristic_findings(Results.of(rows[::2]), "sites") == [], "built by one choice alone"


@pytest.mark.parametrize(
    ("load", "delay", "verdict"),
    [(50.0, 20.0, AGREES), (50.0, 40.0, DIFFERS), (99.0, 20.0, DIFFERS)],
)
def test_a_compromise_is_good_if_it_is_better_than_both_extremes_at_their_worst(
    load: float, delay: float, verdict: str
) -> None:
    def found(*points: tuple[float, float]) -> Finding:
        rows = []
        for sites, (busiest, last) in zip((20, 50), points, strict=False):
            at = {"sites": sites, "groups": 10}
            rows += [
                row("load_max", busiest, "propagation", **at),
                row("load_max", 80.0, "centralized", **at),
                row("delay_last_ms", last, "propagation", **at),
                row("delay_last_ms", 26.0, "two_phase", **at),
            ]
        (one,) = compromise_findings(Results.of(rows), "sites")
        return one

    assert found((load, delay)).verdict == verdict
    assert found((load, delay), (50.0, 20.0)).verdict == (AGREES if verdict == AGREES else PARTLY)
