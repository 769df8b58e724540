"""[SWAP]'s latency and traffic on small trees, run here."""

import dataclasses
from typing import Any, cast

import pytest

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.pipeline.sweeps.tables import site_names
from ordercast.plan.canvas import style
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import AGREES, DIFFERS, MEASURED, PARTLY
from ordercast.studies.swap.changes import CHANGING, change_costs, change_findings
from ordercast.studies.swap.runs import (
    BINARY,
    GROUPS_BELOW,
    LIST,
    ONE,
    PROTOCOLS_OF_SWAP,
    RANDOM,
    SHAPES,
    TURNS,
    diameter,
    latencies,
    on_tree,
    path,
    traffic,
)
from ordercast.studies.swap.throughput import (
    LARGER_CORE,
    SERIES,
    throughput_costs,
    throughput_findings,
)
from support.harness.runners import table_of

SMALL = site_names(7)


def at_once(shape: str, requests: int, seed: int = 1, sites: int = 7) -> dict[str, float]:
    return latencies({"sites": sites, "shape": shape, "requests": requests}, seed, "").measures


def test_trees_are_of_the_shape_that_is_asked_for() -> None:
    binary, line = on_tree(BINARY, SMALL, 1), on_tree(LIST, SMALL, 1)
    assert (diameter(binary), diameter(line)) == (4, 6)
    assert path(binary, "s3", "s5") == ["s3", "s1", "s0", "s2", "s5"]
    assert path(line, "s4", "s4") == ["s4"]
    assert on_tree(RANDOM, SMALL, 1).forest != on_tree(RANDOM, SMALL, 2).forest


def test_every_site_of_a_list_at_once_by_hand() -> None:
    """Arrows: each request meets its neighbour's. The count goes through all of them."""
    found = at_once(LIST, 7)
    assert found["arrow/known_hops"] == pytest.approx(6 / 7, abs=0.01)
    assert found["arrow_counting/known_hops"] == pytest.approx(3, abs=0.01)
    assert found["combining/known_hops"] == pytest.approx(3, abs=0.01)  # in step: none meet
    assert found["arrow/links_max"] == 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("requests", [1, 3, 9])
def test_swapping_is_never_slower_than_counting(shape: str, requests: int) -> None:
    """Errata SWAP-4: never, not always less; and arrow's way is at most the diameter."""
    for seed in range(3):
        found = at_once(shape, requests, seed, 9)
        for swap in ("arrow", "combining"):
            for what in ("known_hops", "delivered_hops"):
                counting = found[f"{swap}_counting/{what}"]
                assert found[f"{swap}/{what}"] <= counting + 0.05, (seed, swap, what)
        assert found["arrow/links_max"] <= found["diameter"]


def test_one_sender_makes_arrow_silent_and_combining_pass_the_root() -> None:
    config = {"sites": 7, "shape": BINARY, "senders": ONE, "messages": 5}
    found = traffic(config, 1, "").measures
    assert found["arrow/requests_sent"] == 2 / 5  # the first finds the sink, two links up
    assert (found["arrow/requests_later"], found["combining/requests_later"]) == (0, 2)
    assert found["combining/requests_sent"] == 2
    assert found["combining_counting/requests_sent"] == 4
    assert (found["combining/through_root"], found["arrow/through_root"]) == (1, 1 / 5)


def test_findings_and_figures_come_from_the_numbers() -> None:
    latency = table_of(
        "swap-latency",
        [{"sites": 7, "shape": s, "requests": k} for s in SHAPES for k in (1, 3, 7)],
    )
    assert {finding.verdict for finding in CATALOGUE["swap-latency"].find(latency)} == {AGREES}
    locality = table_of(
        "swap-locality",
        [{"sites": 7, "shape": BINARY, "senders": s, "messages": 4} for s in (ONE, TURNS)],
    )
    found = CATALOGUE["swap-locality"].find(locality)
    assert [finding.verdict for finding in found] == [AGREES, AGREES, AGREES, PARTLY, AGREES]
    assert all(name.replace("_", " ") in found[0].measured for name in PROTOCOLS_OF_SWAP)
    with style():
        panels = CATALOGUE["swap-latency"].draw(latency).axes
        assert len(panels) == 6
        for ax, shape in zip(panels, SHAPES, strict=False):  # the printed bound stands above arrow
            lines: dict[Any, list[Any]] = {
                line.get_label(): list(cast("Any", line.get_ydata())) for line in ax.lines
            }
            bound, far = (lines[name] for name in ("its printed bound: the diameter",
                                                   "arrow: the longest way"))  # fmt: skip
            assert shape == RANDOM or set(bound) == {4 if shape == BINARY else 6}
            assert all(way <= most for way, most in zip(far, bound, strict=True))
        assert len(CATALOGUE["swap-locality"].draw(locality).axes) == 2


