"""Sweeps of `stability`, and the reproductions of [STAB] on small points, in this process."""

import dataclasses
from collections.abc import Callable
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.grids import experiment_of, points_of, run_sweep
from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.pipeline.sweeps.spec import parse_spec
from ordercast.pipeline.sweeps.swept_verb import swept_verb
from ordercast.pipeline.sweeps.tasks import Point, tasks_of
from ordercast.plan.canvas import save, style
from ordercast.sim.rounds.tree import parse_tree
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.fits import ORDERS, order, power
from ordercast.studies.reproduction import AGREES, DIFFERS, PARTLY, Spot
from ordercast.studies.stab.figures import COLOURS
from ordercast.studies.stab.findings import (
    messages_findings,
    pairs_findings,
    queue_findings,
    rtt_findings,
    scale_findings,
    table1_findings,
    trigger_findings,
)
from ordercast.studies.stab.printed_values import (
    HOPS_OF_THE_LAST_ACK,
    KINDS_ON_HOPS,
    MESSAGES_ON_HOPS,
    train_hops,
)
from ordercast.studies.stab.proportions import heights_findings, hops_findings
from ordercast.studies.stab.runs import (
    MEASURED_LIMIT,
    STRUCTURED,
    limits,
    round_costs,
    table_3,
    with_random_trees,
)
from support.harness.runners import here, table_of

one_run_each = partial(table_of, repeats=1)

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


