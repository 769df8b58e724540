"""The objectives, against values worked out by hand and a walk along every hop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.forest.greedy import build_greedy
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import measure_indexed
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable
from ordercast.plan.objectives import (
    EVERY_OBJECTIVE,
    LAN,
    OVERLOADED_S,
    NetworkModel,
    Values,
    arrival_times,
    cost_of,
    evaluate,
    total_rate,
    unit_rate,
)
from support.cases.tables import FIGURE_3, FIGURE_3_TIE, table_of, tables

MICRO = 1e-6


def values(table: GroupTable, parent: list[int], primary: list[int]) -> Values:
    indexed = IndexedTable.of(table)
    metrics = measure_indexed(indexed, parent, primary)
    return evaluate(indexed, parent, primary, metrics, unit_rate(table))


def test_the_constants_are_those_the_examples_use() -> None:
    assert NetworkModel(latency_s=200e-6, handling_s=20e-6) == LAN


def test_delay_of_a_star_adds_hops_handling_and_waiting() -> None:
    """Root r sends to a and b, 1,000 messages a second: r handles 3,000, a and b 1,000 each."""
    table = GroupTable.of({"alpha": ["a", "b", "r"]}, rates={"alpha": 1000.0})
    found = values(table, [2, 2, -1], [2])
    two_hops = 2 * 200
    root, leaf = 3 * 20 / (1 - 0.06), 20 / (1 - 0.02)
    assert found.delay == pytest.approx((two_hops + root + leaf) * MICRO)
    assert found.utilisation == pytest.approx(0.06)
    assert found.busiest == 2
    assert found.load == 3
    assert found.messages == 3


def test_an_extra_site_on_the_path_costs_a_hop_a_receive_and_a_send() -> None:
    table = GroupTable.of({"alpha": ["p", "r"]}, sites=["p", "q", "r"], rates={"alpha": 1000.0})
    found = values(table, [-1, 0, 1], [0])
    relay, end = 2 * 20 / (1 - 0.04), 20 / (1 - 0.02)
    assert found.delay == pytest.approx((3 * 200 + 2 * relay + end) * MICRO)


def test_the_last_member_counts_not_the_nearest() -> None:
    """Primary p has a leaf and a chain of two below it; without traffic nobody waits."""
    table = GroupTable.of({"alpha": ["p", "leaf", "x", "y"]}, rates={"alpha": 0.0})
    # in sort order: leaf, p, x, y
    found = values(table, [1, -1, 1, 2], [1])
    chain = 3 * 200 + (1 + 2) * 20 + (1 + 1) * 20 + 20
    assert found.delay == pytest.approx(chain * MICRO)
    assert found.utilisation == 0


def test_figure_3_by_hand() -> None:
    table = table_of(FIGURE_3)
    forest = build_greedy(table, tie=FIGURE_3_TIE)
    names = sorted(table.sites)
    parent = [-1 if (p := forest.parent[s]) is None else names.index(p) for s in names]
    primary = [names.index(forest.primary[g]) for g in sorted(table.groups)]
    found = values(table, parent, primary)
    assert found.load == 9  # d: 4 from origins, 2 to c, 2 to e, 1 to j
    assert names[found.busiest] == "d"
    assert found.messages == 20 / 8
    assert found.utilisation == pytest.approx(9 * 125 * 20e-6)  # 1,000 a second over 8 groups


def test_rates_weigh_the_groups() -> None:
    """alpha has three quarters of the traffic, so its weight is 1.5 and beta's 0.5."""
    table = GroupTable.of(
        {"alpha": ["a", "b"], "beta": ["b", "c", "d"]}, rates={"alpha": 30.0, "beta": 10.0}
    )
    found = values(table, [1, -1, 1, 1], [1, 1])
    assert found.load == pytest.approx(1.5 * 2 + 0.5 * 3)
    assert found.messages == pytest.approx((30 * 2 + 10 * 3) / 40)
    assert found.utilisation == pytest.approx((30 * 2 + 10 * 3) * 20e-6)


def test_without_rates_a_thousand_messages_a_second_are_assumed() -> None:
    assert total_rate(GroupTable.of({"x": ["a"], "y": ["b"]})) == 1000
    assert total_rate(GroupTable.of({"x": ["a"], "y": ["b"]}, rates={"x": 5.0})) == 6
    assert total_rate(GroupTable.of({"x": ["a"]}, rates={"x": 0.0})) == 0


