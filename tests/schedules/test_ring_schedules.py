"""`ring`: random fault schedules by itself and through epochs; its broken variants are caught."""

import pytest

from ordercast.sim.schedules import LONG_EVERY, changing, schedule
from ordercast.sim.simulate import simulate
from schedules.ring_mutants import RING_MUTANTS
from schedules.test_direct_mutants import SCHEDULES as TRIED
from schedules.test_direct_mutants import config_of, first_caught
from support.cases.schedules import failures

CHUNK = 10
SCHEDULES, CHANGING = 60, 10
SHORT = 6_000  # events at most


@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_a_ring_keeps_its_guarantees(first: int) -> None:
    assert failures("ring", range(first, first + CHUNK)) == []


@pytest.mark.parametrize("first", range(1, CHANGING + 1, CHUNK))
def test_a_ring_keeps_its_guarantees_through_epochs(first: int) -> None:
    assert failures("ring", range(first, first + CHUNK), changing) == []


def test_a_short_schedule_of_a_ring_stays_short() -> None:
    for seed in range(1, LONG_EVERY // 2):
        assert simulate(schedule("ring", seed), seed).events <= SHORT


@pytest.mark.parametrize("name", RING_MUTANTS)
def test_a_mutant_of_the_ring_is_caught_where_the_ring_passes(name: str) -> None:
    kind = RING_MUTANTS[name]
    caught = first_caught(kind)
    assert caught is not None, f"{name} survived {TRIED} schedules"
    assert caught[1] != "breakdown"
    assert not simulate(config_of(kind, caught[0]), caught[0]).violations


REGRESSIONS = {
    "an answer to an origin outside was lost in a restart": (310, 328, 460),
    "an own batch whose number was forgotten was numbered again after a restart": (367,),
}


@pytest.mark.parametrize("sentence", REGRESSIONS)
def test_a_bug_of_the_ring_stays_fixed(sentence: str) -> None:
    for seed in REGRESSIONS[sentence]:
        assert failures("ring", range(seed, seed + 1)) == []
