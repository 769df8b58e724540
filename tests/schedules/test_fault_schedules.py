"""Random fault schedules, the same every time: no violation in any of them."""

import pytest

from ordercast.sim.schedules import LONG_EVERY, schedule
from ordercast.sim.simulate import simulate
from support.cases.schedules import failures

CHUNK = 10
PROPAGATION, CENTRALIZED = 200, 60
SHORT = 3_000  # events at most


@pytest.mark.parametrize("first", range(1, PROPAGATION + 1, CHUNK))
def test_propagation_keeps_its_guarantees(first: int) -> None:
    assert failures("propagation", range(first, first + CHUNK)) == []


@pytest.mark.parametrize("first", range(1, CENTRALIZED + 1, CHUNK))
def test_centralized_keeps_its_guarantees(first: int) -> None:
    assert failures("centralized", range(first, first + CHUNK)) == []


@pytest.mark.parametrize("protocol", ["propagation", "centralized"])
def test_a_short_schedule_takes_at_most_3000_events(protocol: str) -> None:
    for seed in range(1, LONG_EVERY):
        assert simulate(schedule(protocol, seed), seed).events <= SHORT
