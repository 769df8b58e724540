"""What one message costs in a run grows with the sites, not with their square. Calls are counted:
unlike times they are the same in every run."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.simulate import simulate

LINEAR = ("propagation", "centralized", "two_phase", "arrow", "ring")


def calls_of(work: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def one_message(protocol: str, sites: int) -> None:
    table = GroupTable.of({"all": [f"s{number:03}" for number in range(sites)]})
    result = simulate(SimConfig(table, protocol, messages=1), seed=1)
    assert result.ok, result.violations


@pytest.mark.parametrize("protocol", LINEAR)
def test_one_message_costs_as_much_as_there_are_sites(protocol: str) -> None:
    few, many = (calls_of(partial(one_message, protocol, sites)) for sites in (40, 160))
    assert many < 4.6 * few  # four times the sites; 16 times where each looks at all others
