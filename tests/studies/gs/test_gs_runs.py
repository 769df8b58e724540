"""The experiments behind [GS]'s graphs and tables, against the simulator and by hand."""

from collections.abc import Mapping, Sequence

import pytest

from ordercast.core.structure import Structure
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.options import MILLISECOND
from ordercast.pipeline.sweeps.tables import Drawing, draw_table
from ordercast.plan.advice import advise
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.sim.networks import PointToPointSpec
from ordercast.studies.gs.forests import OTHER_LATENCIES, forest_costs, last_at, set_up_costs
from ordercast.studies.gs.frames import BROADCAST, P2P, MessageWay, multicasts, table_costs
from ordercast.studies.gs.heuristics import at_random, depth_by
from ordercast.studies.gs.load import under_load_costs

# c is in all groups: greedy makes a star at c. From outside to c, then to the others by name.
CHAIN = GroupTable.of(
    {"x": ["a", "b", "c"], "y": ["c", "d"]}, sites=["a", "b", "c", "d", "outside"]
)


def config(sites: int, groups: int, size: int, **more: object) -> dict[str, object]:
    return {"sites": sites, "groups": groups, "size": size, **more}


def structure(table: GroupTable, builder: str) -> Structure:
    return Structure(1, table, advise(table, builder).forest)


def multicast(built: Structure, group: Group, protocol: str, network: str) -> MessageWay:
    """One message to one group, while nothing else is under way."""
    (way,) = multicasts(built, [group], protocol, network)
    return way


@pytest.mark.parametrize("seed", range(6))
def test_the_models_delays_are_those_of_the_simulated_protocols(seed: int) -> None:
    """First, mean and last member, over all groups: no difference to the nanosecond."""
    where = config(12, 6, 4)
    drawn = draw_table(Drawing(12, 6, 4), seed)
    table = GroupTable((*drawn.sites, "outside"), drawn.groups)
    modelled = forest_costs(where, seed, "").measures
    built = structure(table, "greedy")
    found = [multicast(built, group, "propagation", P2P) for group in table.groups]
    for name, pick in (("first", min), ("last", max)):
        mean = sum(pick(each.delays_ms) for each in found) / len(found)
        assert modelled[f"propagation/delay_{name}_ms"] == pytest.approx(mean, abs=1e-9)
    means = [sum(each.delays_ms) / len(each.delays_ms) for each in found]
    expected = sum(means) / len(means)
    assert modelled["propagation/delay_mean_ms"] == pytest.approx(expected, abs=1e-9)


def test_delays_at_other_latencies_are_those_of_the_simulated_protocols() -> None:
    """The last member's, over all groups, at L = P and at L = 20 P."""
    drawn = draw_table(Drawing(30, 8, 5), 2)
    table = GroupTable((*drawn.sites, "outside"), drawn.groups)
    modelled = forest_costs(config(30, 8, 5), 2, "").measures
    for protocol in ("propagation", "two_phase"):
        for l_ms in OTHER_LATENCIES:
            sendings = [
                PlannedSend(1_000 * MILLISECOND * place, "outside", group)
                for place, group in enumerate(table.groups)
            ]
            network = PointToPointSpec(MILLISECOND, round(l_ms * MILLISECOND))
            found = overhear(structure(table, "greedy"), protocol, sendings, network)
            last = [max(found.delays(message)) / MILLISECOND for message in found.sent]
            told = modelled[f"{protocol}/{last_at(l_ms)}"]
            assert told == pytest.approx(sum(last) / len(last), abs=1e-9), (protocol, l_ms)


def most_frequent(candidates: Sequence[Site], open_groups: Mapping[Site, int]) -> Site:
    """The paper's own choice, by name among equals."""
    return max(candidates, key=lambda site: open_groups[site])


@pytest.mark.parametrize("sizes", [(12, 6, 4), (60, 30, 5), (40, 20, 10)])
def test_by_the_papers_choice_the_depths_are_those_of_greedy(sizes: tuple[int, int, int]) -> None:
    deeper = []
    for seed in range(8):
        table = draw_table(Drawing(*sizes), seed)
        greedy = forest_costs(config(*sizes), seed, "").measures["propagation/depth_mean"]
        assert depth_by(most_frequent, table) == pytest.approx(greedy, abs=1e-9)
        deeper.append(depth_by(at_random(seed), table) - greedy)
    assert sum(deeper) > 0


def test_any_site_of_a_chain_may_be_the_root() -> None:
    """From an end it is as deep as the chain has groups; from the middle each is one deep."""
    chain = GroupTable.of({"x": ["a", "b"], "y": ["b", "c"], "z": ["c", "d"]})
    depths = {depth_by(at_random(seed), chain) for seed in range(40)}
    assert depths == {1.0}
    wide = GroupTable.of({"x": ["a", "b", "c"], "y": ["a", "d"], "z": ["b", "d"]})
    assert len({depth_by(at_random(seed), wide) for seed in range(40)}) > 1


@pytest.mark.parametrize("network", [P2P, BROADCAST])
@pytest.mark.parametrize("protocol", ["propagation", "two_phase", "centralized"])
def test_messages_one_after_the_other_are_as_each_alone(protocol: str, network: str) -> None:
    drawn = draw_table(Drawing(12, 6, 4), 3)
    table = GroupTable((*drawn.sites, "outside"), drawn.groups)
    built = structure(table, "star" if protocol == "centralized" else "greedy")
    alone = [multicast(built, group, protocol, network) for group in table.groups]
    assert multicasts(built, list(table.groups), protocol, network) == alone


