"""The planner's cost functions against the protocols themselves, run alone in the simulator."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

import pytest

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.forest.forest import numbers_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.plan.advice import advise
from ordercast.plan.protocol_costs import Ground
from ordercast.plan.protocols import PROFILES
from ordercast.sim.message_costs import Overheard, PlannedSend, overhear
from ordercast.sim.networks import PointToPointSpec
from support.cases.tables import random_table

HOPS_ONLY = PointToPointSpec(0, MILLISECOND)


def table_of(seed: int) -> GroupTable:
    """4 to 9 sites in 2 to 5 groups."""
    return random_table(4 + seed % 6, 2 + seed % 4, 1 + seed % 4, seed)


def run_each(table: GroupTable, protocol: str, builder: str) -> dict[str, list[Overheard]]:
    """One message from every member of every group, each in a domain of its own time."""
    structure = Structure(1, table, advise(table, builder).forest)
    return {
        group: [
            overhear(structure, protocol, [PlannedSend(0, o, group)], HOPS_ONLY) for o in members
        ]
        for group, members in table.groups.items()
    }


def grounded(table: GroupTable, builder: str) -> Ground:
    indexed = IndexedTable.of(table)
    return Ground(indexed, *numbers_of(advise(table, builder).forest, indexed))


SWAPS = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")
ALONE = [name for name in PROFILES if name not in ("ring", *SWAPS)]


@pytest.mark.parametrize("protocol", ALONE)
def test_messages_loads_and_hops_are_those_of_the_protocol(protocol: str) -> None:
    """Exactly: messages of every group, load of every site, delay where only hops take time."""
    for seed in range(6):
        table = table_of(seed)
        for builder in PROTOCOLS[protocol].builders or ("greedy", "balanced"):
            costs = PROFILES[protocol].costs(grounded(table, builder))
            found = run_each(table, protocol, builder)
            hops = costs.arrive([0.0] * len(table.sites), 1.0)
            loads: defaultdict[str, float] = defaultdict(float)
            for place, group in enumerate(sorted(table.groups)):
                runs = found[group]
                where = (seed, builder, group)
                assert costs.messages[place] == pytest.approx(fmean(r.messages for r in runs)), (
                    where
                )
                last = [max(run.delays(m)) / MILLISECOND for run in runs for m in run.sent]
                assert hops[place] == pytest.approx(fmean(last)), where
                for run in runs:
                    for site, load in run.loads().items():
                        loads[site] += load / len(runs)
            expected = dict(zip(sorted(table.sites), costs.load, strict=True))
            for site in table.sites:
                assert expected[site] == pytest.approx(loads[site]), (seed, builder, site)


def after(found: Overheard, at: int) -> Overheard:
    """What was heard from then on."""
    return replace(found, heard=[frame for frame in found.heard if frame.at >= at])


@pytest.mark.parametrize("protocol", SWAPS)
def test_after_any_other_message_the_swap_family_costs_what_is_said(protocol: str) -> None:
    """A message of every site comes first, as often as the site sends: there the arrow ends."""
    later = SECOND
    for seed in (1, 4):
        table = table_of(seed)
        structure = Structure(1, table, advise(table, "greedy").forest)
        tellers = structure.tellers
        costs = PROFILES[protocol].costs(grounded(table, "greedy"))
        hops = costs.arrive([0.0] * len(table.sites), 1.0)
        loads: defaultdict[str, float] = defaultdict(float)
        for place, group in enumerate(sorted(table.groups)):
            members = table.groups[group]
            root = tellers.root_of[members[0]]
            near = [g for g, sites in table.groups.items() if tellers.root_of[sites[0]] == root]
            frames = last = 0.0
            for origin in members:
                for other in near:
                    for before in table.groups[other]:
                        sent = [PlannedSend(0, before, other), PlannedSend(later, origin, group)]
                        found = overhear(structure, protocol, sent, HOPS_ONLY)
                        share = 1 / (len(members) * len(near) * len(table.groups[other]))
                        second = after(found, later)
                        frames += share * second.messages
                        (message,) = (m for m, at in found.sent.items() if at == later)
                        last += share * max(found.delays(message)) / MILLISECOND
                        for site, load in second.loads().items():
                            loads[site] += share * load
            assert costs.messages[place] == pytest.approx(frames), (seed, group)
            assert hops[place] == pytest.approx(last), (seed, group)
        for site, expected in zip(sorted(table.sites), costs.load, strict=True):
            assert expected == pytest.approx(loads[site]), (seed, site)


def test_an_idle_ring_costs_half_a_turn_of_calls_and_of_the_token() -> None:
    """On average over when the message is sent: the slow token goes round once meanwhile."""
    table = GroupTable.of({"x": ["a", "b", "c"], "y": ["c", "d", "e"]})
    structure = Structure(1, table, advise(table, "greedy").forest)
    costs = PROFILES["ring"].costs(grounded(table, "greedy"))
    slow, turn, steps = 9 * SECOND, 5 * SECOND // 2, 25
    frames, last = [], []
    for step in range(steps):
        at = slow + turn * step // steps
        for origin in table.groups["x"]:
            found = overhear(structure, "ring", [PlannedSend(at, origin, "x")], HOPS_ONLY)
            frames.append(after(found, at).messages)
            last += [max(found.delays(m)) / MILLISECOND for m in found.sent]
    assert fmean(frames) == pytest.approx(costs.messages[0], rel=0.1)
    assert fmean(last) == pytest.approx(costs.arrive([0.0] * 5, 1.0)[0], rel=0.1)
    assert sum(costs.load) == pytest.approx(2 * sum(costs.messages))
