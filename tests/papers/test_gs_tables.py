"""[GS] §4.1 Table 1 and §4.2 Table 2, over n: what the formulas say and what the protocols do.

N messages and delay D of one message from outside a group of n, on a network in which a site takes
P for each message it sends and a message L to arrive; Table 2 counts one transmission for all
receivers. The formulas of two-phase and centralized ordering are exact; those of propagation bound
every tree (`tests/sim/test_exact_counts.py`), and are met by a star and by a path.
"""

from collections.abc import Callable

import pytest

from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import advise
from ordercast.sim.simulate import EPOCH
from support.worlds.counting import OUTSIDE, L, P, run_one, seeded_structure

over_n = pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 21])


def group_of(n: int) -> GroupTable:
    members = [f"s{place:02}" for place in range(n)]
    return GroupTable.of({"g": members}, sites=[*members, OUTSIDE])


def star(n: int) -> Structure:
    table = group_of(n)
    return Structure(EPOCH, table, advise(table, "star").forest)


def path(n: int) -> Structure:
    """Every member forwards to the next."""
    table = group_of(n)
    members = table.groups["g"]
    parent = {OUTSIDE: None, members[0]: None, **dict(zip(members[1:], members, strict=False))}
    return Structure(EPOCH, table, Forest("greedy", parent, {"g": members[0]}))


@over_n
def test_two_phase_takes_3n_messages_and_3l_and_2n_and_1_p(n: int) -> None:
    world, delay = run_one(star(n), "g", "two_phase", OUTSIDE)
    assert world.data == 3 * n
    assert delay == 3 * L + (2 * n + 1) * P


@over_n
def test_the_centralized_protocol_takes_n_messages_and_2l_and_np(n: int) -> None:
    """A centre that is the only member has nobody to tell: L less."""
    world, delay = run_one(star(n), "g", "centralized", OUTSIDE)
    assert world.data == n
    assert delay == (2 if n > 1 else 1) * L + n * P


@over_n
@pytest.mark.parametrize("tree", [star, path])
def test_propagation_takes_n_messages_and_d_and_1_l_and_np_on_a_star_and_on_a_path(
    n: int, tree: Callable[[int], Structure]
) -> None:
    structure = tree(n)
    depth = max(structure.depth(site) for site in structure.groups["g"])
    world, delay = run_one(structure, "g", "propagation", OUTSIDE)
    assert world.data == n
    assert delay == (depth + 1) * L + n * P


@over_n
def test_where_one_transmission_reaches_all_they_take_n_and_2_and_2_and_1_and_the_forwarders(
    n: int,
) -> None:
    """Table 2; of propagation d + 1 is a lower bound (errata GS-9), met by star and path."""
    transmissions = {
        protocol: len(run_one(star(n), "g", protocol, OUTSIDE)[0].transmissions)
        for protocol in ("two_phase", "centralized", "propagation")
    }
    told = 2 if n > 1 else 1
    assert transmissions == {"two_phase": n + 2, "centralized": told, "propagation": told}
    assert len(run_one(path(n), "g", "propagation", OUTSIDE)[0].transmissions) == n


def test_propagation_takes_1_and_the_forwarding_sites_and_no_less_than_the_depth_and_1() -> None:
    for seed in range(25):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            primary = structure.primary(group)
            used = {primary: None}
            for site in list(members):
                while site not in used:
                    used[site] = None
                    above = structure.parent(site)
                    assert above is not None
                    site = above
            forwarding = sum(bool(structure.routes(site, members)) for site in used)
            deepest = max(structure.depth(site) for site in members) - structure.depth(primary)
            world, _ = run_one(structure, group, "propagation", OUTSIDE)
            assert len(world.transmissions) == 1 + forwarding, (seed, group)
            assert 1 + forwarding >= 1 + deepest, (seed, group)
