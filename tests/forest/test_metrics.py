"""Counting by common ancestors against walking every hop of every message."""

from hypothesis import given, settings

from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import extra_sites, measure
from ordercast.forest.rebalancing import rebalance
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable
from support.cases.tables import FIGURE_3, FIGURE_3_TIE, table_of, tables
from support.judges.forests import problems


def walked_load(forest: Forest, table: GroupTable) -> dict[str, int]:
    """Send one message to each group, hop by hop."""
    load = dict.fromkeys(table.sites, 0)
    for group, members in table.groups.items():
        load[forest.primary[group]] += 1
        hops = set()
        for member in members:
            site = member
            while site != forest.primary[group]:
                above = forest.parent[site]
                assert above is not None
                hops.add((above, site))
                site = above
        for sender, receiver in hops:
            load[sender] += 1
            load[receiver] += 1
    return load


@given(tables())
@settings(max_examples=300, deadline=None)
def test_metrics_equal_a_walk(table: GroupTable) -> None:
    for built in (build_greedy(table), build_star(table)):
        for forest in (built, rebalance(built, table)):
            metrics = measure(forest, table)
            assert dict(zip(sorted(table.sites), metrics.load, strict=True)) == walked_load(
                forest, table
            )
            names = extra_sites(forest, table)
            groups = sorted(table.groups)
            assert [len(names[group]) for group in groups] == list(metrics.extra)
            for group, messages, extra in zip(groups, metrics.messages, metrics.extra, strict=True):
                assert messages == len(table.groups[group]) + extra


def test_figure_3_by_hand() -> None:
    table = table_of(FIGURE_3)
    metrics = measure(build_greedy(table, tie=FIGURE_3_TIE), table)
    assert list(metrics.depth) == [1, 1, 2, 2, 1, 1, 1, 1]
    assert dict(zip("abcdefghj", metrics.load, strict=True)) == {
        "a": 1,
        "b": 4,
        "c": 8,
        "d": 9,
        "e": 5,
        "f": 2,
        "g": 1,
        "h": 1,
        "j": 1,
    }


def test_rates_weigh_the_load_but_not_the_count() -> None:
    table = GroupTable.of(
        {"quiet": ["a", "b"], "busy": ["a", "c"]}, rates={"quiet": 1.0, "busy": 3.0}
    )
    metrics = measure(build_star(table), table)
    assert list(metrics.load) == [4, 1, 1]
    assert list(metrics.weighted_load) == [4.0, 0.5, 1.5]


@given(tables())
@settings(max_examples=200, deadline=None)
def test_rebalancing_keeps_the_forest_correct_and_lowers_load_without_extra_sites(
    table: GroupTable,
) -> None:
    for before in (build_greedy(table), build_star(table)):
        after = rebalance(before, table)
        assert problems(after, table) == []
        assert after.primary == before.primary
        old, new = measure(before, table), measure(after, table)
        assert list(new.extra) == list(old.extra)
        assert max(new.weighted_load) <= max(old.weighted_load) + 1e-9
        assert after.parent == before.parent or new.depth_mean >= old.depth_mean
