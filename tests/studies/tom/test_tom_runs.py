"""[TOM] Table 1 and Figure 5 on small points, run here: measured, printed, corrected."""

import dataclasses
from functools import cache
from typing import Any

import pytest

from ordercast.core.order.registry import PROTOCOLS
from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.plan.canvas import style
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import AGREES, DIFFERS, PARTLY, Finding
from ordercast.studies.tom.costs import TRANSMISSIONS
from ordercast.studies.tom.runs import (
    MEMBERS,
    ORDERED_AT_A_SITE,
    OUTSIDE,
    heard_from,
    message_costs,
    structure_for,
    table_of_sources,
)
from ordercast.studies.tom.source_findings import orderers_findings
from support.harness.runners import table_of

EXACT = ("centralized", "propagation", "metagroup", "tom")


def point(size: int, sources: int, by: str, sites: int = 16) -> dict[str, Any]:
    return {"sites": sites, "groups": 5, "size": size, "sources": sources, "sent_by": by}


@pytest.mark.parametrize("seed", range(4))
def test_from_outside_the_corrected_formulas_are_met_exactly(seed: int) -> None:
    found = message_costs(point(4, 3, OUTSIDE), seed, "").measures
    for protocol in (*EXACT, "two_phase"):
        assert found[f"{protocol}/transmissions"] == found[f"{protocol}/corrected"], protocol


@pytest.mark.parametrize("seed", range(4))
def test_a_source_among_the_receivers_saves_its_own_proposal(seed: int) -> None:
    """So two-phase takes s(1 + r), as printed, and not s(2 + r); who is the centre or the primary
    saves the way there."""
    found = message_costs(point(4, 2, MEMBERS), seed, "").measures
    assert found["two_phase/transmissions"] == found["two_phase/printed"] == 2 * (1 + 4)
    for protocol in (*EXACT, "two_phase"):
        assert found[f"{protocol}/transmissions"] == found[f"{protocol}/corrected"], protocol


@pytest.mark.parametrize("seed", range(4))
def test_symmetric_asks_all_hosts_of_the_domain(seed: int) -> None:
    found = message_costs(point(4, 1, MEMBERS), seed, "").measures
    assert found["symmetric/transmissions"] == found["symmetric/corrected"]
    several = message_costs(point(4, 4, MEMBERS), seed, "").measures
    assert several["symmetric/transmissions"] < several["symmetric/corrected"]  # data answers


def test_work_counts_a_multicast_once_as_the_paper_does() -> None:
    """So the centre does two things for a message, and a hop of TOM sends its headers once."""
    found = message_costs(point(20, 1, MEMBERS, 40), 0, "").measures
    assert (found["centralized/work_max"], found["centralized/load_max"]) == (2, 20)
    assert found["two_phase/work_max"] == 2 + 19
    assert found["tom/work_max"] == 5 < 20 < found["tom/load_max"]


def test_one_rule_counts_transmissions_for_every_protocol() -> None:
    """No site makes two of what leaves it for several others at the same time."""
    where, at = point(8, 1, MEMBERS), 9_100_000_000
    table, group, sources = table_of_sources(where, 3)
    measured = message_costs(where, 3, "").measures
    for protocol in set(TRANSMISSIONS) - {"ring"}:  # whose token is elsewhere at another time
        structure = structure_for(protocol, table)
        found = heard_from(at, overhear(structure, protocol, [PlannedSend(at, sources[0], group)]))
        said = {
            (f.at, f.source, *(getattr(item, "batch", item) for item in f.items))
            for f in found.heard
        }
        assert measured[f"{protocol}/transmissions"] == len(said) < found.messages, protocol


