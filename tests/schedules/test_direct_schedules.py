"""Random fault schedules of the protocols without a tree, by themselves and through epochs."""

from collections.abc import Sequence

import pytest

from ordercast.sim.schedules import LONG_EVERY, changing, schedule
from ordercast.sim.simulate import simulate
from support.cases.epoch_schedules import schedule as epoch_schedule
from support.cases.schedules import failures

CHUNK = 10
DIRECT = ("two_phase", "symmetric")
EVERY = (*DIRECT, "propagation", "centralized")
SCHEDULES, CHANGING, EPOCHS = 60, 10, 20
SHORT = {"two_phase": 3_000, "symmetric": 5_000}  # events at most; of 9 sites each asks 8


@pytest.mark.parametrize("protocol", DIRECT)
@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_a_direct_protocol_keeps_its_guarantees(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK)) == []


@pytest.mark.parametrize("protocol", DIRECT)
@pytest.mark.parametrize("first", range(1, CHANGING + 1, CHUNK))
def test_a_direct_protocol_keeps_its_guarantees_through_epochs(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK), changing) == []


@pytest.mark.parametrize("protocol", DIRECT)
def test_a_short_schedule_stays_short(protocol: str) -> None:
    for seed in range(1, LONG_EVERY):
        assert simulate(schedule(protocol, seed), seed).events <= SHORT[protocol]


def switching(seed: int) -> Sequence[object]:
    """Any of them to begin with; then changes of groups, sites, builders and protocols."""
    begins = seed % len(EVERY)
    return epoch_schedule(seed, protocols=EVERY[begins:] + EVERY[:begins]).judge()


@pytest.mark.parametrize("first", range(0, EPOCHS, CHUNK))
def test_live_switches_between_trees_and_none_keep_the_guarantees(first: int) -> None:
    assert [seed for seed in range(first, first + CHUNK) if switching(seed)] == []


REGRESSIONS = {
    "a sealed site that restarted did not tell again what others waited for": (80,),
    "own batches that were final, but kept behind another, were numbered again after a restart": (
        145,
        160,
        233,
    ),
    "a restarted site forgot what it had stamped last for an origin outside": (10_045,),
}


@pytest.mark.parametrize("sentence", REGRESSIONS)
def test_a_bug_of_the_direct_protocols_stays_fixed(sentence: str) -> None:
    assert [seed for seed in REGRESSIONS[sentence] if switching(seed)] == []
