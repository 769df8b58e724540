"""`tom` site by site, on [TOM] Figure 2: who waits for what, and what a restart brings back."""

from unittest.mock import patch

import pytest

from ordercast.core.order import bodies
from ordercast.core.order.bodies import EarlyBodies
from ordercast.core.order.tom import MOST_BIDS, MOST_FETCHED, Tom
from ordercast.core.outbox import Headed, Passed
from ordercast.core.structure import Structure
from ordercast.forest.star import build_star
from ordercast.model.errors import ConfigError, PeerMistake
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, pack_payloads
from ordercast.model.options import Options
from ordercast.wire.frames import DOWN, Item, Relay, Submit
from ordercast.wire.tom import Bid, Body, BodyRequest
from support.worlds.alone import submit_to
from support.worlds.figures import FIGURE_2_GROUPS, Lost, Stage, figure_2

AGREED = Options(deliver="agreed", on_failure="wait")
REC = FIGURE_2_GROUPS["rec"]


def stage(options: Options = AGREED) -> Stage:
    return Stage(figure_2(), options)


def no_bodies_to(*sites: str) -> Lost:
    def lost(source: str, target: str, item: Item) -> bool:  # noqa: ARG001
        return type(item) is Body and target in sites

    return lost


def from_z_to_c(source: str, target: str, item: Item) -> bool:
    return type(item) is Body and (source, target) == ("z", "c")


def ordering(sites: Stage, name: str) -> Tom:
    found = sites.sites[name].ordering
    assert isinstance(found, Tom)
    return found


def test_a_relay_forwards_headers_without_waiting_for_its_body() -> None:
    sites = stage()
    sites.lost = no_bodies_to("c")
    sites.send("z", "rec")
    sites.carry()
    without = [name for name in REC if not sites.delivered[name]]
    assert without == ["c"]  # x, y, a and b are below it


def test_a_receiver_never_passes_a_head_whose_body_is_missing() -> None:
    sites = stage()
    sites.lost = from_z_to_c
    sites.send("z", "rec")
    sites.carry()
    sites.send("y", "rec")
    sites.carry()
    assert sites.delivered["a"] == [("z", "rec", 1), ("y", "rec", 1)]
    assert sites.delivered["c"] == []
    sites.wait(1000)
    assert sites.delivered["c"] == sites.delivered["a"]


def test_a_body_is_fetched_from_the_ordering_node_also_when_the_origin_is_gone() -> None:
    sites = stage()
    sites.lost = no_bodies_to("c", "x")
    sites.send("z", "rec")
    sites.carry()
    sites.lost = lambda source, target, _: "z" in (source, target)
    sites.wait(1000)
    assert sites.delivered["c"] == sites.delivered["x"] == [("z", "rec", 1)]
    assert set(sites.items(BodyRequest)) == {("c", "d"), ("x", "d")}


def test_the_ordering_node_orders_when_it_has_header_and_body_not_before() -> None:
    for kind in (Bid, Submit):
        sites = stage()
        sites.lost = lambda _s, _t, item, kind=kind: type(item) is kind  # type: ignore[misc]
        sites.send("z", "rec")
        sites.carry()
        assert not any(sites.delivered.values())
        sites.lost = lambda *_: False
        sites.wait(2000)
        assert all(sites.delivered[name] == [("z", "rec", 1)] for name in REC)


def test_the_ordering_node_places_an_origins_batches_in_order_though_bids_overtake() -> None:
    sites = stage()
    node = ordering(sites, "d")
    bodies = [Batch("z", 1, "rec", seq, 1, pack_payloads([b"p"])) for seq in (1, 2)]
    for batch in bodies:
        sites.sites["d"].link("z")
        node.receive("z", Submit(batch))
    node.control("e", Bid("z", 1, "rec", 2, "d"))
    assert node.held() == 3
    node.control("e", Bid("z", 1, "rec", 1, "d"))
    sites.drain("d")
    assert sites.delivered["d"] == [("z", "rec", 1), ("z", "rec", 2)]


