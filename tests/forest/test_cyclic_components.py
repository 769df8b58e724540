"""Cyclic components against the definition: no single group separates two others."""

from itertools import combinations

from hypothesis import given, settings

from ordercast.forest.cyclic_components import cyclic_components
from ordercast.model.groups import GroupTable
from support.cases.tables import random_table, tables


def by_definition(table: GroupTable) -> set[frozenset[str]]:
    """Maximal sets of 3 or more groups that are connected whichever one group is taken away."""
    members = {group: set(sites) for group, sites in table.groups.items()}

    def connected(among: frozenset[str]) -> bool:
        rest = set(among)
        reached = [rest.pop()] if rest else []
        for group in reached:
            near = {other for other in rest if members[other] & members[group]}
            rest -= near
            reached.extend(near)
        return not rest

    found: set[frozenset[str]] = set()
    for size in range(len(members), 2, -1):
        for chosen in combinations(sorted(members), size):
            candidate = frozenset(chosen)
            if any(candidate < larger for larger in found):
                continue
            if connected(candidate) and all(connected(candidate - {g}) for g in candidate):
                found.add(candidate)
    return found


@given(tables(max_sites=8, max_groups=7))
@settings(max_examples=300, deadline=None)
def test_equals_the_definition(table: GroupTable) -> None:
    assert {frozenset(c) for c in cyclic_components(table)} == by_definition(table)


def test_a_ring_of_three_is_cyclic_and_a_chain_is_not() -> None:
    ring = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c"], "gamma": ["c", "a"]})
    chain = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c"], "gamma": ["c", "d"]})
    assert cyclic_components(ring) == [["alpha", "beta", "gamma"]]
    assert cyclic_components(chain) == []


def test_a_site_in_a_thousand_groups_does_not_make_a_million_edges() -> None:
    hub = GroupTable.of({f"g{i:04}": ["hub", f"s{i}"] for i in range(1000)})
    assert cyclic_components(hub) == [sorted(hub.groups)]
    assert len(cyclic_components(random_table(2000, 2000, 5, 1))[0]) > 1000
