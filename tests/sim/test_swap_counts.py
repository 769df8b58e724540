"""What a message costs in the swap family, by running it, and what the formulas say.

One alone: its request goes to the root, which is the first sink, over as many links as its origin
is deep; then a header to every other site of the domain (N - 1), with the body for members.
Counting takes the number back: one frame to the issuer (`arrow_counting`), or the whole way down
(`combining_counting`). From outside: an offer to the root, and its answer.
"""

import random

import pytest

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import EPOCH
from support.worlds.counting import OUTSIDE, Counting, L, P, run_one, seeded_structure

SWAPS = ("arrow", "combining", "hybrid")


def expected(protocol: str, depth: int, others: int, *, outside: bool) -> dict[str, int]:
    header = "Follows" if protocol in SWAPS else "Counted"
    found = {header: others, "Offer": int(outside), "Final": int(outside)}
    if protocol == "combining_counting":
        found |= {"Count": depth, "CountValue": depth}
    else:
        found |= {"Swap": depth, "CountValue": int(protocol == "arrow_counting" and depth > 0)}
    return {kind: count for kind, count in found.items() if count}


@pytest.mark.parametrize("protocol", [*SWAPS, "arrow_counting", "combining_counting"])
def test_one_message_costs_its_request_and_a_header_for_each_site(protocol: str) -> None:
    for seed in range(5):
        structure = seeded_structure(seed)
        tellers = structure.tellers
        for group, members in structure.groups.items():
            root = tellers.root_of[members[0]]
            others = len(tellers.domains[root]) - 1
            for origin in (OUTSIDE, members[-1]):
                depth = 0 if origin == OUTSIDE else structure.depth(origin)
                world, _ = run_one(structure, group, protocol, origin)
                counts = expected(protocol, depth, others, outside=origin == OUTSIDE)
                assert world.items == counts, (seed, group, origin)
                together = counts.get("CountValue", 0) if protocol == "arrow_counting" else 0
                assert world.data == sum(counts.values()) - together  # the issuer gets both at once


def test_a_lone_message_takes_the_way_to_the_sink_and_one_multicast() -> None:
    """In the (P, L) network of [GS], with one group: depth hops and sends up; then n - 1 sends."""
    for n in range(2, 9):
        members = [f"s{i}" for i in range(n)]
        table = GroupTable.of({"g": members}, sites=[*members, OUTSIDE])
        structure = Structure(EPOCH, table, advise(table, "balanced").forest)
        for origin in members:
            depth = structure.depth(origin)
            _, delay = run_one(structure, "g", "arrow", origin)
            assert delay == depth * (L + P) + L + (n - 1) * P


def test_one_sender_makes_no_traffic_but_its_headers() -> None:
    """[SWAP] §6.1: `arrow` has no requests under way when one site sends all."""
    rng = random.Random(1)
    for seed in range(5):
        structure = seeded_structure(seed)
        tellers = structure.tellers
        site = rng.choice(sorted(s for s in structure.table.sites if structure.groups_of[s]))
        own = structure.groups_of[site]
        rates = {name: float(name in own) for name in structure.groups}
        config = SimConfig(
            GroupTable(structure.table.sites, structure.groups, rates),
            protocol="arrow",
            messages=30,
            origins=(site,),
            rate=20.0,
            network=PointToPointSpec(MILLISECOND, MILLISECOND),
            deliver="agreed",
            durability="memory",
        )
        world = Counting(config, structure, 1)
        world.start()
        world.run()
        assert world.quiet
        others = len(tellers.domains[tellers.root_of[site]]) - 1
        requests = {"Swap": structure.depth(site), "Follows": 30 * others}
        assert world.items == {kind: count for kind, count in requests.items() if count}
