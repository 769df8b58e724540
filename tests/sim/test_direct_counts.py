"""What one message costs without a tree, by running it alone: [GS] Table 1, [TOM] §4.1.1.

`two_phase` takes 3n frames from an origin outside the group, which are n offers, n proposals and n
final numbers, and 3(n-1) from a member, which asks itself for nothing. `symmetric` takes the
batch's own frames and, for each member, a question and a null for every site of the domain that it
has not heard past the timestamp: all but itself and the one that stamped it.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from ordercast.core.structure import Structure
from ordercast.core.tellers import with_tellers
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import EPOCH
from ordercast.sim.world import World
from ordercast.wire.frames import CONTROL, Data
from support.tables import random_table

OUTSIDE = "outside"
P, L = MILLISECOND, 5 * MILLISECOND


def seeded_structure(seed: int) -> Structure:
    """5 to 20 sites in 2 to 9 groups, and an origin in none of them; any forest will do."""
    rng = random.Random(seed)
    sites = rng.randint(5, 20)
    table = random_table(sites, rng.randint(2, 9), rng.randint(1, min(sites, 6)), seed)
    table = GroupTable.of(table.groups, sites=[*table.sites, OUTSIDE])
    forest = advise(table, rng.choice(("greedy", "star", "balanced"))).forest
    return Structure(EPOCH, table, forest)


class Counting(World):
    """Counts what goes on the lanes UP and DOWN by its kind."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.items: Counter[str] = Counter()
        self.transmissions: set[tuple[int, str, Any]] = set()  # one where the medium is shared

    def _transmit(self, now: int, source: str, sends: Sequence[tuple[str, Any]]) -> None:
        for _, frame in sends:
            if type(frame) is Data and frame.lane != CONTROL:
                self.items.update(type(item).__name__ for item in frame.items)
                self.transmissions.update((now, source, item) for item in frame.items)
        super()._transmit(now, source, sends)


def run_one(structure: Structure, group: str, protocol: str, origin: str) -> tuple[Counting, int]:
    """One message, and when the last member delivered it."""
    only = {name: float(name == group) for name in structure.groups}
    config = SimConfig(
        GroupTable(structure.table.sites, structure.groups, only),
        protocol=protocol,
        messages=1,
        origins=(origin,),
        network=PointToPointSpec(P, L),
        deliver="agreed",
        durability="memory",
    )
    world = Counting(config, structure, 1)
    world.start()
    world.run()
    assert world.quiet
    (sent,) = world.recorder.sent()
    times = [log[0][0] for log in world.recorder.seen.values() if log]
    assert len(times) == len(structure.groups[group])
    return world, max(times) - sent.sent_ns


@pytest.mark.parametrize("chunk", range(4))
def test_two_phase_takes_3n_frames_from_outside_and_3l_and_2n_and_1_p(chunk: int) -> None:
    """[GS] Table 1: N = 3n, D = 3L + (2n+1)P."""
    for seed in range(25 * chunk, 25 * (chunk + 1)):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            n = len(members)
            world, delay = run_one(structure, group, "two_phase", OUTSIDE)
            assert world.data == 3 * n, (seed, group)
            assert world.items == {"Offer": n, "Proposal": n, "Final": n}, (seed, group)
            assert delay == 3 * L + (2 * n + 1) * P, (seed, group)


def test_two_phase_takes_3n_less_3_frames_from_a_member() -> None:
    for seed in range(25):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            world, _ = run_one(structure, group, "two_phase", members[0])
            assert world.data == 3 * (len(members) - 1), (seed, group)


def test_two_phase_takes_n_and_2_transmissions_where_one_reaches_all() -> None:
    """[GS] Table 2: N = n + 2. What leaves a site at one time for several peers counts once."""
    for seed in range(25):
        structure = seeded_structure(seed)
        for group, members in structure.groups.items():
            world, _ = run_one(structure, group, "two_phase", OUTSIDE)
            assert len(world.transmissions) == len(members) + 2, (seed, group)


@pytest.mark.parametrize("chunk", range(4))
def test_symmetric_asks_every_site_of_the_domain_for_every_member(chunk: int) -> None:
    for seed in range(10 * chunk, 10 * (chunk + 1)):
        structure = seeded_structure(seed)
        tellers = with_tellers(structure)
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