def test_hops_send_the_bids_of_their_subtree_in_one_frame() -> None:
    sites = stage()
    for origin, hop in (("x", "a"), ("y", "b")):
        ordering(sites, "c").control(hop, Bid(origin, 1, "rec", 1, "d"))
    frames = [frame for _, frame in sites.drain("c").then_send]
    assert len(frames) == 1
    assert [type(item) for item in frames[0].items] == [Bid, Bid]  # type: ignore[union-attr]


def test_an_origin_outside_the_tree_sends_to_the_ordering_node_and_bids_nowhere() -> None:
    sites = stage()
    sites.send("out", "left")
    sites.carry()
    assert sites.items(Bid) == []
    assert sites.items(Submit) == [("out", "c")]
    assert [name for name in sites.delivered if sites.delivered[name]] == ["a", "b", "x", "y"]


def test_an_origin_elsewhere_in_the_tree_bids_up_and_then_down() -> None:
    sites = stage()
    sites.send("z", "left")
    sites.carry()
    assert sites.items(Bid) == [("z", "f"), ("f", "e"), ("e", "d"), ("d", "c")]


def test_headers_to_listed_sites_enter_only_subtrees_with_receivers() -> None:
    sites = stage()
    submit_to(sites.sites["r"], 0, ["x", "z"], [b"p"])
    sites.drain("r")
    sites.carry()
    ways = {("d", "c"), ("c", "a"), ("a", "x"), ("d", "e"), ("e", "f"), ("f", "z")}
    assert set(sites.items(Relay)) == ways
    assert [name for name in sites.delivered if sites.delivered[name]] == ["x", "z"]


def test_headers_carry_no_bodies() -> None:
    sites = stage()
    sites.send("z", "rec", b"a payload")
    sites.carry()
    relays = [i for _, _, f in sites.carried for i in f.items if type(i) is Relay]
    assert len(relays) == 8
    assert all(relay.placed.batch.body == b"" for relay in relays)


def early_bodies(most: int) -> EarlyBodies:
    with patch.object(bodies, "EARLY_BODIES", most):
        return EarlyBodies()


def test_what_finds_no_room_in_the_early_store_is_fetched() -> None:
    sites = stage()
    ordering(sites, "c")._bodies = early_bodies(1)
    sites.lost = lambda _s, _t, item: type(item) is Bid
    for _ in range(3):
        sites.send("z", "rec")
    sites.carry()
    assert ordering(sites, "c").early() == 1
    sites.lost = lambda *_: False
    sites.wait(3000)
    assert sites.delivered["c"] == [("z", "rec", seq) for seq in (1, 2, 3)]
    assert ("c", "d") in sites.items(BodyRequest)


def test_a_body_that_comes_late_again_is_dropped() -> None:
    sites = stage()
    sites.send("z", "rec")
    sites.carry()
    late = Batch("z", 1, "rec", 1, 1, pack_payloads([b"p"]))
    ordering(sites, "c").control("z", Body(late))
    assert ordering(sites, "c").held() == 0


def test_a_body_that_does_not_unpack_is_not_taken() -> None:
    sites = stage()
    body = Body(Batch("z", 1, "rec", 1, 2, b"\x91"))
    with pytest.raises(PeerMistake, match="a batch of 'z': body is not a list of payloads"):
        ordering(sites, "c").check_control("z", body)


LOGGED_AT_C = [("z", "rec", 1), ("z", "rec", 2), ("y", "rec", 1)]


def waiting_at_c() -> Stage:
    """c has logged one batch, lacks the body of the second, has the third, and placed its own."""
    sites = stage()
    sites.send("z", "rec")
    sites.carry()
    sites.lost = from_z_to_c
    sites.send("z", "rec")
    sites.carry()
    sites.send("y", "rec")
    sites.carry()
    sites.send("x", "left")
    sites.carry()
    assert sites.delivered["c"] == [("z", "rec", 1)]
    assert sites.delivered["a"] == [*LOGGED_AT_C, ("x", "left", 1)]
    return sites


