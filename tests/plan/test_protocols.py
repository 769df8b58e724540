"""Advice on protocols: the best by the objective, the table behind it, and the network's part."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ordercast.cli import main
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import advise
from ordercast.plan.objectives import EVERY_OBJECTIVE, NetworkModel
from ordercast.plan.protocols import PROFILES, advise_protocol, as_json, rows_of
from support.cases.tables import random_table

TABLE = random_table(12, 6, 4, 3)


def test_every_protocol_of_the_registry_has_costs_and_words() -> None:
    assert set(PROFILES) == set(PROTOCOLS)
    advice = advise_protocol(advise(TABLE), TABLE)
    assert [option.protocol for option in advice.options] == list(PROFILES)


@pytest.mark.parametrize("objective", EVERY_OBJECTIVE)
def test_the_best_by_the_objective_is_recommended(objective: str) -> None:
    for seed in range(8):
        table = random_table(12, 6, 4, seed)
        advice = advise_protocol(advise(table, objective=objective), table)
        least = min(option.values.of(objective) for option in advice.options)
        assert advice.chosen.values.of(objective) == pytest.approx(least)
        named = f"{advice.chosen.protocol} on {advice.chosen.builder} "
        assert advice.reasons[0].startswith(named)


def test_protocols_that_run_anywhere_are_measured_on_the_plans_forest() -> None:
    for builder in ("star", "greedy", "balanced"):
        plan = advise(TABLE, builder)
        forests = {o.protocol: o.builder for o in advise_protocol(plan, TABLE, builder).options}
        assert forests["propagation"] == forests["arrow"] == builder
        assert (forests["centralized"], forests["metagroup"]) == ("star", "metagroups")


def test_the_network_decides_between_hops_and_messages() -> None:
    """Three hops of two-phase are dear where hops are, its messages where messages are."""

    def delays(model: NetworkModel) -> dict[str, float]:
        plan = advise(TABLE, model=model)
        return {
            o.protocol: o.values.delay for o in advise_protocol(plan, TABLE, "auto", model).options
        }

    far, slow = delays(NetworkModel(1.0, 0.0)), delays(NetworkModel(0.0, 1e-6))
    assert far["two_phase"] == pytest.approx(3.0)
    assert far["centralized"] < far["two_phase"] < far["ring"]
    assert slow["symmetric"] > 3 * slow["propagation"]


def test_an_overload_is_said_and_not_given_as_a_delay() -> None:
    busy = GroupTable(TABLE.sites, TABLE.groups, dict.fromkeys(TABLE.groups, 50_000.0))
    advice = advise_protocol(advise(busy), busy)
    found = as_json(advice)
    assert found["protocols"]["symmetric"]["delay_ms"] is None
    assert advice.reasons[0].startswith("Every protocol gives some site more than it can handle")
    assert any("overloaded" in row for row in rows_of(advice))


def test_an_overload_is_measured_and_the_rate_that_would_do_is_told() -> None:
    table = GroupTable.of({"g": ["a", "b", "c", "d", "e"]}, rates={"g": 1_000.0})
    model = NetworkModel(5e-3, 1e-3)
    advice = advise_protocol(advise(table, model=model), table, "auto", model)
    assert advice.reasons[0].startswith(
        "Every protocol gives some site more than it can handle at 1,000 messages per second; arrow"
        " on star the least, 288 % busy at a (it takes fewer than 347 per second); hybrid is equal;"
        " then combining_counting 320 % busy at a,"
    )


def test_who_cannot_keep_up_is_named_apart_from_those_who_are_slower() -> None:
    table = GroupTable.of({"ab": ["a", "b"], "bc": ["b", "c"], "cd": ["c", "d"], "de": ["d", "e"]})
    model = NetworkModel(5e-3, 1e-3)
    reason = advise_protocol(advise(table, model=model), table, "auto", model).reasons[0]
    able, _, others = reason.partition("; overloaded: ")
    assert "; metagroup " in able
    assert others.startswith("tom, two_phase, ")


def test_genuine_is_said_of_these_groups() -> None:
    """Who has no relays, or no site outside the group, is."""
    one = GroupTable.of({"g": ["a", "b", "c"]})
    assert {option.genuine for option in advise_protocol(advise(one), one).options} == {"yes"}
    two = GroupTable.of({"g": ["a", "b"], "h": ["b", "c"]})
    found = {o.protocol: o.genuine for o in advise_protocol(advise(two), two).options}
    assert (found["propagation"], found["two_phase"], found["ring"]) == ("yes", "yes", "no")
    found = {o.protocol: o.genuine for o in advise_protocol(advise(TABLE), TABLE).options}
    assert found["centralized"] == "relays too"


def test_rounding_decides_nothing() -> None:
    """A group of one costs nothing by any protocol: the first is recommended."""
    alone = GroupTable.of({"g": ["a"]})
    advice = advise_protocol(advise(alone), alone)
    assert advice.chosen.protocol == "propagation"
    equal = advice.reasons[0].partition("; ")[2].partition(" are equal")[0]
    assert re.split(", | and ", equal) == [name for name in PROFILES if name != "propagation"]
    assert min(option.values.delay for option in advice.options) == 0.0


def test_another_objective_is_compared_on_every_forest_that_was_built() -> None:
    """A star is the quickest here; what loads nobody much runs on another forest."""
    groups = {f"g{n}": [f"s{n}", f"s{n + 1}", f"s{n + 2}"] for n in range(9)}
    table = GroupTable.of(groups)
    plan = advise(table)
    advice = advise_protocol(plan, table)
    assert plan.chosen.builder == "star"
    assert any("If load matters more: propagation on greedy" in each for each in advice.reasons)


def test_many_sites_get_no_forest_that_the_plan_did_not_build() -> None:
    groups = {f"g{n}": [f"s{n}", f"s{n + 1}"] for n in range(5_100)}
    table = GroupTable.of(groups)
    advice = advise_protocol(advise(table, "star"), table, "star")
    missing = set(PROFILES) - {option.protocol for option in advice.options}
    assert missing == {"metagroup", "tom"}
    assert advice.reasons[-1].startswith("Not compared: metagroup, tom, for which")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["plan", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"groups": {g: list(m) for g, m in TABLE.groups.items()}}))
    return str(path)


def test_the_verb_shows_the_table_behind_its_advice(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = run(capsys, file)
    shown = text.split("Protocols:")[1]
    assert all(f" {protocol} " in shown for protocol in PROFILES)
    code, out, _ = run(capsys, file, "--json", "--network", "p2p:P=1us,L=5ms")
    found: dict[str, Any] = json.loads(out)
    assert code == 0
    assert found["protocol"] in found["protocols"]
    assert found["protocol_reasons"]
    two_phase = found["protocols"]["two_phase"]
    assert two_phase["messages"] == 9
    assert 15 < two_phase["delay_ms"] < 16
    assert set(two_phase) == {
        "builder", "delay_ms", "messages", "load", "busiest", "utilisation", "genuine",
        "crash_stops",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("network", "line"),
    [
        ("lann", "network: there is no 'lann' (did you mean 'lan'?)"),
        ("broadcast:T=2ms", "network: 'broadcast' is one medium for all"),
        ("p2p:Q=1ms", "network: 'p2p' has no parameter 'Q'"),
    ],
)
def test_a_network_that_makes_no_sense_is_one_line(
    network: str, line: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, file, "--network", network)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"ordercast: {line}")
