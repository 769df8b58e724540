"""The planner's choice: the best by the objective, ties by the others, and reasons that say so."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.packing import pack_layout
from ordercast.forest.forest import under_one_root
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.star import build_star
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import Plan, advise, rank
from ordercast.plan.candidates import BUILDERS
from ordercast.plan.objectives import EVERY_OBJECTIVE
from ordercast.plan.reasons import packed_bytes
from support.cases.tables import FIGURE_3, FIGURE_3_TIE, FIGURE_5, random_table, table_of, tables
from support.judges.forests import problems


def said(plan: Plan) -> str:
    return "\n".join(plan.reasons)


@settings(max_examples=60, deadline=None)
@given(table=tables(), objective=st.sampled_from(EVERY_OBJECTIVE))
def test_auto_is_never_worse_than_any_builder_by_the_objective(
    table: GroupTable, objective: str
) -> None:
    plan = advise(table, objective=objective)
    assert [candidate.builder for candidate in plan.compared] == list(BUILDERS)
    best = min(candidate.values.of(objective) for candidate in plan.compared)
    assert plan.chosen.values.of(objective) == pytest.approx(best)
    ranked = sorted(plan.compared, key=lambda each: rank(each.values, objective, each.builder))
    assert plan.chosen is ranked[0]
    assert problems(plan.forest, table) == []
    assert plan.forest is plan.chosen.forest


@pytest.mark.parametrize("builder", BUILDERS)
def test_a_builder_asked_for_is_used_and_no_other_built(builder: str) -> None:
    plan = advise(table_of(FIGURE_3), builder=builder)
    assert [candidate.builder for candidate in plan.compared] == [builder]
    assert plan.reasons[0].startswith(f"{builder} was asked for: ")


def test_figure_3_by_each_objective() -> None:
    table = table_of(FIGURE_3)
    quick = advise(table, objective="delay", tie=FIGURE_3_TIE)
    assert quick.chosen.builder == "star"
    assert quick.reasons[0].startswith("star has the shortest estimated delay, 0.48 ms on average")
    assert "greedy 0.53 ms (9 % more)" in quick.reasons[0]
    assert "the busiest site of greedy, d, has a load of 9, star 24;" in said(quick)
    light = advise(table, objective="load", tie=FIGURE_3_TIE)
    assert light.chosen.builder == "greedy"
    assert light.reasons[0].startswith("greedy puts the least on its busiest site, 9 (d;")
    assert "star 24 (2.7 times as much)" in light.reasons[0]
    short = advise(table, objective="messages", tie=FIGURE_3_TIE)
    assert short.chosen.builder == "greedy"
    assert "needs the fewest messages, 2.5 per send" in short.reasons[0]


def test_load_by_rates_is_said_to_be_that() -> None:
    groups = {"x": ["a", "b"], "y": ["b", "c"]}
    rated = advise(GroupTable.of(groups, rates={"x": 3.0}), objective="load")
    assert "groups counted by their rates" in rated.reasons[0]
    assert "one message to each group" in advise(GroupTable.of(groups), objective="load").reasons[0]


def test_equal_structures_go_to_the_simplest_builder() -> None:
    plan = advise(GroupTable.of({"pair": ["a", "b"]}))
    assert plan.chosen.builder == "star"
    assert "greedy" in plan.reasons[0]
    assert plan.reasons[0].endswith("star is simpler.")


def test_equal_by_the_objective_is_decided_by_the_others() -> None:
    """Star and greedy both need 2 messages a send here; only the star has all load in one place."""
    table = GroupTable.of({f"g{i}": ["hub", f"s{i}"] for i in range(3)} | {"far": ["s0", "t"]})
    plan = advise(table, objective="messages")
    star, greedy, _ = plan.compared
    assert greedy.values.messages < star.values.messages
    assert plan.chosen.builder != "star"


def test_rates_move_the_choice() -> None:
    """Busy groups of few, idle ones of many: what is idle does not count."""
    groups = {"busy": ["a", "b"], "bulk": ["b", *(f"x{i}" for i in range(30))]}
    idle = GroupTable.of(groups, rates={"busy": 1000.0, "bulk": 0.0})
    assert advise(idle).chosen.values.messages == pytest.approx(2.0)
    assert advise(GroupTable.of(groups)).chosen.values.messages == pytest.approx(16.5)


def test_a_difference_too_small_to_show_is_called_that() -> None:
    groups = {"much": ["a", "b"], "little": ["b", "c"], "least": ["c", "d"]}
    table = GroupTable.of(groups, rates={"much": 1000.0, "little": 1e-3, "least": 1e-3})
    assert "(hardly more)" in advise(table).reasons[0]


def test_the_assumed_rate_is_said_only_without_rates() -> None:
    assert "1,000 messages per second in all are assumed" in said(advise(table_of(FIGURE_3)))
    table = GroupTable.of({"x": ["a", "b"]}, rates={"x": 10.0})
    assert "assumed" not in said(advise(table))
    silent = GroupTable.of({"x": ["a", "b"]}, rates={"x": 0.0})
    assert "All rates are 0" in said(advise(silent))


def test_an_overloaded_site_is_named_and_its_builder_ranks_last() -> None:
    """200 pairs in a line, 300 messages a second to each: too much for one site, not for many."""
    groups = {f"g{i:03}": [f"s{i:03}", f"s{i + 1:03}"] for i in range(200)}
    table = GroupTable.of(groups, rates=dict.fromkeys(groups, 300.0))
    plan = advise(table)
    star = plan.compared[0]
    assert star.values.overloaded
    assert not plan.chosen.values.overloaded
    assert "star is overloaded" in plan.reasons[0]
    sentence = next(reason for reason in plan.reasons if reason.startswith("With star, "))
    assert star.busiest in sentence
    assert "at 20 microseconds each it manages 50,000" in sentence


def test_when_every_builder_overloads_a_site_the_least_overloaded_is_chosen() -> None:
    table = GroupTable.of({"x": ["a", "b"]}, rates={"x": 60_000.0})
    plan = advise(table)
    assert plan.reasons[0] == (
        "Every builder gives some site more than it can handle; star the least:"
        " a would need 240 % of its time."
    )


def test_a_site_with_little_time_left_is_named() -> None:
    table = GroupTable.of({"x": ["a", "b"]}, rates={"x": 20_000.0})
    assert "a is busy 80 % of the time: little is left for bursts." in advise(table).reasons


def test_for_spread_out_groups_the_root_of_the_balanced_tree_is_named() -> None:
    spread = advise(random_table(200, 100, 10, seed=1), builder="balanced")
    sentence = next(r for r in spread.reasons if "begin at the root of the balanced tree" in r)
    roots = [site for site, parent in spread.forest.parent.items() if parent is None]
    assert any(f"tree, {root}:" in sentence for root in roots)
    local = advise(random_table(400, 300, 5, seed=1, spread=3.0), builder="balanced")
    assert "begin at the root" not in said(local)


def test_many_small_trees_have_no_crowded_root() -> None:
    table = GroupTable.of({f"g{i}": [f"a{i}", f"b{i}", f"c{i}"] for i in range(40)})
    assert "begin at the root" not in said(advise(table))


def test_what_balanced_chose_by_itself_is_said() -> None:
    plan = advise(random_table(200, 100, 5, seed=1, spread=3.0), builder="balanced")
    assert plan.forest.detail
    assert f"balanced: {plan.forest.detail}." in plan.reasons


def test_rings_of_groups_are_said_to_cost_more_in_failures() -> None:
    ring = GroupTable.of({"x": ["a", "b"], "y": ["b", "c"], "z": ["c", "a"], "w": ["a", "d"]})
    plan = advise(ring)
    assert ("w", "x", "z") in plan.cyclic or any(len(c) >= 3 for c in plan.cyclic)
    assert "groups overlap in rings" in said(plan)
    line = GroupTable.of({"x": ["a", "b"], "y": ["b", "c"], "z": ["c", "d"]})
    assert advise(line).cyclic == ()
    assert "rings" not in said(advise(line))


def test_idle_sites_are_named() -> None:
    table = GroupTable.of({"x": ["a", "b"]}, sites=["a", "b", "c", "d"])
    assert "c and d are in no group and take no part." in advise(table).reasons


def test_rebalancing_says_what_it_won_and_what_it_cost() -> None:
    table = table_of(FIGURE_5)
    plan = advise(table, builder="greedy", tie=("b",), rebalance=True)
    assert plan.metrics.load_max == 8
    assert (
        "Rebalancing brought the highest load from 11 to 8;"
        " the mean depth went from 1.00 to 1.33." in plan.reasons
    )
    assert (
        "Rebalancing found nothing to move."
        in advise(GroupTable.of({"x": ["a", "b"]}), rebalance=True).reasons
    )


def test_domains_are_counted() -> None:
    table = GroupTable.of({"x": ["a", "b"], "y": ["c", "d"], "z": ["d", "e"]})
    assert advise(table).domains == 2


def test_reasons_are_sentences_on_one_line() -> None:
    for objective in EVERY_OBJECTIVE:
        for reason in advise(random_table(60, 40, 4, seed=2), objective=objective).reasons:
            assert re.fullmatch(r"\S.*\.", reason)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"builder": "gredy"}, "there is no builder 'gredy' (did you mean 'greedy'?)"),
        ({"objective": "lod"}, "there is no objective 'lod' (did you mean 'load'?)"),
        ({"builder": "balanced", "branching": 1}, "branching: 1 is too small"),
        ({"builder": "star", "branching": 4}, "branching: shapes 'balanced' only, not 'star'"),
        ({"builder": "star", "tie": ("a",)}, "tie: settles ties of 'greedy' only, not of 'star'"),
        ({"tie": ("aa",)}, "tie: there is no site 'aa' (did you mean 'a'?)"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        advise(table_of(FIGURE_3), **options)  # type: ignore[arg-type]


def test_what_a_cluster_could_not_hold_is_told() -> None:
    path = GroupTable.of({f"g{n:04}": (f"s{n:04}", f"s{n + 1:04}") for n in range(4_200)})
    deep = said(advise(path, "greedy"))
    assert "A tree of greedy is 4,1" in deep
    assert "sites deep, and no epoch opens one deeper than 4,096" in deep
    flat = said(advise(path, "star"))
    assert "sites deep" not in flat
    crowded = GroupTable.of({f"g{n:05}": ("hub", f"s{n:05}") for n in range(16_385)})
    told = said(advise(crowded, "star"))
    assert "hub is in 16,385 groups, and what sites tell each other" in told
    apart = GroupTable.of({f"g{n:04}": (f"a{n:04}", f"b{n:04}") for n in range(4_000)})
    told = said(advise(apart, "star"))
    assert "4,000 domains among 8,000 sites: who is outside of which takes 1.2 GB" in told
    assert "clusters of their own" not in flat
    assert "is in" not in flat


def test_a_layout_that_fits_into_no_frame_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an estimate, which is about what the layout's bytes are."""
    table = random_table(3_000, 2_000, 6, seed=1)
    layout = first_layout(
        table.sites, table.sites[:3], table.groups, "star", "propagation",
        lambda part, _builder, _protocol: under_one_root(build_star(part)), whole=True,
    )  # fmt: skip
    real = len(pack_layout(layout))
    estimated = packed_bytes(IndexedTable.of(table))
    assert real <= estimated <= 1.5 * real
    assert "it cannot be sent to a new site" not in said(advise(table, "star"))
    monkeypatch.setattr("ordercast.plan.reasons.FOLDED_BYTES", estimated - 1)
    assert "and a frame room for 0: it cannot be sent to a new site." in said(advise(table, "star"))


def test_a_large_domain_is_told_what_it_costs_beside_its_messages() -> None:
    sites = [f"s{number:04}" for number in range(1_200)]
    chained = {f"g{place}": sites[place : place + 2] for place in range(1_100)}
    told = said(advise(GroupTable.of(chained, sites=sites), "star"))
    assert "The groups of 1,101 sites overlap, so these are one domain: a join or a leave" in told
    assert 'A group has 2.0 members on average: reports within groups (stability = "plain")' in told
    whole = said(advise(GroupTable.of({"all": sites}), "star"))
    assert "The groups of 1,200 sites overlap" in whole
    assert "reports within groups" not in whole
    del chained["g550"]
    assert "overlap, so these are one domain" not in said(
        advise(GroupTable.of(chained, sites=sites), "star")
    )