@pytest.mark.parametrize("checkpoint", [False, True])
def test_heads_survive_a_restart(checkpoint: bool) -> None:
    sites = waiting_at_c()
    numbers = {p: sites.sites["c"].link(p).outgoing[DOWN].last for p in "ab"}
    again = sites.restart("c", checkpoint=checkpoint)
    assert {p: again.link(p).outgoing[DOWN].last for p in "ab"} == numbers
    assert again.link("d").incoming[DOWN].got == 3
    assert ordering(sites, "c").held() == 3
    sites.wait(1500)
    assert sites.delivered["c"] == [LOGGED_AT_C[0], *LOGGED_AT_C]  # again what is not confirmed
    before = sites.delivered["a"][:]
    sites.send("y", "left")
    sites.wait(1500)
    assert sites.delivered["a"] == [*before, ("y", "left", 1)]
    assert all(site.quiet() for site in sites.sites.values())


def test_heads_survive_a_restart_that_left_a_part_of_what_completed_them() -> None:
    """The body came, and the store has that the second passed, but not the third nor its own."""
    sites = waiting_at_c()
    assert sum(isinstance(record, Headed) for record in sites.records["c"]) == 3
    sites.wait(1500)
    kinds = [type(record) for record in sites.records["c"]]
    assert kinds == [Passed, Headed, Headed, Headed, Passed, Passed, Passed]
    sites.delivered["c"].clear()
    sites.restart("c", records=5)
    sites.wait(1500)
    assert sites.sites["c"].gate.logged == 3
    assert [type(record) for record in sites.records["c"]] == kinds
    assert all(site.quiet() for site in sites.sites.values())


def test_fifo_across_receiver_sets_is_given_by_causal_order_only() -> None:
    for causal in (False, True):
        options = Options(deliver="agreed", on_failure="wait", causal=causal)
        sites = stage(options)
        sites.lost = lambda _s, _t, item: type(item) is Bid and item.group == "rec"
        sites.send("x", "rec")
        sites.send("x", "left")
        sites.carry()
        sites.lost = lambda *_: False
        sites.wait(3000)
        first, second = sites.delivered["a"]
        assert (first, second)[causal] == ("x", "left", 1)
        assert (second, first)[causal] == ("x", "rec", 1)


def test_a_forest_whose_primaries_are_not_prefixes_is_refused() -> None:
    table = GroupTable.of({"big": ["a", "b"], "alone": ["b"], "more": ["a", "c"]})
    structure = Structure(1, table, build_star(table))
    with pytest.raises(ConfigError, match="group 'alone' is ordered by 'a', not by 'b'"):
        Stage(structure, AGREED)


def test_a_lost_bid_is_sent_again_also_while_other_messages_of_the_origin_are_placed() -> None:
    sites = stage()
    sites.lost = lambda _s, _t, item: type(item) is Bid and item.group == "rec"
    sites.send("x", "rec")
    sites.carry()
    sites.lost = lambda *_: False
    for _ in range(20):
        sites.send("x", "left")
        sites.wait(100)
    assert ("x", "rec", 1) in sites.delivered["d"]
    assert sites.sites["x"].link("c").peer_boot == 1  # nobody restarted: the bid alone was lost


def test_a_hop_sends_bids_of_others_again_when_the_next_one_has_started_anew() -> None:
    sites = stage()
    sites.restart("d")
    sites.frames.clear()  # the hop does not hear of it
    sites.send("x", "rec")
    sites.carry()
    assert sites.items(Bid) == [("x", "a"), ("a", "c"), ("c", "d"), ("c", "d")]
    assert sites.delivered["d"] == [("x", "rec", 1)]


def test_many_missing_bodies_are_fetched_one_round_after_the_other_without_waiting() -> None:
    sites = stage()
    ordering(sites, "c")._bodies = early_bodies(0)
    for _ in range(3 * MOST_FETCHED):
        sites.send("z", "rec")
    sites.carry()
    assert sites.delivered["c"] == []
    sites.wait(260)
    assert len(sites.delivered["c"]) == 3 * MOST_FETCHED
    assert sites.items(BodyRequest) == [("c", "d")] * 3


def test_bids_without_bodies_are_bounded() -> None:
    sites = stage()
    for seq in range(1, MOST_BIDS + 100):
        ordering(sites, "d").control("e", Bid("z", 1, "rec", seq, "d"))
    assert ordering(sites, "d").held() == MOST_BIDS
