"""Sweeps of `stability`, and the reproductions of [STAB] on small points, in this process."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.sweep import experiment_of, points_of, run_sweep
from ordercast.pipeline.sweeps.results import ResultRow, Results, results_of
from ordercast.pipeline.sweeps.rounds import Progressed, run_points
from ordercast.pipeline.sweeps.spec import Repeats, parse_spec
from ordercast.pipeline.sweeps.subject import subject_of
from ordercast.pipeline.sweeps.tasks import Point, tasks_of
from ordercast.plan.canvas import save, style
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.fits import power
from ordercast.studies.reproduction import AGREES, DIFFERS, Spot
from ordercast.studies.stab.findings import (
    messages_findings,
    rtt_findings,
    table1_findings,
)
from ordercast.studies.stab.runs import (
    MEASURED_LIMIT,
    limits,
    round_costs,
    table_3,
    with_random_trees,
)
from support.harness.runners import here

SWEEP = """
[sweep]
verb = "stability"
seed = 4
repeat = 3
[grid]
protocol = ["coordp", "s_coordp"]
random_tree = ["n=30,b=2,p=3", "n=60,b=3,p=3"]
[fixed]
links = "wan"
"""


class Nowhere:
    def append(self, _outcomes: Any, /) -> None: ...


def table_of(name: str, points: list[dict[str, Any]]) -> Results:
    """A reproduction's table for these points, run here."""
    each = dataclasses.replace(CATALOGUE[name], repeats=lambda _: Repeats(1, 1))
    state = Progressed([Point.of(point) for point in points], each.repeats(True))
    run_points(state, 1, here(each.family.experiment), Nowhere())
    assert [run.error for point in state.points for run in state.runs(point)] == [""] * len(points)
    return each.table(results_of(state))


def test_a_grid_of_rounds_is_swept(tmp_path: Path) -> None:
    spec = parse_spec(SWEEP, source="s.toml")
    result = run_sweep(spec, points_of(spec), tmp_path, here(experiment_of(spec)))
    assert (result.ok, result.points, result.runs) == (True, 4, 12)
    measured = {row.measure for row in result.results.rows}
    assert measured == set(subject_of("stability").measures)
    (row,) = result.results.where(
        measure="messages_on_hops", protocol="s_coordp", random_tree="n=60,b=3,p=3"
    )
    assert (row.mean, row.ci95, row.runs) == (3 * 59, 0, 3)
    rtt = result.results.where(measure="rtt_ms", random_tree="n=60,b=3,p=3")
    assert all(each.ci95 for each in rtt)  # every run draws a tree of its own


def test_time_is_measured_when_it_is_asked_for(tmp_path: Path) -> None:
    spec = parse_spec(SWEEP.replace("seed = 4", "seconds = true"), source="s.toml")
    result = run_sweep(spec, points_of(spec), tmp_path, here(experiment_of(spec)))
    assert len(result.results.where(measure="seconds")) == 4


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("stab-table1", [{"members": 7, "tree": "b=2,p=2,z=2"}]),
        ("stab-table4", table_3(True)[:2]),
        ("stab-figure6", table_3(True)[:2]),
        ("stab-figure7", table_3(True)[:2]),
        ("stab-figure8", table_3(True)[:2]),
        ("stab-figure9", [*with_random_trees(True)[:2], *with_random_trees(True)[5:9]]),
        ("stab-figure10", [*with_random_trees(True)[:2], *with_random_trees(True)[5:9]]),
        (
            "stab-scale",
            [
                {"members": n, "tree": f"n={n},b=4", **more}
                for n in (20, 90)
                for more in ({}, {"placement": "shuffled"}, {"links": "wan"})
            ],
        ),
        ("stab-load", [{"members": 7, "tree": "b=2,p=2", "busy": busy} for busy in (0.0, 0.8)]),
        (
            "stab-trigger",
            [
                {**point, "messages": 80}
                for point in limits(True)
                if point["limit"] in (15, 34, 45, MEASURED_LIMIT)
            ],
        ),
    ],
)
def test_a_reproduction_measures_draws_and_finds(
    name: str, points: list[dict[str, Any]], tmp_path: Path
) -> None:
    each = CATALOGUE[name]
    results = table_of(name, points)
    assert {row.measure for row in results.rows} <= set(each.measures)
    findings = each.find(results)
    assert findings
    for finding in findings:
        assert "nan" not in finding.measured
    with style():
        save(each.draw(results), str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_what_the_tables_say_agrees_and_what_they_overstate_differs() -> None:
    table = table1_findings(table_of("stab-table1", [{"members": 13, "tree": "b=3,p=2,z=3"}]))
    assert {finding.verdict for finding in table} == {AGREES}
    found = messages_findings(table_of("stab-figure6", table_3(True)[:3]))
    assert [finding.verdict for finding in found[1:]] == [DIFFERS, AGREES, DIFFERS]
    assert "n = 47, 63, 202: 2.0, 2.1, 2.0 times fewer" in found[1].measured


def test_a_table_that_is_off_by_one_differs() -> None:
    good = table_of("stab-table1", [{"members": 13, "tree": "b=3,p=2,z=3"}])
    off = [
        dataclasses.replace(row, mean=(row.mean or 0) + (row.measure == "rounds"))
        for row in good.rows
    ]
    verdicts = [finding.verdict for finding in table1_findings(Results.of(off))]
    assert verdicts == [DIFFERS] * 4 + [AGREES] * 4


def row(protocol: str, members: int, rtt: float, **more: Any) -> ResultRow:
    return ResultRow({"members": members, "protocol": protocol, **more}, "rtt_ms", rtt, None, 1)


def test_whether_random_trees_are_close_is_computed() -> None:
    def verdict(*drawn: float) -> str:
        rows = [row(p, n, 10.0 * n) for p in PROTOCOLS for n in (10, 20)]
        rows += [
            row(p, n, share * 10.0 * n, random_tree=f"n={n},seed={seed}")
            for p in PROTOCOLS
            for n in (10, 20)
            for seed, share in enumerate(drawn)
        ]
        return rtt_findings(Results.of(rows))[-1].verdict

    assert verdict(0.8, 1.2) == AGREES
    assert verdict(1.3, 1.4) == DIFFERS


def test_the_power_of_a_curve() -> None:
    assert power([Spot(x, 3 * x**2, 0) for x in (1, 10, 100)]) == 2
    assert power([Spot(x, 7, 0) for x in (1, 10, 100)]) == 0
    assert power([Spot(5, 7, 0)]) == 0


def test_full_dist_is_left_out_where_it_would_take_for_ever() -> None:
    few = round_costs({"tree": "n=40,b=4", "members": 40}, 1, "run").measures
    many = round_costs({"tree": "n=1500,b=4", "members": 1500}, 1, "run").measures
    assert {name.partition("/")[0] for name in few} == set(PROTOCOLS)
    assert {name.partition("/")[0] for name in many} == set(PROTOCOLS) - {"full_dist"}


def test_a_round_that_cannot_be_is_a_failed_run() -> None:
    task = tasks_of(Point.of({"tree": "b=2", "members": 3}), [1], 1)
    (outcome,) = here(round_costs)(task)
    assert outcome.error == "tree: neither n, the members, nor p, the height, is given"
