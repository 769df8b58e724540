"""One message alone on a (P, L) network: what is sent for it, by kind, and how long it takes."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND, Timing
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import EPOCH
from ordercast.sim.world import World
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import CONTROL, Data
from support.cases.tables import random_table

OUTSIDE = "outside"
P, L = MILLISECOND, 5 * MILLISECOND
# The papers' networks lose nothing and acknowledge nothing: here that comes after all deliveries.
LATE = Timing(ack_delay=SECOND, resend_after=10 * SECOND, resend_at_most=10 * SECOND)


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

    def _transmit(self, now: int, source: str, sends: Sequence[tuple[str, InEpoch]]) -> None:
        for _, sent in sends:
            frame = sent.frame
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
        timing=LATE,
    )
    world = Counting(config, structure, 1)
    world.start()
    world.run()
    assert world.quiet
    (sent,) = world.recorder.sent()
    times = [log[0][0] for log in world.recorder.seen.values() if log]
    assert len(times) == len(structure.groups[group])
    return world, max(times) - sent.sent_ns