@pytest.mark.parametrize("seed", range(4))
def test_measured_messages_are_table_1s_and_delays_keep_its_bound(seed: int) -> None:
    found = table_costs(config(12, 6, 4, network=P2P), seed, "").measures
    assert found["propagation/messages"] == found["propagation/messages_formula"]
    assert found["propagation/delay_ms"] <= found["propagation/delay_formula_ms"]
    assert found["centralized/messages"] >= found["centralized/messages_formula"] == 4
    assert found["two_phase/messages"] == found["two_phase/messages_formula"] == 12
    assert found["two_phase/delay_ms"] == found["two_phase/delay_formula_ms"] == 3 * 5 + 9 * 1


@pytest.mark.parametrize("seed", range(4))
def test_on_a_broadcast_network_delay_is_transmissions_times_t(seed: int) -> None:
    found = table_costs(config(12, 6, 4, network=BROADCAST), seed, "").measures
    for protocol in ("propagation", "centralized", "two_phase"):
        assert found[f"{protocol}/delay_ms"] == pytest.approx(2 * found[f"{protocol}/messages"])
    assert found["centralized/messages"] == 2
    assert found["two_phase/messages"] == 6
    assert found["propagation/messages"] >= found["propagation/messages_formula"]


def test_one_message_down_a_star_by_hand() -> None:
    """To c after P + L; c sends to a, then to b: P + L and 2P + L later."""
    star = structure(CHAIN, "greedy")
    found = multicast(star, "x", "propagation", P2P)
    assert (found.transmissions, sorted(found.delays_ms)) == (3, [6.0, 12.0, 13.0])
    on_air = multicast(star, "x", "propagation", BROADCAST)
    assert (on_air.transmissions, sorted(on_air.delays_ms)) == (2, [2.0, 4.0, 4.0])


def test_loads_are_those_of_errata_gs_10() -> None:
    """All 3 sites in both groups: the primary gets 2 and sends 4; two-phase 3 per membership."""
    found = forest_costs(config(3, 2, 3), 1, "").measures
    assert found["propagation/load_max"] == 6
    assert found["centralized/load_max"] == found["centralized/load_star"] == 6
    assert found["two_phase/load_max"] == 6
    assert found["two_phase/load_source"] == 9
    assert found["two_phase/load_one_source"] == 18
    assert found["propagation/depth_mean"] == 1
    assert found["propagation/extra_mean"] == 0
    assert found["propagation/member_depth_mean"] == pytest.approx(2 / 3)


def test_one_centre_for_separate_domains_carries_them_all() -> None:
    """40 groups of 5 among 1,000 sites hardly meet; one centre sends to nearly every member."""
    found = forest_costs(config(1000, 40, 5), 1, "").measures
    assert 220 < found["centralized/load_max"] <= 240
    assert found["centralized/load_star"] < 60


def test_set_up_takes_a_message_per_site_and_pays_by_what_two_phase_sends_more() -> None:
    """All 3 sites in both groups: 3 messages; a multicast saves 9 - 3."""
    found = set_up_costs(config(3, 2, 3), 1, "").measures
    assert found["install_messages"] == 3
    assert found["saved_messages"] == 6
    assert found["break_even_messages"] == 0.5
    assert found["install_ms"] == 6 + 7  # the manager to the root, the root to its second child
    assert found["saved_ms"] == (15 + 7) - 13
    assert found["pays_in_delay"] == 1
    assert found["break_even_delay"] == pytest.approx((13 + found["compute_ms"]) / 9)


def test_under_load_the_centre_falls_behind_and_every_frame_counts() -> None:
    """8 groups of 10 among 40 sites: a centre that needs 1 ms a frame sends 10 per message."""
    idle, busy = (
        under_load_costs(config(40, 8, 10, rate=rate), 1, "").measures for rate in (20, 160)
    )
    assert idle["centralized/delay_mean_ms"] < idle["two_phase/delay_mean_ms"]
    assert busy["centralized/delay_mean_ms"] > 5 * idle["centralized/delay_mean_ms"]
    assert busy["centralized/delay_mean_ms"] > 5 * busy["two_phase/delay_mean_ms"]
    assert busy["centralized/carried"] < 110 < 140 < busy["two_phase/carried"]
    for protocol in ("propagation", "two_phase", "centralized"):
        assert idle[f"{protocol}/frames_control"] > busy[f"{protocol}/frames_control"] > 1
        assert idle[f"{protocol}/frames_data"] >= 9


def test_in_a_broadcast_network_the_medium_is_full_before_the_centre() -> None:
    """Two transmissions a message, both of them the centre's; two-phase has 12 of 2 ms."""
    found = under_load_costs(config(40, 8, 10, rate=80), 1, "").measures
    assert found["centralized/broadcast_busiest"] == 1
    assert found["propagation/broadcast_busiest"] < 1
    assert 3 < found["centralized/broadcast_delay_ms"] < found["propagation/broadcast_delay_ms"]
    assert found["two_phase/broadcast_delay_ms"] > 100
    beyond = under_load_costs(config(40, 8, 3, rate=640), 1, "").measures
    assert not [name for name in beyond if "broadcast" in name]
