"""What one message costs without a tree, by running it alone: [GS] Table 1, [TOM] §4.1.1.

`two_phase` takes 3n frames from an origin outside the group, which are n offers, n proposals and n
final numbers, and 3(n-1) from a member, which asks itself for nothing. `symmetric` takes the
batch's own frames and, for each member, a question and a null for every site of the domain that it
has not heard past the timestamp: all but itself and the one that stamped it.
"""

import pytest

from support.worlds.counting import OUTSIDE, L, P, run_one, seeded_structure


def test_two_phase_takes_3n_frames_from_outside_and_3l_and_2n_and_1_p() -> None:
    """[GS] Table 1: N = 3n, D = 3L + (2n+1)P. Where one transmission reaches all, Table 2: N =
    n + 2; what leaves a site at one time for several peers counts once."""
    for seed in range(25):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            n = len(members)
            world, delay = run_one(structure, group, "two_phase", OUTSIDE)
            assert world.data == 3 * n, (seed, group)
            assert world.items == {"Offer": n, "Proposal": n, "Final": n}, (seed, group)
            assert delay == 3 * L + (2 * n + 1) * P, (seed, group)
            assert len(world.transmissions) == n + 2, (seed, group)


def test_two_phase_takes_3n_less_3_frames_from_a_member() -> None:
    for seed in range(10):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            world, _ = run_one(structure, group, "two_phase", members[0])
            assert world.data == 3 * (len(members) - 1), (seed, group)


@pytest.mark.parametrize("chunk", range(2))
def test_symmetric_asks_every_site_of_the_domain_for_every_member(chunk: int) -> None:
    for seed in range(6 * chunk, 6 * (chunk + 1)):
        structure = seeded_structure(seed)
        tellers = structure.tellers
        for group, members in structure.groups.items():
            gateway = tellers.root_of[members[0]]
            domain = tellers.domains[gateway]
            for origin in (OUTSIDE, members[0]):
                stamper = gateway if origin == OUTSIDE else origin
                asked = sum(len(domain) - (2 if m != stamper else 1) for m in members)
                expected = {
                    "Timed": len(members) - (stamper in members),
                    "Wanted": asked,
                    "Null": asked,
                    "Offer": int(origin == OUTSIDE),
                    "Final": int(origin == OUTSIDE),
                }
                world, _ = run_one(structure, group, "symmetric", origin)
                assert world.items == {kind: n for kind, n in expected.items() if n}, (seed, group)
