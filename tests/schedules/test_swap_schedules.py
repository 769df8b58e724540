"""Random fault schedules of the swap family, by itself and through epochs."""

import pytest

from ordercast.sim.schedules import LONG_EVERY, changing, schedule
from ordercast.sim.simulate import simulate
from support.cases.schedules import failures

CHUNK = 20
FAMILY = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")
SCHEDULES, CHANGING = 100, 5
SHORT = 5_000  # events at most


@pytest.mark.parametrize("protocol", FAMILY)
@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_a_swap_protocol_keeps_its_guarantees(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK)) == []


@pytest.mark.parametrize("protocol", FAMILY)
def test_a_swap_protocol_keeps_its_guarantees_through_epochs(protocol: str) -> None:
    assert failures(protocol, range(1, CHANGING + 1), changing) == []


@pytest.mark.parametrize("protocol", FAMILY)
def test_a_short_schedule_stays_short(protocol: str) -> None:
    for seed in range(1, LONG_EVERY, 7):
        assert simulate(schedule(protocol, seed), seed).events <= SHORT


REGRESSIONS = {
    "a request that had been heard was told again without its body, and never taken": (
        ("combining", 1_593),
        ("hybrid", 1_077),
        ("hybrid", 1_245),
    ),
    "an origin that was no member took its batch for one without bytes": (
        ("arrow_counting", 2_750),
    ),
    "after a restart a batch went another way than one before it that had no place yet": (
        ("combining_counting", 2_853),
    ),
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("sentence", REGRESSIONS)
def test_a_bug_of_the_swap_family_stays_fixed(sentence: str) -> None:
    for protocol, seed in REGRESSIONS[sentence]:
        assert failures(protocol, range(seed, seed + 1)) == []
