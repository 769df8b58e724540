"""Balanced trees: always correct, the same in every process, as wide as asked, good on a ring."""

import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import Metrics, measure, measure_indexed
from ordercast.forest.star import build_star
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from support.cases.tables import random_table, tables
from support.harness.commands import under_hash_seeds
from support.judges.forests import problems

both_partitioners = pytest.mark.parametrize("partitioner", ["metis", "builtin"])


def path_to_root(forest: Forest, site: str) -> list[str]:
    path = [site]
    while (above := forest.parent[path[-1]]) is not None:
        path.append(above)
    return path


def lowest_common_ancestor(forest: Forest, members: tuple[str, ...]) -> str:
    paths = [path_to_root(forest, site) for site in members]
    return next(site for site in paths[0] if all(site in path for path in paths))


def one_group(members: int) -> GroupTable:
    return GroupTable.of({"all": [f"s{i}" for i in range(members)]})


def chain_of_pairs(sites: int) -> GroupTable:
    return GroupTable.of({f"g{i}": [f"s{i}", f"s{i + 1}"] for i in range(sites - 1)})


def hub_and_neighbours(sites: int) -> GroupTable:
    """One site in every group, the other members near each other."""
    return GroupTable.of(
        {
            f"g{i}": ["hub", f"s{i}", f"s{(i + 1) % sites}", f"s{(i + 5) % sites}"]
            for i in range(sites)
        }
    )


sizes = st.one_of(st.none(), st.integers(2, 5))


@both_partitioners
@given(table=tables(max_sites=24, max_groups=16), branching=sizes, leaf=sizes)
@settings(max_examples=60, deadline=None)
def test_the_forest_is_correct_and_primaries_are_lowest_common_ancestors(
    partitioner: str, table: GroupTable, branching: int | None, leaf: int | None
) -> None:
    forest = build_balanced(table, branching=branching, leaf=leaf, partitioner=partitioner)
    assert forest.builder == "balanced"
    assert problems(forest, table) == []
    for group, members in table.groups.items():
        assert forest.primary[group] == lowest_common_ancestor(forest, members)


@both_partitioners
@pytest.mark.parametrize(
    "table",
    [
        one_group(1),
        one_group(2),
        one_group(300),
        chain_of_pairs(400),
        hub_and_neighbours(300),
        random_table(300, 300, 5, 1),
        random_table(600, 20, 200, 2),
        random_table(400, 40, 3, 3),  # many domains
        GroupTable.of({f"g{i}": [f"s{i}"] for i in range(30)}),
        GroupTable.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]}, sites=["idle", "x", "y"]),
    ],
    ids=[
        "one site", "two sites", "one giant group", "chain of pairs", "hub", "random groups",
        "large groups", "many domains", "single sites", "idle site",
    ],
)  # fmt: skip
def test_tables_of_every_shape_get_a_correct_and_shallow_forest(
    partitioner: str, table: GroupTable, capfd: pytest.CaptureFixture[str]
) -> None:
    forest = build_balanced(table, partitioner=partitioner)
    assert problems(forest, table) == []
    assert measure(forest, table).depth_max <= 10
    assert capfd.readouterr() == ("", "")  # METIS itself would print what it does not like


@both_partitioners
def test_one_giant_group_gives_a_tree_of_the_branching_asked_for(partitioner: str) -> None:
    table = one_group(625)
    forest = build_balanced(table, branching=5, leaf=6, partitioner=partitioner)
    measured = measure(forest, table)
    assert measured.depth_max == 4  # 5 x 5 x 5 parts of 5 need at least that
    assert measured.extra_mean == 0
    assert measured.load_max <= 8


@both_partitioners
@pytest.mark.parametrize("branching", [2, 3, 7])
def test_upper_heads_have_at_most_as_many_children_as_asked_for(
    partitioner: str, branching: int
) -> None:
    for table in (random_table(400, 400, 4, 4, spread=6.0), random_table(300, 10, 80, 4)):
        forest = build_balanced(table, branching=branching, leaf=8, partitioner=partitioner)
        children: dict[str, list[str]] = {}
        for site, above in forest.parent.items():
            if above is not None:
                children.setdefault(above, []).append(site)
        upper = [heads for heads in children.values() if any(head in children for head in heads)]
        assert upper
        assert max(map(len, upper)) <= branching


