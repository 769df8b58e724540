"""What `tom` sends, exactly, by running it over random tables; [TOM] §4's formula beside it.

Per message: the body to every receiver (and the ordering node), one bid for each hop up, one final
header for each edge down. With multicast the bodies are one transmission, and so is what a hop
sends its children: 1 + p + forwarding hops, where Table 1 prints 2 + p, as if the final header were
one multicast (errata TOM-3, TOM-5).
"""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ordercast.core.engine import Engine
from ordercast.core.outbox import EngineBox
from ordercast.core.structure import Structure
from ordercast.forest.balanced import build_balanced
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import measure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND
from ordercast.sim.config import SimConfig
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.sim.simulate import EPOCH
from ordercast.sim.world import World
from ordercast.studies.tom.costs import FormulaTerms, tom, tom_printed
from ordercast.wire.frames import Data, Relay, Submit
from ordercast.wire.tom import Bid, Body, BodyRequest
from support.cases.tables import random_table
from support.worlds.engines import engines_made_by

OUTSIDE = "outside"
TABLES = 30


class Sent:
    """Items by kind, and frames that carry bids."""

    def __init__(self) -> None:
        self.items: Counter[type] = Counter()
        self.frames_of_bids = 0

    def counting(self) -> Any:
        sent = self

        class Counted(Engine):
            def drain(self) -> EngineBox:
                box = super().drain()
                for _, frame in (*box.send, *box.then_send):
                    if type(frame) is Data:
                        kinds = Counter(type(item) for item in frame.items)
                        sent.items += kinds
                        sent.frames_of_bids += bool(kinds[Bid])
                return box

        return Counted


def one_message(structure: Structure, group: str, origin: str) -> Counter[type]:
    only = {name: float(name == group) for name in structure.groups}
    config = SimConfig(
        GroupTable(structure.table.sites, structure.groups, only),
        protocol="tom", messages=1, origins=(origin,), durability="memory",
    )  # fmt: skip
    sent = Sent()
    world = World(config, structure, 1)
    with engines_made_by(sent.counting()):
        world.start()
        world.run()
    assert world.quiet
    assert sum(len(log) for log in world.recorder.seen.values()) == len(structure.groups[group])
    return sent.items


def structure_of(table: GroupTable, builder: str = "balanced") -> Structure:
    """Balanced with flat parts of two: small trees are flat otherwise."""
    forest = (
        build_greedy(table) if builder == "greedy" else build_balanced(table, branching=2, leaf=2)
    )
    return Structure(EPOCH, table, forest)


def cases(builder: str) -> Iterator[tuple[Structure, int, str, str]]:
    """Every group of random tables, from an origin outside and from one in some tree."""
    for seed in range(TABLES):
        rng = random.Random(seed)
        sites = rng.randint(5, 16)
        drawn = random_table(sites, rng.randint(2, 7), rng.randint(1, min(sites, 6)), seed)
        table = GroupTable.of(drawn.groups, sites=[*drawn.sites, OUTSIDE])
        structure = structure_of(table, builder)
        edges = [count - 1 for count in measure(structure.forest, table).messages]
        for place, group in enumerate(sorted(structure.groups)):
            yield structure, edges[place], group, OUTSIDE
            yield structure, edges[place], group, rng.choice(drawn.sites)


def forwarding(structure: Structure, group: str) -> list[str]:
    """The sites that send a final header down."""
    found, reached = [], [structure.primary(group)]
    for site in reached:  # grows while it is read
        below = structure.routes(site, structure.groups[group])
        found += [site] if below else []
        reached += below
    return found


@pytest.mark.parametrize("builder", ["balanced", "greedy"])
def test_bodies_bids_and_headers_are_counted_exactly(builder: str) -> None:
    hops = 0
    for structure, edges, group, origin in cases(builder):
        items = one_message(structure, group, origin)
        node = structure.primary(group)
        path = structure.labels.path(origin, node)
        hops += len(path)
        assert items[Submit] == (node != origin)
        reached = {node, *structure.groups[group]} - {origin}
        assert items[Submit] + items[Body] == len(reached)
        assert items[Bid] == len(path)
        assert items[Relay] == edges
        assert not items[BodyRequest]
    assert hops > 100


def test_with_multicast_it_takes_the_path_and_the_forwarding_hops_more_than_one() -> None:
    """Printed 2 + p is met where one hop forwards the final header, too low where more do."""
    met = low = 0
    for structure, _, group, origin in cases("balanced"):
        members = structure.groups[group]
        path = structure.labels.path(origin, structure.primary(group))
        setting = FormulaTerms(
            1, len(members), len(structure.table.sites), path=len(path),
            forwarding=len(forwarding(structure, group)),
        )  # fmt: skip
        alone = set(members) == {origin}  # it sends the body to nobody
        found = overhear(structure, "tom", [PlannedSend(0, origin, group)])
        assert found.transmissions() == tom(setting) - alone
        met += tom(setting) == tom_printed(setting)
        low += tom(setting) > tom_printed(setting)
    assert met
    assert low > met


@pytest.mark.parametrize(("wake", "least"), [(0, 0.0), (5 * MILLISECOND, 0.3)])
def test_hops_save_frames_by_sending_the_bids_of_their_subtree_together(
    wake: int, least: float
) -> None:
    """TOM-7: without any waiting little comes together; a site that wakes every 5 ms saves a third
    of the frames and more."""
    table = random_table(24, 12, 8, 3)
    sent = Sent()
    config = SimConfig(
        table, protocol="tom", messages=1500, rate=5000.0, wake=wake, deliver="agreed",
        durability="memory",
    )  # fmt: skip
    world = World(config, structure_of(table), 1)
    with engines_made_by(sent.counting()):
        world.start()
        world.run()
    assert world.quiet
    saved = 1 - sent.frames_of_bids / sent.items[Bid]
    assert sent.items[Bid] > 1500
    assert least <= saved < 1