def test_a_grid_of_rounds_is_swept(tmp_path: Path) -> None:
    spec = parse_spec(SWEEP, source="s.toml")
    result = run_sweep(spec, points_of(spec), tmp_path, here(experiment_of(spec)))
    assert (result.ok, result.points, result.runs) == (True, 4, 12)
    measured = {row.measure for row in result.results.rows}
    assert measured == set(swept_verb("stability").measures)
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
    results = one_run_each(name, points)
    assert {row.measure for row in results.rows} <= set(each.measures)
    findings = each.find(results)
    assert findings
    for finding in findings:
        assert "nan" not in finding.measured
    with style():
        save(each.draw(results), str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_what_the_tables_say_agrees_and_what_they_overstate_differs() -> None:
    table = table1_findings(one_run_each("stab-table1", [{"members": 13, "tree": "b=3,p=2,z=3"}]))
    assert {finding.verdict for finding in table} == {AGREES}
    found = messages_findings(one_run_each("stab-figure6", table_3(True)[:3]))
    assert [finding.verdict for finding in found[2:]] == [DIFFERS, AGREES, DIFFERS]
    assert "n = 47, 63, 202: 2.0, 2.1, 2.0 times fewer" in found[2].measured


def test_a_table_that_is_off_by_one_differs() -> None:
    good = one_run_each("stab-table1", [{"members": 13, "tree": "b=3,p=2,z=3"}])
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
        rows += [dataclasses.replace(each, measure="slowest_rtt_ms") for each in rows]
        rows += [
            row(p, n, share * 10.0 * n, random_tree=f"n={n},seed={seed}")
            for p in PROTOCOLS
            for n in (10, 20)
            for seed, share in enumerate(drawn)
        ]
        return rtt_findings(Results.of(rows))[-1].verdict

    assert verdict(0.8, 1.2) == AGREES
    assert verdict(1.3, 1.4) == DIFFERS


@pytest.mark.parametrize(("slowest", "verdict"), [(1.05, AGREES), (1.3, DIFFERS)])
def test_whether_other_members_are_only_slightly_slower_is_computed(
    slowest: float, verdict: str
) -> None:
    rows = [row(p, n, 10.0 * n) for p in PROTOCOLS for n in (10, 20)]
    rows += [
        dataclasses.replace(each, measure="slowest_rtt_ms", mean=slowest * 10 * n)
        for each in list(rows)
        for n in [each.parameters["members"]]
    ]
    rows += [row(p, 10, 100.0, random_tree="n=10,seed=1") for p in PROTOCOLS]
    assert rtt_findings(Results.of(rows))[-2].verdict == verdict


def test_the_power_of_a_curve() -> None:
    assert power([Spot(x, 3 * x**2, 0) for x in (1, 10, 100)]) == 2
    assert power([Spot(x, 7, 0) for x in (1, 10, 100)]) == 0
    assert power([Spot(5, 7, 0)]) == 0


def test_the_order_of_growth_tells_n_log_n_from_n() -> None:
    sizes = (50, 200, 1_000, 5_000, 20_000)
    for name, growth in ORDERS.items():
        assert order([Spot(n, 3 * growth(n), 0) for n in sizes]) == name
    assert order([Spot(n, n * (2 + log(n, 4)), 0) for n in sizes]) == "n log n"
    assert order([Spot(n, n * 1.1 ** (n % 3), 0) for n in sizes]) == "n"


def test_a_coordinator_whose_messages_grow_as_n_fails_the_claim_of_n_log_n() -> None:
    def verdicts(per_member: Callable[[int], float]) -> list[str]:
        def total(protocol: str, n: int) -> float:
            if protocol == "coordp":
                return n * per_member(n)
            return float(n * n if protocol == "full_dist" else 3 * n)

        rows = [
            ResultRow({"members": n, "protocol": p}, "messages_on_hops", total(p, n), None, 1)
            for p in PROTOCOLS
            for n in (50, 1_000, 20_000)
        ]
        return [finding.verdict for finding in messages_findings(Results.of(rows))[:2]]

    assert verdicts(lambda n: 2 + log(n, 4)) == [AGREES, AGREES]
    assert verdicts(lambda _: 3.0) == [DIFFERS, AGREES]


@pytest.mark.parametrize(("grows", "verdict"), [(0.5, PARTLY), (0.35, PARTLY), (0.05, AGREES)])
def test_almost_flat_is_no_power_of_n(grows: float, verdict: str) -> None:
    powers = {"s_coordp": grows, "s_train": 0.4}
    rows = [row(p, n, n ** powers.get(p, 1.2)) for p in PROTOCOLS for n in (47, 202, 1_365)]
    assert pairs_findings(Results.of(rows))[0].verdict == verdict


@pytest.mark.parametrize(("grows", "verdict"), [(0.7, AGREES), (0.8, PARTLY), (1.1, PARTLY)])
def test_much_better_is_more_than_better(grows: float, verdict: str) -> None:
    """Train's round trip grows as the power 1.2 of n."""
    powers = {"s_coordp": 0.05, "s_train": grows}
    rows = [row(p, n, n ** powers.get(p, 1.2)) for p in PROTOCOLS for n in (47, 202, 1_365)]
    assert pairs_findings(Results.of(rows))[2].verdict == verdict


def test_queues_at_links_and_at_processors_have_verdicts_of_their_own() -> None:
    def queue(protocol: str, where: str, n: int) -> float:
        if protocol == "coordp":
            return n / 2 if where == "queue_link" else n
        return float(n) if protocol == "full_dist" else 1.0

    rows = [
        ResultRow({"members": n, "protocol": p}, where, queue(p, where, n), None, 1)
        for p in PROTOCOLS for n in (47, 202) for where in ("queue_link", "queue_cpu")
    ]  # fmt: skip
    links, processors = queue_findings(Results.of(rows))[:2]
    assert links.statement.endswith("on links.")
    assert processors.statement.endswith("at processors.")
    assert (links.verdict, processors.verdict) == (AGREES, PARTLY)  # both grow, none is longer


def heights(line: Any) -> list[float]:
    return [float(y) for y in line.get_ydata()]


def test_random_trees_are_drawn_beside_complete_ones() -> None:
    rows = [row(p, n, 10.0 * n) for p in PROTOCOLS for n in (50, 200)]
    drawn = [row(p, 50, 480.0, random_tree="n=50,seed=1") for p in PROTOCOLS]
    with style():
        assert len(CATALOGUE["stab-figure10"].draw(Results.of(rows)).axes) == 3
        figure = CATALOGUE["stab-figure10"].draw(Results.of([*rows, *drawn]))
    assert len(figure.axes) == 6
    assert [heights(line) for line in figure.axes[3].lines[:2]] == [[0.96], [0.96]]


@pytest.mark.parametrize("name", ["stab-figure7", "stab-figure9", "stab-figure10"])
def test_no_legend_hides_a_mark(name: str) -> None:
    """Random trees' marks are all over the panels, so no corner is free."""
    measure = "rtt_ms" if "rtt_ms" in CATALOGUE[name].measures else "messages_on_hops"
    heights = [100.0, *(10 ** (k / 3) for k in range(1, 12)), *(500.0 * k for k in range(1, 12))]
    rows = [
        ResultRow({"members": n, "protocol": p, **tree}, measure, height, None, 1)
        for n in (50, 100, *range(200, 1_400, 200))
        for p in PROTOCOLS
        for k, height in enumerate(heights)
        for tree in ({"random_tree": f"seed={k}"} if k else {},)
    ]
    with style():
        figure = CATALOGUE[name].draw(Results.of(rows))
        figure.draw_without_rendering()
    for ax in figure.axes:
        if (legend := ax.get_legend()) is None:
            continue
        box, marks = legend.get_window_extent(), drawn_in(ax)
        assert len(marks) > 20
        assert not [mark for mark in marks if box.contains(*mark)]


def drawn_in(ax: Any) -> list[tuple[float, float]]:
    """Where the panel's marks are in the picture."""
    marked: list[Any] = [line for line in ax.lines if line.get_marker() not in ("", "None", None)]
    found = [ax.transData.transform(line.get_xydata()) for line in marked if len(line.get_xdata())]
    return [(x, y) for each in found for x, y in each]


def test_what_is_printed_stands_beside_what_is_measured() -> None:
    """Table 1 and Figure 6: a ring round every mark; the ratios of §5.4.2: stars."""
    table = one_run_each("stab-table1", [{"members": 13, "tree": "b=3,p=2,z=3"}])
    with style():
        left = CATALOGUE["stab-table1"].draw(table).axes[0]
    rings = [line for line in left.lines if line.get_markersize() == 10]
    assert sorted(y for ring in rings for y in heights(ring)) == [2, 3, 4, 8, 26]
    rows = [
        ResultRow({"members": n, "protocol": p}, measure, 1.0 * n, None, 1)
        for p in PROTOCOLS
        for n in (50, 1_000, 20_000)
        for measure in ("rtt_ms", "messages_per_member")
    ]  # fmt: skip
    elsewhere = [row(p, 50, 9.0, **{k: v}) for p in PROTOCOLS
                 for k, v in (("placement", "shuffled"), ("links", "wan"))]  # fmt: skip
    with style():
        ratios = CATALOGUE["stab-scale"].draw(Results.of([*rows, *elsewhere])).axes[2]
    stars = [heights(line) for line in ratios.lines if line.get_marker() == "*"]
    assert [star for star in stars if star] == [[70, 2_100], [35, 500]]


def test_what_is_printed_of_round_trips_stands_in_figure_10() -> None:
    """Stars at 70 and 35 times the structured protocol's time; rings in proportion to the hops."""
    trees = {597: "b=4,p=5,z=1", 853: "b=4,p=5,z=2", 1_365: "b=4,p=5,z=4"}
    rows = [
        ResultRow({"members": n, "protocol": p, "tree": t}, "rtt_ms", n / 100, None, 1)
        for n, t in trees.items() for p in PROTOCOLS
    ]  # fmt: skip
    with style():
        panels = CATALOGUE["stab-figure10"].draw(Results.of(rows)).axes
        small = CATALOGUE["stab-figure10"].draw(Results.of(rows[: 2 * len(PROTOCOLS)])).axes
    stars = [[y for line in ax.lines if line.get_marker() == "*" for y in heights(line)]
             for ax in panels]  # fmt: skip
    assert stars == [[pytest.approx(700)], [], [pytest.approx(350)]]
    assert not [line for ax in small for line in ax.lines if line.get_marker() == "*"]
    shapes = [parse_tree(tree) for tree in trees.values()]
    hops = [train_hops(shape) for shape in shapes]
    assert rings(panels[0]) == rings(panels[1]) == {}
    assert rings(panels[2]) == {
        COLOURS["train"]: pytest.approx([5.97 * each / hops[0] for each in hops]),
        COLOURS["s_train"]: [5.97] * 3,  # p(2(b − 1) + 1) = 35 hops on each
    }


@pytest.mark.parametrize(("longer", "verdict"), [(1.0, AGREES), (1.2, AGREES), (2.0, DIFFERS)])
def test_whether_round_trips_grow_as_the_printed_hops_is_computed(
    longer: float, verdict: str
) -> None:
    """The larger tree's are so many times longer than in proportion."""
    trees = {47: "b=2,p=5,z=1", 1_365: "b=4,p=5,z=4"}
    rows = []
    for n, tree in trees.items():
        hops = {p: growth(parse_tree(tree)) for p, growth in HOPS_OF_THE_LAST_ACK.items()}
        for protocol, time in {"s_coordp": 10.0, **hops}.items():
            rows.append(row(protocol, n, (longer if n > 47 else 1.0) * time, tree=tree))
    found = hops_findings(Results.of(rows))
    assert [finding.verdict for finding in found] == [verdict] * 3
    assert found[0].claim.startswith("S_CoordP")
    assert "(15, 35)" in found[2].measured


def test_whether_s_coordps_round_trip_grows_as_the_height_is_computed() -> None:
    def found(*times: float) -> list[str]:
        rows = []
        for n, height, rtt in zip((50, 200, 20_000), (3, 4, 8), times, strict=True):
            at = row("s_coordp", n, rtt)
            rows += [at, dataclasses.replace(at, measure="height", mean=height)]
        return [finding.verdict for finding in heights_findings(Results.of(rows))]

    assert found(30.0, 40.0, 80.0) == [AGREES]
    assert found(30.0, 40.0, 400.0) == [PARTLY]
    assert found(30.0, 80.0, 400.0) == [DIFFERS]


@pytest.mark.parametrize(
    ("rtt", "most", "verdict"),
    [((10, 400), 20_000, AGREES), ((10, 400), 1_000, PARTLY), ((10, 9_000), 20_000, PARTLY)],
)
def test_to_scale_is_to_grow_less_than_the_members_up_to_tens_of_thousands(
    rtt: tuple[float, float], most: int, verdict: str
) -> None:
    rows = []
    for protocol in PROTOCOLS:
        times = rtt if protocol == "s_coordp" else (10, 20)
        for n, time in zip((50, most), times, strict=True):
            at = row(protocol, n, time)
            rows += [
                at,
                dataclasses.replace(at, measure="messages_per_member", mean=3.0),
                dataclasses.replace(at, measure="messages_on_hops", mean=3.0 * n),
            ]
    elsewhere = [row(p, 50, 9.0, **{k: v}) for p in PROTOCOLS
                 for k, v in (("placement", "shuffled"), ("links", "wan"))]  # fmt: skip
    found = {each.statement: each for each in scale_findings(Results.of([*rows, *elsewhere]))}
    scaling = found["The structured protocols scale to at least tens of thousands of participants."]
    assert scaling.verdict == verdict


@pytest.mark.parametrize(
    ("printed", "stops", "verdict"),
    [(35.0, 0.0, AGREES), (35.0, 12.0, PARTLY), (130.0, 12.0, DIFFERS)],
)
def test_the_best_x_is_one_with_which_nobody_stops(
    printed: float, stops: float, verdict: str
) -> None:
    rows = []
    for limit in (10, 30, 34, 40, 45, MEASURED_LIMIT):
        means = {
            "rounds": 16.0, "rounds_formula": 16.0, "meanwhile": 5.0, "first_stops": 0.0,
            "stops": stops if limit > 30 else 0.0, "stopped_share": 0.0, "stable_share": 1.0,
            "time_to_stable_ms": 9.0, "round_ms": 9.0, "alpha": 1.0, "mended_limit": 35.0,
            "printed_limit": printed,
        }  # fmt: skip
        at = {"limit": limit, "loss": 0.0, "members": 15}
        rows += [ResultRow(at, name, mean, 0.0, 5) for name, mean in means.items()]
    found = {each.claim: each for each in trigger_findings(Results.of(rows))}
    best = found["The best X is the greater of g − rf and (g − 2rf)/(1 − α)."]
    assert best.verdict == verdict
    if printed < 40:
        assert (
            f"With X = 34, the largest one tried that is no greater, the first member stops 0.0"
            f" times and a member on average {stops:.1f} times" in best.measured
        )


def test_the_printed_queue_of_1_stands_in_figure_8() -> None:
    rows = [
        ResultRow({"members": n, "protocol": p}, where, 3.0, None, 1)
        for p in PROTOCOLS for n in (47, 202) for where in ("queue_link", "queue_cpu")
    ]  # fmt: skip
    with style():
        panels = CATALOGUE["stab-figure8"].draw(Results.of(rows)).axes
    for ax in panels:
        (printed,) = [line for line in ax.lines if str(line.get_label()).startswith("printed")]
        assert heights(printed) == [1, 1]
        assert printed.get_label() == "printed: 1 for train, s_coordp, s_train"


def rings(ax: Any) -> dict[str, list[float]]:
    """By the colour, of which each protocol has its own."""
    found = [line for line in ax.lines if line.get_markersize() == 10 and len(line.get_ydata())]
    return {line.get_color(): heights(line) for line in found}


def test_the_formulas_of_table_4_stand_in_figures_6_and_7_and_by_kind() -> None:
    points = [{"members": 47, "tree": "b=2,p=5,z=1"}, {"members": 63, "tree": "b=2,p=5,z=2"}]
    shapes = [parse_tree(str(point["tree"])) for point in points]
    totals = {COLOURS[p]: [formula(s) for s in shapes] for p, formula in MESSAGES_ON_HOPS.items()}
    with style():
        together = CATALOGUE["stab-figure6"].draw(one_run_each("stab-figure6", points)).axes[0]
        pairs = CATALOGUE["stab-figure7"].draw(one_run_each("stab-figure7", points)).axes
        kinds = CATALOGUE["stab-table4"].draw(one_run_each("stab-table4", points)).axes
    assert rings(together) == totals
    assert [len(rings(ax)) for ax in pairs] == [2, 2, 2]
    assert {c: ys for ax in pairs for c, ys in rings(ax).items()} == totals
    for ax, printed in zip(kinds, KINDS_ON_HOPS.values(), strict=True):
        assert rings(ax) == {COLOURS[p]: [f(s) for s in shapes] for p, f in printed.items()}
    assert rings(kinds[0])[COLOURS["train"]] == [1, 1]  # as printed, though there is none
    assert rings(kinds[1])[COLOURS["train"]] == [train_hops(s) - 1 for s in shapes]
    for protocol in PROTOCOLS:  # the kinds add up to the printed total
        own = [printed[protocol] for printed in KINDS_ON_HOPS.values() if protocol in printed]
        assert [sum(f(s) for f in own) for s in shapes] == totals[COLOURS[protocol]]


@pytest.mark.parametrize("name", ["stab-figure7", "stab-figure10"])
def test_no_series_lies_on_the_axis(name: str) -> None:
    """Those of the structured protocols are a hundredth of the others."""
    measure = CATALOGUE[name].measures[0]
    rows = [
        ResultRow({"members": n, "protocol": p, "tree": f"n={n},b=4"}, measure, y, None, 1)
        for n in (50, 1_000)
        for p in PROTOCOLS
        for y in [3.0 * n if p in STRUCTURED else 1.0 * n * n]
    ]
    with style():
        panels = CATALOGUE[name].draw(Results.of(rows)).axes
    for ax in panels:
        low = min(y for line in ax.lines for y in heights(line))
        at = ax.transAxes.inverted().transform(ax.transData.transform((50, low)))[1]
        assert at > 0.03, ax.get_title(loc="left")


@pytest.mark.parametrize(("b", "z"), [(2, 1), (3, 3), (4, 2)])
def test_the_printed_totals_are_those_of_table_4(b: int, z: int) -> None:
    """All are what is counted, but for F_a, whose closed form is too large (errata STAB-1)."""
    tree = f"b={b},p=4,z={z}"
    found = round_costs({"tree": tree, "members": parse_tree(tree).n}, 1, "").measures
    for protocol, formula in MESSAGES_ON_HOPS.items():
        counted, printed = found[f"{protocol}/messages_on_hops"], formula(parse_tree(tree))
        assert counted < printed if protocol == "coordp" else counted == printed, protocol


def test_full_dist_is_left_out_where_it_would_take_for_ever() -> None:
    few = round_costs({"tree": "n=40,b=4", "members": 40}, 1, "run").measures
    many = round_costs({"tree": "n=1500,b=4", "members": 1500}, 1, "run").measures
    assert {name.partition("/")[0] for name in few} == set(PROTOCOLS)
    assert {name.partition("/")[0] for name in many} == set(PROTOCOLS) - {"full_dist"}


def test_a_round_that_cannot_be_is_a_failed_run() -> None:
    task = tasks_of(Point.of({"tree": "b=2", "members": 3}), [1], 1)
    (outcome,) = here(round_costs)(task)
    assert outcome.error == "tree: neither n, the members, nor p, the height, is given"