@both_partitioners
def test_the_ring_stays_within_its_figures(partitioner: str) -> None:
    """1,200 sites and groups; the figures are those wanted of 10,000 (bench/forest.py)."""
    table = random_table(1200, 1200, 5, 1, spread=10.0)
    measured = measure(build_balanced(table, partitioner=partitioner), table)
    assert measured.depth_mean <= 1.65
    assert measured.extra_mean <= 1.9
    assert measured.load_max <= 320


def test_what_is_chosen_follows_the_cost_that_is_given() -> None:
    table = random_table(300, 300, 4, 1, spread=5.0)

    def built_for(cost: Callable[[Metrics], float]) -> Metrics:
        def price(indexed: IndexedTable, parent: Sequence[int], primary: Sequence[int]) -> float:
            return cost(measure_indexed(indexed, parent, primary))

        return measure(build_balanced(table, cost=price, partitioner="builtin"), table)

    for_load = built_for(lambda metrics: max(metrics.weighted_load))
    for_extra = built_for(lambda metrics: metrics.extra_mean)
    assert for_load.load_max < for_extra.load_max / 3
    assert for_extra.extra_mean < for_load.extra_mean / 1.5


def test_groups_with_much_traffic_are_kept_together() -> None:
    ring = random_table(600, 600, 5, 1, spread=10.0)
    busy = [f"g{i}" for i in range(0, 600, 30)]
    table = GroupTable.of(ring.groups, sites=ring.sites, rates=dict.fromkeys(busy, 100.0))

    def depth_of_busy(of: GroupTable) -> float:
        forest = build_balanced(of, leaf=30, branching=4)
        depths = dict(zip(sorted(of.groups), measure(forest, of).depth, strict=True))
        return sum(depths[group] for group in busy) / len(busy)

    assert depth_of_busy(table) < 1.2 < 1.4 < depth_of_busy(ring)


def test_small_domains_may_be_flat_like_a_star() -> None:
    table = GroupTable.of({f"g{i}": [f"a{i}", f"b{i}", f"c{i}"] for i in range(40)})
    forest = build_balanced(table)
    assert forest.parent == build_star(table).parent
    assert forest.detail == "flat, every domain a single part"


def test_the_detail_says_what_was_chosen() -> None:
    table = random_table(400, 400, 5, 1, spread=10.0)
    detail = build_balanced(table, branching=4, leaf=50, partitioner="metis").detail
    assert re.fullmatch(r"branching 4, flat parts of about (4\d|50), partitioned by METIS", detail)
    detail = build_balanced(table, leaf=40, partitioner="builtin").detail
    assert detail.startswith("branching ")
    assert detail.endswith("partitioned by the built-in partitioner")


@both_partitioners
def test_the_forest_does_not_depend_on_hashing_or_on_the_order_in_the_file(
    partitioner: str,
) -> None:
    program = (
        "import json; from support.cases.tables import random_table;"
        "from ordercast.forest.balanced import build_balanced;"
        "from ordercast.model.groups import GroupTable;"
        "t = random_table(250, 200, 4, 5, spread=8.0);"
        "u = GroupTable(t.sites[::-1], {g: t.groups[g][::-1] for g in reversed(t.groups)});"
        f"f, g = (build_balanced(x, partitioner={partitioner!r}) for x in (t, u));"
        "assert f.parent == g.parent and f.primary == g.primary;"
        "print(json.dumps([f.parent, f.primary, f.detail]))"
    )
    outputs = set(under_hash_seeds("-c", program))
    assert len(outputs) == 1
    assert "branching" in outputs.pop()


def test_the_built_in_partitioner_needs_nothing_installed() -> None:
    program = (
        "import sys; from support.cases.tables import random_table;"
        "from ordercast.forest.balanced import build_balanced;"
        "build_balanced(random_table(200, 200, 4, 1), partitioner='builtin');"
        "assert 'numpy' not in sys.modules and 'pymetis' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": "tests"}, check=True)


def test_without_the_extra_the_built_in_partitioner_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    table = random_table(200, 200, 5, 1, spread=10.0)
    assert "built-in" in build_balanced(table, leaf=20).detail
    with pytest.raises(ConfigError, match="'metis' needs the extra 'partition'"):
        build_balanced(table, partitioner="metis")


def test_bad_arguments_are_named() -> None:
    table = GroupTable.of({"alpha": ["a", "b"]})
    with pytest.raises(ConfigError, match="branching: 1 is too few"):
        build_balanced(table, branching=1)
    with pytest.raises(ConfigError, match="leaf: 1 is too few"):
        build_balanced(table, leaf=1)
    with pytest.raises(ConfigError, match=r"'meits' is unknown \(did you mean 'metis'\?\)"):
        build_balanced(table, partitioner="meits")
