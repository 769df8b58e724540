"""[GS] §4.1, Table 1, by running the protocols: n + ε data frames, delay ≤ (d+1)L + (n+ε)P.

One message per batch, one at a time, from an origin that is in no group.
"""

import random

import pytest

from ordercast.core.structure import Structure
from ordercast.forest.metrics import Metrics, measure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import EPOCH
from ordercast.sim.world import World
from support.cases.tables import random_table

OUTSIDE = "outside"
P, L = MILLISECOND, 5 * MILLISECOND


def seeded_table(seed: int) -> GroupTable:
    """5 to 20 sites in 2 to 9 groups, and an origin in none of them."""
    rng = random.Random(seed)
    sites = rng.randint(5, 20)
    table = random_table(sites, rng.randint(2, 9), rng.randint(1, min(sites, 6)), seed)
    return GroupTable.of(table.groups, sites=[*table.sites, OUTSIDE])


def measured(table: GroupTable, builder: str) -> tuple[Structure, Metrics]:
    forest = advise(table, builder).forest
    return Structure(EPOCH, table, forest), measure(forest, table)


def data_frames_and_delay(structure: Structure, group: str, protocol: str) -> tuple[int, int]:
    """Of one message to the group: data frames sent, and when the last member delivered it."""
    only = {name: float(name == group) for name in structure.groups}
    config = SimConfig(
        GroupTable(structure.table.sites, structure.groups, only),
        protocol=protocol,
        messages=1,
        origins=(OUTSIDE,),
        network=PointToPointSpec(P, L),
        deliver="agreed",
        durability="memory",
    )
    world = World(config, structure, seed=1)
    world.start()
    world.run()
    assert world.quiet
    (sent,) = world.recorder.sent()
    times = [log[0][0] for site, log in world.recorder.seen.items() if log]
    assert len(times) == len(structure.groups[group])
    return world.data, max(times) - sent.sent_ns


@pytest.mark.parametrize("chunk", range(3))
def test_data_frames_are_exactly_the_plans_messages(chunk: int) -> None:
    """For every group of 200 random tables."""
    for seed in range(25 * chunk, 25 * (chunk + 1)):
        structure, metrics = measured(seeded_table(seed), "greedy")
        for place, group in enumerate(sorted(structure.groups)):
            frames, delay = data_frames_and_delay(structure, group, "propagation")
            n_and_extra = metrics.messages[place]
            assert frames == n_and_extra, (seed, group)
            assert delay <= (metrics.depth[place] + 1) * L + n_and_extra * P, (seed, group)
            assert delay >= (metrics.depth[place] + 1) * L, (seed, group)


@pytest.mark.parametrize("chunk", range(2))
def test_the_centralized_protocol_takes_n_frames_and_2l_and_np(chunk: int) -> None:
    """n if the centre is a member, otherwise one more (errata GS-9)."""
    for seed in range(10 * chunk, 10 * (chunk + 1)):
        structure, metrics = measured(seeded_table(seed), "star")
        for place, group in enumerate(sorted(structure.groups)):
            frames, delay = data_frames_and_delay(structure, group, "centralized")
            members = structure.groups[group]
            outside = structure.primary(group) not in members
            assert frames == metrics.messages[place] == len(members) + outside, (seed, group)
            hops = 1 if members == (structure.primary(group),) else 2
            assert delay == hops * L + frames * P, (seed, group)