def test_requests_that_avoid_the_root_are_traffic_of_the_swap_too() -> None:
    """Two parts of a tree that are silent at its root may be busy elsewhere."""
    table = table_of(
        "swap-locality",
        [{"sites": 7, "shape": BINARY, "senders": s, "messages": 4} for s in (ONE, TURNS)],
    )

    def verdict(later: float) -> str:
        rows = [
            dataclasses.replace(r, mean=later)
            if (r.measure, r.parameters["protocol"]) == ("requests_later", "arrow") else r
            for r in table.rows
        ]  # fmt: skip
        return CATALOGUE["swap-locality"].find(Results.of(rows))[0].verdict

    assert [verdict(later) for later in (0.0, 0.1, 2.0)] == [AGREES, DIFFERS, DIFFERS]


def test_where_sites_need_time_a_root_carries_less_than_is_offered() -> None:
    idle = throughput_costs({"sites": 7, "rate": 10}, 1, "").measures
    busy = throughput_costs({"sites": 7, "rate": 320}, 1, "").measures
    for protocol in PROTOCOLS_OF_SWAP:
        assert busy[f"{protocol}/delay_mean_ms"] > idle[f"{protocol}/delay_mean_ms"]
        assert busy[f"{protocol}/frames"] < idle[f"{protocol}/frames"]  # more in each
    assert busy["combining/carried"] < 200 < busy["arrow/carried"]


def test_the_verdicts_on_throughput_can_change() -> None:
    def verdicts(**carried: float) -> list[str]:
        rows = []
        for protocol in SERIES:
            told = carried.get(protocol, 100.0)
            for measure, mean in (
                ("carried", told),
                ("delay_mean_ms", 1e4 / told),
                ("frames", 9.0),
            ):
                at = {"sites": 7, "rate": 10, "protocol": protocol}
                rows.append(ResultRow(at, measure, mean, 0.0, 5))
        return [finding.verdict for finding in throughput_findings(Results.of(rows))]

    def told(hybrid: float, larger: float, below: float, **others: float) -> list[str]:
        return verdicts(hybrid=hybrid, **{LARGER_CORE: larger, GROUPS_BELOW: below}, **others)

    assert told(120.0, 150.0, 130.0) == [AGREES, AGREES, AGREES, AGREES, MEASURED]
    assert told(120.0, 110.0, 120.0) == [AGREES, AGREES, PARTLY, DIFFERS, MEASURED]
    few = told(40.0, 30.0, 20.0, arrow=50.0, combining=50.0)
    assert few == [DIFFERS, DIFFERS, DIFFERS, DIFFERS, MEASURED]


def test_a_request_beyond_the_diameter_would_be_told() -> None:
    found = latencies({"sites": 9, "shape": RANDOM, "requests": 9}, 4, "").measures
    assert found["arrow/beyond_diameter"] == 0
    assert found["arrow/links_max"] <= found["diameter"]
    points = [{"sites": 7, "shape": shape, "requests": k} for shape in SHAPES for k in (1, 3)]
    whole = table_of("swap-latency", points)
    once = next(r for r in whole.where(measure="beyond_diameter", protocol="arrow"))
    changed = [dataclasses.replace(r, mean=0.01) if r == once else r for r in whole.rows]
    for rows, verdict in ((whole.rows, AGREES), (changed, PARTLY)):
        (told,) = (
            finding
            for finding in CATALOGUE["swap-latency"].find(Results.of(rows))
            if "diameter" in finding.statement
        )
        assert told.verdict == verdict
    assert "crosses more in at most 1 % of the runs" in told.measured


def test_a_tree_changes_beside_the_joiner_and_an_epoch_at_every_site() -> None:
    few, many = (
        change_costs({"sites": n, "groups": n // 5, "size": 5}, 1, "").measures for n in (10, 25)
    )
    for protocol in CHANGING:
        for found in (few, many):
            assert found[f"{protocol}/join_moved"] <= 1
            assert found["paper/join_words"] == 2
        assert many[f"{protocol}/join_frames"] > few[f"{protocol}/join_frames"]


def test_the_verdicts_on_changes_can_change() -> None:
    def verdicts(
        frames: tuple[float, float], moved: float, words: float, left: float = 15.0
    ) -> list[str]:
        rows = []
        for sites, count in zip((10, 100), frames, strict=True):
            for kind in ("join", "leave"):
                for protocol in CHANGING:
                    at = {"sites": sites, "protocol": protocol}
                    told = {"frames": count, "moved": moved, "ms": 5.0}
                    rows += [ResultRow(at, f"{kind}_{m}", v, 0.0, 5) for m, v in told.items()]
                at = {"sites": sites, "protocol": "paper"}
                few, many = (2.0, words) if kind == "join" else (15.0, left)
                mean = few if sites == 10 else many
                rows.append(ResultRow(at, f"{kind}_words", mean, 0.0, 5))
        return [finding.verdict for finding in change_findings(Results.of(rows))]

    assert verdicts((100.0, 1000.0), 1.0, 2.0) == [AGREES, DIFFERS, AGREES, MEASURED]
    assert verdicts((100.0, 110.0), 3.0, 9.0) == [PARTLY, AGREES, DIFFERS, MEASURED]
    leaves = [verdicts((100.0, 110.0), 1.0, 2.0, left)[0] for left in (17.0, 30.0)]
    assert leaves == [AGREES, PARTLY], "a leave is judged as well as a join"
