"""Rounds on the tree network: what our reading of the cost model implies, and the truth kept."""

import itertools
from unittest.mock import patch

import pytest

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.sim.rounds.tracking import Setting, Tracked, Unfinished, Unsafe, paths_of, track
from ordercast.sim.rounds.tree import TreeShape, near_complete, parse_random_tree, parse_tree
from ordercast.sim.rounds.vectors import Received, Vectors, numpy
from support.mutants.stability import MUTANTS, parts_of

SIZES = ("b=2,p=5,z=1", "b=3,p=5,z=1", "b=4,p=4,z=4")


def tracked(protocol: str, tree: str, seed: int = 1) -> Tracked:
    return track(Setting(protocol, parse_tree(tree)), seed)


@pytest.mark.parametrize("tree", SIZES)
def test_what_the_cost_model_implies(tree: str) -> None:
    """STAB-4: CoordP and FullDist take the same time within a few percent, Train the longest;
    S_CoordP is quicker than S_Train; links of the last three never hold two messages."""
    found = {protocol: tracked(protocol, tree) for protocol in PROTOCOLS}
    rtt = {protocol: each.rtt_ns for protocol, each in found.items()}
    assert rtt["full_dist"] == pytest.approx(rtt["coordp"], rel=0.03)
    assert rtt["train"] > 2 * max(rtt["coordp"], rtt["full_dist"])
    assert rtt["s_coordp"] < rtt["s_train"] < rtt["coordp"]
    for protocol in ("train", "s_coordp", "s_train"):
        assert found[protocol].longest_link == 1


@pytest.mark.parametrize("b", [2, 3, 4])
def test_a_processors_queue_is_one_from_each_child_in_s_coordp(b: int) -> None:
    """STAB-8."""
    assert tracked("s_coordp", f"b={b},p=4").longest_cpu == b
    assert tracked("s_train", f"b={b},p=4").longest_cpu == 1


def test_s_coordp_by_hand() -> None:
    """Three members: the root hears START, then the ACKs of both, then its own INFO."""
    found = tracked("s_coordp", "n=3,b=2")
    send, wire, receive = 338_000 + 235 * 32 // 2, 80 * 32, 11 * (338_000 + 235 * 32 // 2) // 10
    size = 32 + 12
    a_send, a_wire = 338_000 + 235 * size // 2, 80 * size
    a_receive = 11 * a_send // 10
    acked = send + wire + receive + a_send + a_wire + 2 * a_receive
    assert found.rtt_ns == acked + a_send + a_receive - (send + receive)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_round(protocol: str) -> None:
    setting = Setting(protocol, parse_random_tree("n=60,b=3,p=3"), "shuffled", "wan")
    assert track(setting, 5) == track(setting, 5)
    assert track(setting, 5).rtt_ns != track(setting, 6).rtt_ns


@pytest.mark.parametrize(
    ("protocol", "placement", "links"),
    list(itertools.product(PROTOCOLS, ("same", "shuffled"), ("lan", "wan"))),
)
def test_every_protocol_finishes_wherever_members_sit(
    protocol: str, placement: str, links: str
) -> None:
    """Also on random trees; a round that tells anyone other than the truth would raise."""
    for seed in range(3):
        shape = parse_random_tree("n=40,b=2,p=4")
        found = track(Setting(protocol, shape, placement, links), seed)
        assert found.members == 40
        assert found.rtt_ns > 0


def test_a_shuffled_tree_keeps_counts_of_processed_messages_and_needs_more_hops() -> None:
    shape = parse_tree("b=3,p=3")
    same = track(Setting("s_coordp", shape), 1)
    shuffled = track(Setting("s_coordp", shape, "shuffled"), 1)
    assert shuffled.processed == same.processed
    assert shuffled.rounds == same.rounds
    assert shuffled.on_hops["start"] == same.on_hops["start"]
    assert shuffled.on_hops["ack"] > same.on_hops["ack"]


def test_a_shuffled_layout_is_the_same_tree_with_other_names() -> None:
    tree = near_complete(2, 3, 2)
    layout = paths_of(tree, "shuffled", seed=4)
    at = dict(zip(tree.circle, layout.ring, strict=True))
    assert sorted(layout.ring) == list(range(tree.count))
    assert list(layout.ring) != list(tree.circle)
    for node, below in enumerate(tree.children):
        assert layout.children[at[node]] == tuple(at[child] for child in below)


def test_wide_area_links_add_their_distance() -> None:
    shape = parse_tree("b=2,p=2")
    near = track(Setting("coordp", shape), 1).rtt_ns
    far = track(Setting("coordp", shape, links="wan"), 1).rtt_ns
    assert far - near > 2 * 37_000_000  # to Europe and back


@pytest.mark.parametrize("name", MUTANTS)
def test_a_round_without_faults_catches_what_is_wrong_even_then(name: str) -> None:
    """Those that only mistake one round for another need more than one round to be seen."""
    protocol, mutant = MUTANTS[name]
    harmless = {"any_answer_counts", "any_train_is_this_one", "old_rows_count"}
    shape = parse_tree("b=2,p=3")
    caught = 0
    for seed in range(12):
        try:
            track(Setting(protocol, shape), seed, parts_of(mutant))
        except (Unsafe, Unfinished):
            caught += 1
    assert (caught > 0) == (name not in harmless)


def test_full_dist_is_refused_for_so_many_that_it_would_take_for_ever() -> None:
    with pytest.raises(ConfigError, match=r"full_dist: 20,000 members would send 400,000,000 mess"):
        track(Setting("full_dist", parse_tree("n=20000,b=4,p=7")), 1)


@pytest.mark.parametrize("given", [("coordq", "same", "lan"), ("coordp", "some", "lan")])
def test_an_unknown_name_is_refused(given: tuple[str, str, str]) -> None:
    protocol, placement, links = given
    with pytest.raises(ConfigError, match=r"there is no"):
        track(Setting(protocol, TreeShape(3, 2, 1), placement, links), 1)


def test_twenty_thousand_members_take_a_few_seconds() -> None:
    found = track(Setting("s_coordp", parse_tree("n=20000,b=4,p=7")), 1)
    assert (found.members, found.height, found.rounds) == (20_000, 7, 9)
    assert found.messages_on_hops == 3 * 19_999


# --- vectors --------------------------------------------------------------------------------------


def test_a_vector_that_was_handed_out_does_not_change() -> None:
    received = Received(numpy().zeros(3, dtype="uint32"))
    before = received.now()
    received.set(1, 5)
    again = received.seen()
    received.set(1, 6)
    assert before.tolist() == [0, 0, 0]
    assert again is received.seen()  # nobody has kept it: it is written in place
    assert received.now().tolist() == [0, 6, 0]
    assert received.get(1) == 6


def test_the_least_of_one_vector_many_times_is_itself() -> None:
    vector = numpy().arange(4, dtype="uint32")
    assert Vectors().least([vector, vector, vector]) is vector
    assert Vectors().least([vector, 3 - vector]).tolist() == [0, 1, 1, 0]
    assert Vectors().size(vector) == 16


def test_without_numpy_one_line_says_what_brings_it() -> None:
    with (
        patch.dict("sys.modules", {"numpy": None}),
        pytest.raises(ConfigError, match=r"which the extra 'stability' brings"),
    ):
        Vectors()
