"""What one message costs in a ring, by running it alone: [TOM] §4.2.1.

Every other site of the domain is told of the number, members with the body: N - 1 items, whoever
they are for (errata SWAP-6). From outside, an offer and its answer more. The token makes as many
hops to the giver as it is away; printed are 2n for a message alone (M = 2n/k with k = 1), which is
what it takes at most: a call on its way to the token, and the token's way to the caller.
"""

import pytest

from ordercast.studies.tom.costs import FormulaTerms, ring
from ordercast.wire.ring import Token
from support.worlds.counting import OUTSIDE, run_one, seeded_structure


@pytest.mark.parametrize("chunk", range(3))
def test_every_site_of_the_domain_is_told_of_a_number(chunk: int) -> None:
    for seed in range(4 * chunk, 4 * (chunk + 1)):
        structure = seeded_structure(seed)
        tellers = structure.tellers
        for group, members in structure.groups.items():
            gateway = tellers.root_of[members[0]]
            domain = tellers.domains[gateway]
            for origin in (OUTSIDE, members[0]):
                giver = gateway if origin == OUTSIDE else origin
                told = len(members) - (giver in members)
                expected = {
                    "Numbered": told,
                    "Header": len(domain) - 1 - told,
                    "Offer": int(origin == OUTSIDE),
                    "Final": int(origin == OUTSIDE),
                }
                world, _ = run_one(structure, group, "ring", origin)
                seen = {kind: world.items[kind] for kind in expected}
                assert seen == expected, (seed, group)


def test_the_token_comes_to_the_giver_hop_by_hop_and_within_2n() -> None:
    """From the first site of the ring, where it begins: so many hops, and whole rotations."""
    for seed in range(8):
        structure = seeded_structure(seed)
        tellers = structure.tellers
        for group, members in structure.groups.items():
            domain = tellers.domains[tellers.root_of[members[0]]]
            if len(domain) == 1:
                continue
            world, _ = run_one(structure, group, "ring", members[0])
            hops = [
                (at, item)
                for at, source, item in sorted(world.transmissions, key=lambda sent: sent[0])
                if source in domain and isinstance(item, Token)
            ]
            before = sum(not item.number for _, item in hops)
            assert before % len(domain) == domain.index(members[0]), (seed, group)
            (sent,) = world.recorder.sent()
            since = sum(at >= sent.sent_ns and not item.number for at, item in hops)
            printed = ring(FormulaTerms(1, len(members), len(domain)))
            assert since + world.items["Call"] <= printed, (seed, group)
