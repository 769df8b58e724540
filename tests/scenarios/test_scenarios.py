"""Small runs with their expected outcome, one TOML file each.

`[options]` are those of `ordercast sim`; `[expect]` says what comes out, and `[expect.deliveries]`
what each site delivered: origin, group and seq, in order. For a new scenario write the file
without `[expect]`, run this file as a script with its name, and judge what it prints.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.groups import GroupTable
from ordercast.sim.options import configure
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate

HERE = Path(__file__).resolve().parent
SCENARIOS = sorted(HERE.glob("*.toml"))


def load(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def run(scenario: dict[str, Any]) -> SimResult:
    table = GroupTable.of(scenario["groups"], sites=scenario.get("sites"))
    return simulate(configure(table, scenario["options"], read=_no_file), scenario["seed"])


def _no_file(name: str) -> str:
    raise AssertionError(f"a scenario is one file, but it names {name}")


def outcome(result: SimResult) -> dict[str, Any]:
    deliveries: dict[str, str] = {}
    for row in sorted(result.history.deliveries, key=lambda row: (row.site, row.position)):
        shown = f"{row.origin}:{row.group_name}:{row.seq}"
        deliveries[row.site] = f"{deliveries.get(row.site, '')} {shown}".strip()
    return {
        "sent": result.sent,
        "delivered": result.delivered,
        "data_frames": result.data_frames,
        "faults": result.faults,
        "violations": [violation._asdict() for violation in result.violations],
        "deliveries": deliveries,
    }


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_a_scenario_comes_out_as_expected(path: Path) -> None:
    scenario = load(path)
    found = outcome(run(scenario))
    expected = scenario["expect"]
    assert {name: found[name] for name in expected} == expected


def test_every_protocol_has_a_scenario() -> None:
    found = {load(path)["options"].get("protocol", "propagation") for path in SCENARIOS}
    assert found == set(PROTOCOLS)


if __name__ == "__main__":
    for name, value in outcome(run(load(HERE / sys.argv[1]))).items():
        print(name, "=", value)
