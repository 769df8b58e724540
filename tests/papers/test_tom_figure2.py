"""[TOM] §3.2: the worked example of Figure 2, run; and where its two rules contradict each other.

The figure itself is not in our text: `support.worlds.figures` says what is assumed.
"""

import itertools

from ordercast.forest.labels import Labels, common_prefix
from ordercast.model.options import Options
from ordercast.studies.tom.costs import FormulaTerms, tom, tom_printed
from ordercast.wire.frames import Relay, Submit
from ordercast.wire.tom import Bid, Body
from support.worlds.figures import FIGURE_2_GROUPS, FIGURE_2_PARENT, Stage, figure_2

REC = FIGURE_2_GROUPS["rec"]
FORWARDING = 6  # hops below d, and d itself, that have receivers below them
LABELS = Labels.of({s: p for s, p in FIGURE_2_PARENT.items() if s != "out"})


def test_the_root_has_one_symbol_its_child_two_and_the_sources_five() -> None:
    lengths = {site: len(LABELS.label[site]) for site in "rdxyz"}
    assert lengths == {"r": 1, "d": 2, "x": 5, "y": 5, "z": 5}
    for site, above in FIGURE_2_PARENT.items():
        if above is not None:
            assert LABELS.label[site][:-1] == LABELS.label[above]


def test_x_and_y_meet_at_c_and_the_ordering_node_of_rec_is_d() -> None:
    assert LABELS.site[common_prefix([LABELS.label[s] for s in "xy"])] == "c"
    assert LABELS.ordering_node(REC) == "d"


def test_the_rule_of_the_sources_gives_d_too_but_only_while_z_sends() -> None:
    """TOM-2: with x and y pending only, the other rule moves the ordering node of Rec to c."""
    assert LABELS.ordering_node("xyz") == LABELS.ordering_node(REC) == "d"
    assert LABELS.ordering_node("xy") == "c" != LABELS.ordering_node(REC)


def run() -> Stage:
    stage = Stage(figure_2(), Options(deliver="agreed"))
    for origin in "xyz":
        stage.send(origin, "rec")
    stage.carry()
    return stage


def test_the_three_headers_take_the_ways_of_the_figure() -> None:
    ways = {"x": "acd", "y": "bcd", "z": "fed"}
    for origin, way in ways.items():
        assert LABELS.path(origin, "d") == list(way)
    hops = {(o, way[0]) for o, way in ways.items()} | {
        pair for way in ways.values() for pair in itertools.pairwise(way)
    }
    stage = run()
    assert set(stage.items(Bid)) == hops
    assert len(stage.items(Bid)) == 9  # each of three headers takes three hops


def test_all_receivers_deliver_the_three_messages_in_the_order_of_d() -> None:
    stage = run()
    order = stage.delivered["d"]
    assert {origin for origin, _, _ in order} == set("xyz")
    assert all(stage.delivered[site] == order for site in REC)
    assert not stage.delivered["r"]
    assert not stage.delivered["out"]


def test_messages_to_a_group_in_a_subbranch_affect_no_other_segment_of_the_tree() -> None:
    stage = Stage(figure_2(), Options(deliver="agreed"))
    stage.send("x", "left")
    stage.carry()
    heard = {site for pair in stage.items(Bid) + stage.items(Relay) for site in pair}
    assert heard == {"x", "y", "a", "b", "c"}


def test_the_printed_cost_leaves_out_the_way_down() -> None:
    """TOM-3, TOM-5: s(2 + p) with one final multicast; ours is one multicast of the data, the path
    of the header, and one from each hop that forwards it down, over eight edges."""
    stage = run()
    forwarding = {sender for sender, _ in stage.items(Relay)}
    setting = FormulaTerms(3, len(REC), 10, path=3, forwarding=len(forwarding))
    assert len(forwarding) == FORWARDING
    assert tom_printed(setting) == 15
    assert tom(setting) == 3 * (1 + 3 + FORWARDING)
    spread = len(stage.items(Body)) + len(stage.items(Submit))
    assert spread == 3 * (len(REC) - 1)
    assert len(stage.items(Bid)) == 3 * 3
    assert len(stage.items(Relay)) == 3 * 8
