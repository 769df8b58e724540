"""Random fault schedules of the swap family, by itself and through epochs."""

import pytest

from ordercast.sim.schedules import LONG_EVERY, changing, schedule
from ordercast.sim.simulate import simulate
from support.cases.schedules import deep, failures

CHUNK = 20
FAMILY = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")
CORES = ("hybrid:1", "hybrid:2", "hybrid:4", "hybrid:99")
GROUPS = ("hybrid:1:2", "hybrid:1:4", "hybrid:2:3")
SCHEDULES, CHANGING = 60, 5
SHORT = 5_000  # events at most


@pytest.mark.parametrize("protocol", FAMILY)
@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_a_swap_protocol_keeps_its_guarantees(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK)) == []


@pytest.mark.parametrize("protocol", CORES)
def test_a_hybrid_keeps_its_guarantees_with_a_core_of_any_size(protocol: str) -> None:
    assert failures(protocol, range(1, CHUNK // 2 + 1)) == []
    assert failures(protocol, range(1, 3), changing) == []


@pytest.mark.parametrize("protocol", GROUPS)
def test_a_hybrid_keeps_its_guarantees_with_arrow_groups_below_its_core(protocol: str) -> None:
    assert failures(protocol, range(1, CHUNK // 2 + 1), deep(schedule)) == []
    assert failures(protocol, range(1, 3), deep(changing)) == []


@pytest.mark.parametrize("protocol", FAMILY)
def test_a_swap_protocol_keeps_its_guarantees_through_epochs(protocol: str) -> None:
    assert failures(protocol, range(1, CHANGING + 1), changing) == []


@pytest.mark.parametrize("protocol", FAMILY)
def test_a_short_schedule_stays_short(protocol: str) -> None:
    for seed in range(1, LONG_EVERY, 7):
        assert simulate(schedule(protocol, seed), seed).events <= SHORT
