"""[TOM] on a tree that is given, rings and losses: the network by hand, runs, and verdicts."""

from typing import Any

import pytest

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.pipeline.sweeps.tables import UNIFORM, site_names
from ordercast.studies.reproduction import AGREES, DIFFERS, PARTLY
from ordercast.studies.tom.given_tree import BUILDERS, RoutedTree, given_costs, tree_of
from ordercast.studies.tom.processing import HOST_PROTOCOLS, host_costs
from ordercast.studies.tom.source_findings import several_sources_findings
from ordercast.studies.tom.tree_findings import given_findings, rings_findings


def test_names_follow_the_tree_in_preorder() -> None:
    names = tuple(site_names(9))
    tree = tree_of(names)
    assert tree == {
        names[1]: names[0], names[2]: names[1], names[3]: names[1], names[4]: names[1],
        names[5]: names[0], names[6]: names[0], names[7]: names[0], names[8]: names[0],
    }  # fmt: skip
    network = RoutedTree(tree)
    assert network.links(names[2], names[3]) == [(names[2], names[1]), (names[3], names[1])]
    assert len(network.links(names[2], names[8])) == 3
    assert network.links(names[5], names[5]) == []


def test_a_hop_of_tom_is_a_link_and_one_of_mp_several() -> None:
    found = given_costs({"sites": 31, "groups": 8, "size": 5, "where": UNIFORM}, 2, "").measures
    assert found["tom/stretch"] < 1.2 < 2 < found["propagation/stretch"]
    assert found["tom/delay_last_hops"] < found["propagation/delay_last_hops"]
    for protocol in BUILDERS:
        assert found[f"{protocol}/links"] >= found[f"{protocol}/transmissions"]


def test_a_host_sends_again_what_is_lost() -> None:
    calm = host_costs({"sites": 5, "rate": 40, "loss": 0.0}, 1, "").measures
    lossy = host_costs({"sites": 5, "rate": 40, "loss": 0.1}, 1, "").measures
    for protocol in HOST_PROTOCOLS:
        assert lossy[f"{protocol}/delay_mean_ms"] > calm[f"{protocol}/delay_mean_ms"]
        assert calm[f"{protocol}/busiest"] > calm[f"{protocol}/host_mean"]
        # Every frame has two ends.
        both = 5 * calm[f"{protocol}/host_mean"]
        assert both == pytest.approx(2 * calm[f"{protocol}/frames"])


def row(measure: str, mean: float, **parameters: Any) -> ResultRow:
    return ResultRow(parameters, measure, mean, 0.0, 5)


def test_the_verdicts_on_a_given_tree_can_change() -> None:
    def verdicts(mp: float, tom: float) -> list[str]:
        rows = [
            row(measure, tom if protocol == "tom" else mp, sites=31, where=where, protocol=protocol)
            for measure in ("stretch", "delay_last_hops", "links", "transmissions", "direct_hops")
            for protocol in BUILDERS
            for where in (UNIFORM, "local")
        ]
        return [finding.verdict for finding in given_findings(Results.of(rows))]

    assert verdicts(mp=3.0, tom=1.0) == [AGREES] * 10
    assert verdicts(mp=1.0, tom=2.0) == [DIFFERS] * 10


def rings(few: dict[str, float], many: dict[str, float]) -> list[str]:
    """Delays of 8 hosts at 10 messages a second, and of 32 at both rates."""
    rows = []
    for sites in (8, 32):
        for rate in (10, 160):
            for protocol in HOST_PROTOCOLS:
                usual = few if sites == 8 else many
                delay = usual.get(protocol, 20.0) * (1 if rate == 10 else 2)
                frames = 300.0 if rate == 10 else {"ring": 50.0}.get(protocol, 90.0)
                at = {"sites": sites, "rate": rate, "protocol": protocol}
                rows += [row("delay_mean_ms", delay, **at), row("frames", frames, **at)]
    return [finding.verdict for finding in rings_findings(Results.of(rows))]


def test_the_verdicts_on_rings_can_change() -> None:
    few = {"centralized": 10.0, "ring": 12.0}
    assert rings(few, {"centralized": 90.0, "ring": 80.0, "two_phase": 85.0})[0] == AGREES
    assert rings(few, {"ring": 95.0, "two_phase": 96.0, "centralized": 97.0})[2] == AGREES
    found = rings(few, {"centralized": 15.0, "ring": 90.0})
    assert found == [DIFFERS, AGREES, PARTLY]
    assert rings(few, {"centralized": 90.0, "ring": 13.0})[1] == PARTLY  # others grow more
    late = {"centralized": 90.0, "symmetric": 91.0, "ring": 80.0}
    assert rings(few, late)[2] == PARTLY, "symmetric ordering counts as well"


def test_sources_at_once_wait_less_for_symmetric_ordering_than_one_alone() -> None:
    """Their data answers each other's questions; a centre has all of it to send."""
    found = host_costs({"sites": 8, "rate": 160, "loss": 0.0}, 1, "").measures
    assert found["symmetric/at_once_ms"] < found["symmetric/alone_ms"]
    assert found["centralized/at_once_ms"] > 2 * found["centralized/alone_ms"]
    for protocol in HOST_PROTOCOLS:
        assert 0 < found[f"{protocol}/carried"] < 200


def sources(carried: dict[str, float], at_once: dict[str, float]) -> list[str]:
    """What 32 hosts carry of the 100 messages that 8 carry; delays of both."""
    rows = []
    for sites in (8, 32):
        for protocol in HOST_PROTOCOLS:
            at = {"sites": sites, "rate": 160, "protocol": protocol}
            least = 100.0 if sites == 8 else carried.get(protocol, 60.0)
            rows += [row("carried", least, **at), row("alone_ms", 9.0, **at),
                     row("at_once_ms", at_once.get(protocol, 90.0) * sites, **at)]  # fmt: skip
    found = several_sources_findings(Results.of(rows))
    assert found[0].measured.startswith("All of 8, 32 hosts send, 160 messages a second")
    return [finding.verdict for finding in found]


def test_the_verdicts_on_several_sources_can_change() -> None:
    assert sources({"tom": 90.0}, {"symmetric": 50.0}) == [AGREES, AGREES]
    assert sources({"tom": 90.0, "ring": 95.0}, {"symmetric": 95.0}) == [PARTLY, DIFFERS]
    assert sources({"tom": 60.0}, {"symmetric": 50.0, "tom": 40.0}) == [DIFFERS, PARTLY]
