"""The pure swap objects over random trees: one chain, origins in order, few hops."""

from random import Random

import pytest

from support.worlds.swap_trees import (
    OBJECTS,
    Network,
    Parents,
    distance,
    hybrid_of,
    name,
    random_parents,
    require_order,
)

CASES = 150
SWAPS = ("arrow", "combining", "hybrid", "hybrid:1", "hybrid:3", "hybrid:99")


def busy(protocol: str, rng: Random, parents: Parents) -> tuple[Network, dict[str, int]]:
    """Requests at random sites, while others are on their way."""
    network, issued = Network.of(protocol, parents), dict.fromkeys(parents, 0)
    for _ in range(rng.randint(1, 25)):
        origin = rng.choice(sorted(parents))
        issued[origin] += 1
        network.issue(origin, issued[origin])
        for _ in range(rng.randrange(4)):
            ready = network.under_way()
            if ready:
                network.deliver(*rng.choice(ready))
            elif rng.random() < 0.5:
                network.turn(rng.choice(sorted(parents)))
    network.settle(rng)
    return network, issued


@pytest.mark.parametrize("protocol", OBJECTS)
def test_concurrent_requests_make_one_chain_and_origins_keep_their_order(protocol: str) -> None:
    for seed in range(CASES):
        rng = Random(seed)
        network, issued = busy(protocol, rng, random_parents(rng, rng.randint(1, 9)))
        require_order(network.chain(), issued)


@pytest.mark.parametrize("protocol", ["arrow", "arrow_counting"])
def test_sequential_requests_cost_the_distance_to_the_last_issuer(protocol: str) -> None:
    """[SWAP] §4, §6.1: with one sender there is no traffic; swap and counting are the same."""
    for seed in range(CASES):
        rng = Random(seed)
        parents = random_parents(rng, rng.randint(2, 12))
        network, last = Network.of(protocol, parents), "s0"
        for seq in range(1, 9):
            origin = rng.choice(sorted(parents))
            network.issue(origin, seq)
            network.settle(rng)
            assert network.hops[name(origin, seq)] == distance(parents, last, origin)
            assert network.where[name(origin, seq)] == last
            last = origin


def test_a_request_crosses_no_more_links_than_the_diameter_of_the_tree() -> None:
    for seed in range(CASES):
        rng = Random(seed)
        parents = random_parents(rng, rng.randint(2, 9))
        diameter = max(distance(parents, a, b) for a in parents for b in parents)
        network, _ = busy("arrow", rng, parents)
        assert max(network.hops.values(), default=0) <= diameter


def test_a_tree_edge_holds_one_arrow_or_one_request() -> None:
    """Why origins keep their order although requests are deflected (errata SWAP-7)."""
    for seed in range(CASES):
        rng = Random(seed)
        parents = random_parents(rng, rng.randint(2, 7))
        network = Network.of("arrow", parents)
        for number in range(30):
            ready = network.under_way()
            if not ready or rng.random() < 0.3:
                network.issue(rng.choice(sorted(parents)), number + 1)
            else:
                network.deliver(*rng.choice(ready))
            for site, above in parents.items():
                if above is not None:
                    ends = ((site, above), (above, site))
                    arrows = sum(network.objects[a].link == b for a, b in ends)
                    assert arrows + sum(len(network.links[end]) for end in ends) == 1


@pytest.mark.parametrize("protocol", SWAPS)
def test_a_lone_request_goes_straight_to_where_the_value_is(protocol: str) -> None:
    """Where nobody else sends: to the root (`combining`), to the last sender (`arrow`)."""
    parents: Parents = {"r": None, "a": "r", "b": "a", "c": "b"}
    network = Network.of(protocol, parents)
    for seq in (1, 2):
        network.issue("c", seq)
        network.settle(Random(seq))
    again = {"arrow": 0, "combining": 3, "hybrid": 2}  # the core of `hybrid` is r and a
    again |= {"hybrid:1": 3, "hybrid:3": 1, "hybrid:99": 0}
    assert network.hops[name("c", 1)] == 3
    assert network.hops[name("c", 2)] == again[protocol]


def test_sites_with_different_cores_break_the_chain() -> None:
    """Why the size of a core is part of the protocol's name: all sites of an epoch have it."""
    broken = 0
    for seed in range(30):
        rng = Random(seed)
        parents = random_parents(rng, 6)
        sizes = {site: rng.choice((1, 3)) for site in parents}
        network = Network({s: hybrid_of(sizes[s])(s, parents) for s in parents})
        for site in sorted(parents):
            network.issue(site)
        for _ in range(200):  # requests may go to and fro for ever
            ready = network.under_way()
            if ready:
                network.deliver(*rng.choice(ready))
            else:
                network.turn(rng.choice(sorted(parents)))
        try:
            require_order(network.chain(), dict.fromkeys(parents, 1))
        except (AssertionError, KeyError):
            broken += 1
    assert broken > 10, broken


def test_counting_waits_for_all_before_and_swap_for_none() -> None:
    """[SWAP] §3: three in a row at one site; the first is on its way, the others are found."""
    parents: Parents = {"r": None, "a": "r"}
    for protocol, known in (("arrow", 2), ("arrow_counting", 0)):
        network = Network.of(protocol, parents)
        for seq in (1, 2, 3):
            network.issue("a", seq)
        assert len(network.found) == known
        network.settle(Random(1))
        assert len(network.found) == 3


def test_that_its_predecessor_is_known_is_not_yet_a_place() -> None:
    """w knows that m2 follows v's m1, which is under way; then u sends, and comes before both."""
    network = Network.of("arrow", {"u": None, "x": "u", "v": "x", "w": "x"})
    network.issue("v")
    network.deliver("v", "x")
    network.issue("w")
    network.deliver("w", "x")
    network.deliver("x", "v")
    assert network.found == {name("w"): name("v")}
    network.issue("u")
    network.settle(Random(1))
    assert network.chain() == [name("u"), name("v"), name("w")]