def test_findings_and_figures_come_from_the_numbers() -> None:
    points = [point(n, s, by) for n, s in ((3, 1), (5, 1), (5, 2)) for by in (MEMBERS, OUTSIDE)]
    table = table_of("tom-table1", points)
    found = {f.statement.split(":")[0]: f for f in CATALOGUE["tom-table1"].find(table)[:7]}
    assert len(found) == len(TRANSMISSIONS) == 7
    assert set(TRANSMISSIONS) <= set(PROTOCOLS)
    assert found["two-phase"].verdict == PARTLY  # from members yes, from outside no
    assert found["centralized"].verdict == found["symmetric"].verdict == DIFFERS
    assert "met exactly at 6 of 6 points" in found["TOM"].measured
    assert found["two-phase"].measured.count("as printed in 100 %)") == 3
    with style():
        assert len(CATALOGUE["tom-table1"].draw(table).axes) == 3


def test_an_equation_holds_where_it_holds_in_more_than_half_of_the_sessions() -> None:
    """M is an average in the caption: neither every session is asked for, nor a mean."""
    table = table_of("tom-table1", [point(3, 1, MEMBERS), point(5, 2, MEMBERS)])

    def verdict(*shares: float) -> str:
        by_size = dict(zip((3, 5), shares, strict=True))
        rows = [
            dataclasses.replace(r, mean=by_size[r.parameters["size"]])
            if r.measure == "as_printed_share" else r
            for r in table.rows
        ]  # fmt: skip
        found = {f.statement: f for f in CATALOGUE["tom-table1"].find(Results.of(rows))}
        return found["TOM: M = s(2 + p)."].verdict

    asked = [(1.0, 1.0), (0.8, 0.51), (0.8, 0.5), (1.0, 0.0), (0.5, 0.2)]
    assert [verdict(*shares) for shares in asked] == [AGREES, AGREES, PARTLY, PARTLY, DIFFERS]


@cache
def small_table() -> Results:
    points = [point(3, 1, MEMBERS), point(5, 1, MEMBERS), point(5, 2, MEMBERS)]
    return table_of("tom-table1", points)


def told(**means: float) -> dict[str, Finding]:
    """Findings of Table 1 by their statements, with some rows of a small run given other means:
    `ring_transmissions_2` of two sources, `ring_x_source_5` of five receivers and one source."""

    def other(row: ResultRow) -> ResultRow:
        sources, size = row.parameters["sources"], row.parameters["size"]
        at = sources if sources > 1 or row.measure == "transmissions" else size
        name = f"{row.parameters['protocol']}_{row.measure}_{at}"
        return dataclasses.replace(row, mean=means.get(name, row.mean))

    table = Results.of([other(row) for row in small_table().rows])
    return {each.statement: each for each in CATALOGUE["tom-table1"].find(table)}


def test_a_ring_shares_turns_at_best_if_no_message_takes_less() -> None:
    claim = "ring: at best M = 2n/k, if k messages share the turns of the token."
    assert told(ring_transmissions_1=99, ring_transmissions_2=99)[claim].verdict == AGREES
    assert told(ring_transmissions_1=99, ring_transmissions_2=2)[claim].verdict == PARTLY
    assert told(ring_transmissions_1=1, ring_transmissions_2=2)[claim].verdict == DIFFERS


def test_without_multicast_symmetric_ordering_sends_each_packet_to_each_receiver() -> None:
    claim = "symmetric, without multicast: M = s((r − 1) + r(r − 1))."
    assert told()[claim].verdict == DIFFERS
    assert told(symmetric_messages_5=4 + 5 * 4)[claim].verdict == PARTLY
    exact = told(symmetric_messages_3=2 + 3 * 2, symmetric_messages_5=4 + 5 * 4)
    assert exact[claim].verdict == AGREES


def test_packets_agree_by_one_way_of_counting_for_all_roles() -> None:
    """Copies at the source and multicasts at the receivers, as each fits, would be two."""
    claim = "two-phase: the terms of X, equation 2."
    fits, no = {"": 3.0, "_multicast": 3.0}, 90.0

    def verdict(of_source: str, of_receivers: str) -> str:
        means = {}
        for size in (3, 5):
            for kind in fits:
                at = 3.0 * size if kind == of_source else no
                means[f"two_phase_x_source{kind}_{size}"] = at
                means[f"two_phase_x_receiver{kind}_{size}"] = 3.0 if kind == of_receivers else no
        return told(**means)[claim].verdict

    assert verdict("", "") == verdict("_multicast", "_multicast") == AGREES
    assert verdict("", "_multicast") == PARTLY


