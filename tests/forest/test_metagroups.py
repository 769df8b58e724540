"""Metagroups: the quotient table, and the forest of delegates with their members (OTHER-4)."""

from itertools import combinations

import pytest
from hypothesis import given, settings

from ordercast.forest.metagroups import BALANCED, METAGROUPS, build_metagroups, quotient
from ordercast.forest.metrics import extra_sites, measure
from ordercast.model.groups import GroupTable, Site
from support.cases.tables import tables
from support.judges.forests import problems

both = pytest.mark.parametrize("builder", [METAGROUPS, BALANCED])


def groups_of(table: GroupTable, site: Site) -> set[str]:
    return {group for group, members in table.groups.items() if site in members}


@given(table=tables())
def test_sites_are_of_one_metagroup_just_when_they_are_in_the_same_groups(
    table: GroupTable,
) -> None:
    delegate = quotient(table).delegate
    busy = [site for site in table.sites if groups_of(table, site)]
    assert sorted(delegate) == sorted(busy)
    for a, b in combinations(busy, 2):
        assert (delegate[a] == delegate[b]) == (groups_of(table, a) == groups_of(table, b))
    for site in busy:
        assert delegate[delegate[site]] == delegate[site]


@both
@settings(deadline=None, max_examples=60)
@given(table=tables())
def test_delegates_have_their_members_and_child_delegates_below_them(
    builder: str, table: GroupTable
) -> None:
    forest = build_metagroups(table, builder)
    delegate = quotient(table).delegate
    assert problems(forest, table) == []
    for site in table.sites:
        above = forest.parent[site]
        if site not in delegate:
            assert above is None
        elif delegate[site] != site:
            assert above == delegate[site]
        else:
            assert above is None or delegate[above] == above
    assert all(delegate[primary] == primary for primary in forest.primary.values())


@given(table=tables())
def test_through_the_generator_the_primary_metagroup_lies_inside_its_group(
    table: GroupTable,
) -> None:
    forest = build_metagroups(table)
    for group, primary in forest.primary.items():
        assert primary in table.groups[group]


def test_all_pairs_of_n_sites_force_a_path_and_on_a_balanced_tree_extra_delegates() -> None:
    sites = [f"s{i}" for i in range(8)]
    pairs = GroupTable.of({f"{a}{b}": [a, b] for a, b in combinations(sites, 2)})
    path = build_metagroups(pairs)
    assert measure(path, pairs).depth_max == len(sites) - 1
    balanced = build_metagroups(pairs, BALANCED)
    assert measure(balanced, pairs).depth_max < len(sites) - 1
    assert any(extra_sites(balanced, pairs).values())


def test_equal_sites_become_one_node_with_the_first_name_as_delegate() -> None:
    table = GroupTable.of({"x": ["b", "a", "c"], "y": ["c", "d", "e"], "z": ["d", "e"]})
    found = quotient(table)
    assert found.members() == {"a": ["a", "b"], "c": ["c"], "d": ["d", "e"]}
    assert found.table.groups == {"x": ("a", "c"), "y": ("c", "d"), "z": ("d",)}
    forest = build_metagroups(table)
    assert forest.parent == {"a": "c", "b": "a", "c": None, "d": "c", "e": "d"}
    assert forest.primary == {"x": "c", "y": "c", "z": "d"}
