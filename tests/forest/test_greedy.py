"""The fast generator against the literal one, PG1 to PG3, and determinism."""

import json
import random

import pytest
from hypothesis import given, settings

from forest.literal_generator import literal_forest
from ordercast.forest.greedy import build_greedy
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from support.cases.tables import random_table, tables
from support.harness.commands import under_hash_seeds
from support.judges.forests import problems


def assert_equals_literal(table: GroupTable, tie: tuple[str, ...] = ()) -> None:
    forest = build_greedy(table, tie=tie)
    parent, primary = literal_forest(table.groups, tie)
    idle = set(table.sites).difference(parent)
    assert forest.primary == primary
    assert forest.parent == {**parent, **dict.fromkeys(idle)}


@given(tables())
@settings(max_examples=400, deadline=None)
def test_equals_the_literal_pseudo_code(table: GroupTable) -> None:
    assert_equals_literal(table)
    assert_equals_literal(table, tuple(reversed(table.sites)))


@pytest.mark.parametrize(("sites", "groups", "size"), [(40, 60, 3), (80, 60, 2), (60, 25, 12)])
def test_equals_the_literal_pseudo_code_on_larger_tables(
    sites: int, groups: int, size: int
) -> None:
    for seed in range(8):
        assert_equals_literal(random_table(sites, groups, size, seed))
        assert_equals_literal(random_table(sites, groups, size, seed, spread=3.0))


@pytest.mark.parametrize(
    ("sites", "groups", "size", "spread", "seed"),
    [(30, 20, 2, None, 13), (40, 40, 3, None, 3), (60, 50, 3, 3.0, 0), (60, 50, 4, 3.0, 18)],
)
def test_searches_that_meet_out_of_turn_are_joined(
    sites: int, groups: int, size: int, spread: float | None, seed: int
) -> None:
    """Here they were once counted as ended twice, and parts that meet came out apart."""
    assert_equals_literal(random_table(sites, groups, size, seed, spread=spread))


def test_middling_random_tables_give_correct_forests() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        sites, size = rng.randrange(20, 100), rng.randrange(2, 5)
        spread = rng.choice([None, 3.0])
        table = random_table(sites, rng.randrange(20, 80), size, seed, spread=spread)
        assert problems(build_greedy(table), table) == []


@given(tables())
@settings(max_examples=300, deadline=None)
def test_pg1_to_pg3_hold(table: GroupTable) -> None:
    forest = build_greedy(table)
    assert problems(forest, table) == []
    assert all(forest.primary[group] in members for group, members in table.groups.items())


def test_a_path_of_twenty_thousand_sites_needs_no_recursion() -> None:
    pairs = {f"g{i:05}": [f"s{i:05}", f"s{i + 1:05}"] for i in range(20_000)}
    forest = build_greedy(GroupTable.of(pairs))
    assert sum(above is None for above in forest.parent.values()) == 1


def test_the_forest_does_not_depend_on_hashing_or_on_the_order_in_the_file() -> None:
    program = (
        "import json; from support.cases.tables import random_table;"
        "from ordercast.forest.greedy import build_greedy;"
        "from ordercast.model.groups import GroupTable;"
        "t = random_table(120, 90, 4, 5);"
        "u = GroupTable(t.sites[::-1], {g: t.groups[g][::-1] for g in reversed(t.groups)});"
        "f, g = build_greedy(t), build_greedy(u);"
        "assert f.parent == g.parent and f.primary == g.primary;"
        "print(json.dumps([f.parent, f.primary]))"
    )
    outputs = set(under_hash_seeds("-c", program))
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())[0]) == 120


def test_an_unknown_or_repeated_site_in_tie_is_named() -> None:
    table = GroupTable.of({"alpha": ["anna", "berta"]})
    with pytest.raises(ConfigError, match=r"tie: there is no site 'ana' \(did you mean 'anna'\?\)"):
        build_greedy(table, tie=["ana"])
    with pytest.raises(ConfigError, match="tie: site 'anna' is listed twice"):
        build_greedy(table, tie=["anna", "anna"])