def test_a_load_without_s_must_not_grow_with_the_sources() -> None:
    """Two-phase's X is O(r): half of twice the load is still a growth."""
    points = [point(n, s, MEMBERS) for n, s in ((4, 1), (8, 1), (4, 2), (4, 4))]
    table = table_of("tom-table1", points)

    def verdict(power: float) -> str:
        rows = [
            dataclasses.replace(r, mean=r.parameters["size"] * r.parameters["sources"] ** power)
            if r.measure == "load_max" else r
            for r in table.rows
        ]  # fmt: skip
        found = {f.statement: f for f in CATALOGUE["tom-table1"].find(Results.of(rows))}
        return found["two-phase: X = O(r)."].verdict

    assert [verdict(power) for power in (0.0, 0.1, 0.28)] == [AGREES, AGREES, PARTLY]


def test_who_orders_is_counted_by_groups() -> None:
    """A centre orders every group of its domain; the sites of MP share them."""
    config = {"sites": 40, "groups": 8, "size": 6, "sources": 1, "sent_by": MEMBERS}
    found = message_costs(config, 1, "").measures
    assert (found["centralized/orderers"], found["centralized/orderer_share"]) == (1, 1)
    for protocol in ("propagation", "tom"):
        table, _, _ = table_of_sources(config, 1)
        structure = structure_for(protocol, table)
        tops = [structure.primary(group) for group in table.groups]
        assert found[f"{protocol}/orderers"] == len(set(tops))
        assert found[f"{protocol}/orderer_share"] == max(map(tops.count, tops)) / 8
    assert found["propagation/orderers"] > 1
    assert "ring/orderers" not in found


def sharing(nodes: tuple[float, ...], share: tuple[float, ...]) -> list[str]:
    """Of TOM, in sessions of 20 and 50 hosts; a centre orders 90 % of the groups."""
    rows = []
    for sites, many, part in zip((20, 50), nodes, share, strict=True):
        for protocol in ORDERED_AT_A_SITE:
            told = (many, part) if protocol == "tom" else (1.0, 0.9)
            at = {"sites": sites, "protocol": protocol, "sent_by": MEMBERS}
            rows += [
                ResultRow(at, measure, value, 0.0, 5)
                for measure, value in zip(("orderers", "orderer_share"), told, strict=True)
            ]
    return [finding.verdict for finding in orderers_findings(Results.of(rows))]


def test_whether_tom_spreads_ordering_is_computed() -> None:
    assert sharing((3.0, 5.0), (0.6, 0.4)) == [AGREES]
    assert sharing((1.5, 5.0), (0.6, 0.4)) == [PARTLY]
    assert sharing((3.0, 5.0), (0.9, 0.4)) == [PARTLY], "as much as a centre"
    assert sharing((1.0, 1.5), (1.0, 1.0)) == [DIFFERS]


def test_of_sessions_the_claims_are_judged() -> None:
    table = table_of("tom-figure5", [point(n // 10, 1, MEMBERS, n) for n in (20, 40)])
    least, _, tom, engaged, _ = CATALOGUE["tom-figure5"].find(table)
    assert (least.verdict, tom.verdict, engaged.verdict) == (AGREES, DIFFERS, AGREES)

    def engaging(protocol: str, hosts: float) -> str:
        rows = [
            dataclasses.replace(r, mean=hosts)
            if (r.measure, r.parameters["protocol"]) == ("hosts_engaged", protocol) else r
            for r in table.rows
        ]  # fmt: skip
        return CATALOGUE["tom-figure5"].find(Results.of(rows))[3].verdict

    assert engaging("tom", 9.0) == PARTLY, "more than twice as many as receive"
    assert engaging("ring", 9.0) == PARTLY, "not all hosts"
    with style():
        assert len(CATALOGUE["tom-figure5"].draw(table).axes) == 2