def test_an_overloaded_structure_ranks_below_every_other_and_by_its_overload() -> None:
    def delay(rate: float) -> float:
        table = GroupTable.of({"x": ["a", "b"]}, rates={"x": rate})
        return values(table, [-1, 0], [0]).delay

    # a handles two messages per send, 25,000 sends a second is all it can do
    just_below, just_above, far_above = delay(24_999.999), delay(25_000.0), delay(60_000.0)
    assert just_below < OVERLOADED_S <= just_above < far_above
    assert far_above == pytest.approx(2.4 * OVERLOADED_S)


def test_a_cost_on_a_part_of_the_table_keeps_the_rates_of_the_whole() -> None:
    """Builders may try structures on a sample; its sites are as busy as they will be."""
    whole = GroupTable.of({"x": ["a", "b"], "y": ["c", "d"]}, rates={"x": 24_000.0, "y": 24_000.0})
    part = IndexedTable.of(GroupTable.of({"x": ["a", "b"]}))
    assert cost_of("delay", whole)(part, [-1, 0], [0]) < OVERLOADED_S


@pytest.mark.parametrize("objective", EVERY_OBJECTIVE)
def test_a_cost_for_builders_is_the_objective_itself(objective: str) -> None:
    table = table_of(FIGURE_3)
    indexed = IndexedTable.of(table)
    star = build_star(table)
    parent = [-1 if star.parent[s] is None else 2 for s in indexed.sites]
    primary = [2] * len(indexed.groups)
    cost = cost_of(objective, table)(indexed, parent, primary)
    assert cost == values(table, parent, primary).of(objective)


@st.composite
def trees(draw: st.DrawFn, count: int) -> list[int]:
    """Parents of one tree over `count` sites, its sites in any order, often long paths."""
    order = draw(st.permutations(range(count)))
    parent = [-1] * count
    for place in range(1, count):
        straight = draw(st.booleans())
        above = place - 1 if straight else draw(st.integers(0, place - 1))
        parent[order[place]] = order[above]
    return parent


def walked(
    members: set[int], parent: list[int], primary: int, handling: list[float], latency: float
) -> float:
    """The time of the last member by walking every hop."""
    used: dict[int, set[int]] = {}
    for member in members:
        site = member
        while site != primary:
            used.setdefault(parent[site], set()).add(site)
            site = parent[site]

    def arrival(site: int) -> float:
        above = latency if site == primary else arrival(parent[site]) + latency
        return above + (1 + len(used.get(site, ()))) * handling[site]

    return max(arrival(member) for member in [*members, primary])


@settings(deadline=None)
@given(table=tables(max_sites=14), data=st.data())
def test_times_are_those_of_a_walk_along_every_hop(table: GroupTable, data: st.DataObject) -> None:
    indexed = IndexedTable.of(table)
    count = len(indexed.sites)
    parent = data.draw(trees(count))
    positive = st.floats(0.001, 10.0)
    handling = data.draw(st.lists(positive, min_size=count, max_size=count))
    root = parent.index(-1)
    tops = []
    for members in indexed.members:
        paths = [_to_root(site, parent) for site in members]
        shared = [site for site in paths[0] if all(site in path for path in paths)]
        tops.append(data.draw(st.sampled_from(shared)))
    assert all(_to_root(top, parent)[-1] == root for top in tops)
    found = arrival_times(indexed, parent, tops, handling, 0.5)
    expected = [
        walked(set(members), parent, top, handling, 0.5)
        for members, top in zip(indexed.members, tops, strict=True)
    ]
    assert found == pytest.approx(expected)


def _to_root(site: int, parent: list[int]) -> list[int]:
    path = [site]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
    return path


def test_a_path_of_many_thousand_sites_takes_no_walk_per_group() -> None:
    """10,000 groups across a path of 20,000 sites: 100 million hops if they were walked."""
    count = 20_000
    groups = {f"g{i}": [f"s{i:05}", f"s{count - 1 - i:05}"] for i in range(count // 2)}
    indexed = IndexedTable.of(GroupTable.of(groups))
    parent = list(range(-1, count - 1))
    primary = [min(members) for members in indexed.members]
    times = arrival_times(indexed, parent, primary, [1.0] * count, 10.0)
    farthest = indexed.groups.index("g0")
    assert times[farthest] == 10.0 * count + 2.0 * (count - 1) + 1.0
