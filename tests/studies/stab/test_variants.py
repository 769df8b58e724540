"""Single numbers, slow routers, long links and S_FullDist: rounds on small trees, and verdicts."""

import pytest

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.sim.rounds.tracking import Setting, Tracked, track
from ordercast.sim.rounds.tree import parse_tree
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import AGREES, DIFFERS, MEASURED
from ordercast.studies.stab.runs import S_FULL_DIST, variant_costs
from ordercast.studies.stab.s_full_dist import StructuredFullDist
from ordercast.studies.stab.variants import variants_findings

SHAPE = parse_tree("n=85,b=4")


def rounds(protocol: str, **other: object) -> Tracked:
    return track(Setting(protocol, SHAPE, **other), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["coordp", "full_dist", "train", "s_coordp", "s_train"])
def test_four_bytes_are_quicker_and_take_the_same_messages(protocol: str) -> None:
    arrays, single = rounds(protocol), rounds(protocol, array="total")
    assert single.rtt_ns < arrays.rtt_ns
    assert (single.rounds, single.on_hops) == (arrays.rounds, arrays.on_hops)


def test_a_router_counts_once_for_each_node_that_forwards() -> None:
    """S_CoordP's multicasts pass two routers on a tree of height 3; its ACKs pass none."""
    slow, quick = rounds("s_coordp", router_ms=10), rounds("s_coordp")
    assert slow.rtt_ns - quick.rtt_ns == pytest.approx(2 * 9e6, rel=0.02)


def test_links_are_long_everywhere_only_where_they_are_wide() -> None:
    lan, wan, wide = (rounds("s_coordp", links=links) for links in ("lan", "wan", "wide"))
    assert lan.rtt_ns < wan.rtt_ns < wide.rtt_ns
    again = track(Setting("coordp", SHAPE, links="wide"), 4)
    assert again.rtt_ns == track(Setting("coordp", SHAPE, links="wide"), 5).rtt_ns


def test_full_dist_on_a_tree_is_s_coordp_with_messages_that_nobody_uses() -> None:
    found = track(Setting("s_coordp", SHAPE), 3, lambda _: StructuredFullDist)
    ours = rounds("s_coordp")
    assert found.rounds == ours.rounds
    # Of four children each tells its parent and three siblings, two hops away.
    assert found.on_hops["ack"] == ours.on_hops["ack"] * (1 + 3 * 2)
    measured = variant_costs(
        {"tree": "n=85,b=4", "array": "total", "router": 1, "links": "lan"}, 1, ""
    ).measures
    assert measured[f"{S_FULL_DIST}/rtt_ms"] >= measured["s_coordp/rtt_ms"]


def row(measure: str, mean: float, **parameters: object) -> ResultRow:
    return ResultRow(parameters, measure, mean, None, 1)


def results(total: float = 5.0, full: float = 10.0, basic: float = 20.0) -> Results:
    rows = []
    for point in CATALOGUE["stab-variants"].points(True):
        for protocol in ("coordp", "full_dist", "train", "s_coordp", "s_train", S_FULL_DIST):
            rtt = basic if protocol in ("coordp", "full_dist", "train") else 10.0
            rtt = full if protocol == S_FULL_DIST else rtt
            rtt = total if point["array"] == "total" else rtt
            rows += [row("rtt_ms", rtt, protocol=protocol, **point)]
            rows += [row(name, 7.0, protocol=protocol, **point)
                     for name in ("rounds", "messages_on_hops")]  # fmt: skip
    return Results.of(rows)


def test_verdicts_come_from_the_numbers() -> None:
    def verdicts(found: Results) -> list[str]:
        return [finding.verdict for finding in variants_findings(found)]

    assert verdicts(results()) == [AGREES, AGREES, AGREES, AGREES, MEASURED]
    assert verdicts(results(total=30.0))[0] == DIFFERS
    assert verdicts(results(basic=9.0))[1] == DIFFERS
    assert verdicts(results(full=12.0))[2] == DIFFERS
    assert verdicts(results(basic=9.0))[3] == DIFFERS
