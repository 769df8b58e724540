"""Changing a forest with its table: always correct, never twice as deep as one built anew."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest, problems
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import measure
from ordercast.forest.star import build_star
from ordercast.forest.tend import Tended, tend
from ordercast.model.groups import GroupTable
from support.cases.tables import random_table, tables

Builder = Callable[[GroupTable], Forest]
BUILDERS: dict[str, Builder] = {
    "greedy": build_greedy,
    "star": build_star,
    "balanced": lambda table: build_balanced(table, branching=3, leaf=4, partitioner="builtin"),
}


@st.composite
def changes(draw: st.DrawFn, table: GroupTable) -> GroupTable:
    """One join, leave, new group, removed group or new site."""
    groups = sorted(table.groups)
    group = draw(st.sampled_from(groups))
    members = table.groups[group]
    kind = draw(st.sampled_from(["join", "leave", "add", "remove", "newcomer"]))
    outside = [site for site in table.sites if site not in members]
    if kind == "join" and outside:
        return table.with_members(group, [*members, draw(st.sampled_from(outside))])
    if kind == "newcomer":
        return table.with_members(group, [*members, f"n{len(table.sites)}"])
    if kind == "leave" and len(members) > 1:
        gone = draw(st.sampled_from(members))
        return table.with_members(group, [site for site in members if site != gone])
    if kind == "remove" and len(groups) > 1:
        return table.without_group(group)
    chosen = draw(st.lists(st.sampled_from(table.sites), min_size=1, max_size=5, unique=True))
    fresh = next(name for i in range(99) if (name := f"x{i}") not in table.groups)
    return table.with_members(fresh, chosen)


def assert_good(tended: Tended, table: GroupTable, build: Builder) -> None:
    assert problems(tended.forest, table) == []
    kept, anew = measure(tended.forest, table), measure(build(table), table)
    assert kept.depth_mean <= 2 * anew.depth_mean
    assert kept.depth_max <= 2 * anew.depth_max


@pytest.mark.parametrize("name", BUILDERS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_ten_changes_in_a_row_stay_correct_and_good(name: str, data: st.DataObject) -> None:
    build = BUILDERS[name]
    table = data.draw(tables())
    forest = build(table)
    for _ in range(10):
        after = data.draw(changes(table))
        tended = tend(forest, table, after, build)
        assert_good(tended, after, build)
        table, forest = after, tended.forest


def test_an_untouched_domain_keeps_its_tree() -> None:
    table = GroupTable.of({"left": ["a", "b", "c"], "right": ["x", "y", "z"]})
    forest = build_greedy(table)
    after = table.with_members("left", ["a", "b", "c", "d"])
    tended = tend(forest, table, after, build_greedy)
    assert tended.moved == ("d",)
    assert not tended.rebuilt
    assert {s: tended.forest.parent[s] for s in "xyz"} == {s: forest.parent[s] for s in "xyz"}


def test_a_removed_link_splits_the_domain_into_two_trees() -> None:
    table = GroupTable.of({"left": ["a", "b"], "link": ["b", "x"], "right": ["x", "y"]})
    after = table.without_group("link")
    tended = tend(build_greedy(table), table, after, build_greedy)
    assert problems(tended.forest, after) == []
    assert sum(above is None for above in tended.forest.parent.values()) == 2


def test_a_new_link_joins_two_trees_and_moves_only_one_root() -> None:
    table = random_table(60, 60, 4, 3, spread=2.0)
    other = GroupTable.of({"far": ["x", "y", "z"]})
    both = GroupTable(table.sites + other.sites, {**table.groups, **other.groups})
    after = both.with_members("link", ["s1", "x"])
    forest = build_star(both)
    tended = tend(forest, both, after, build_star)
    assert set(tended.moved) <= {"x", "y", "z"}
    assert problems(tended.forest, after) == []


def test_a_site_that_left_everything_is_bridged() -> None:
    table = GroupTable.of({"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"]})
    forest = build_greedy(table)
    top = forest.primary["alpha"]
    after = table.with_members("alpha", [s for s in "abc" if s != top]).with_members(
        "beta", [s for s in "bcd" if s != top]
    )
    tended = tend(forest, table, after, build_greedy)
    assert problems(tended.forest, after) == []
    assert tended.forest.parent[top] is None
    assert top not in tended.forest.parent.values()


def test_a_join_in_a_large_balanced_forest_moves_few_sites() -> None:
    table = random_table(300, 300, 5, 7, spread=8.0)
    build = BUILDERS["balanced"]
    forest = build(table)
    moved = 0
    for number in range(20):
        group = f"g{number * 14}"
        near = int(table.groups[group][0][1:])
        site = f"s{(near + 3) % 300}"
        if site in table.groups[group]:
            continue
        after = table.with_members(group, [*table.groups[group], site])
        tended = tend(forest, table, after, build)
        assert_good(tended, after, build)
        moved += 0 if tended.rebuilt else len(tended.moved)
        table, forest = after, tended.forest
    assert moved <= 40
