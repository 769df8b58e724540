"""Every broken protocol is caught within 200 short schedules."""

from dataclasses import replace

import pytest

from ordercast.sim.schedules import LONG_EVERY, schedule
from schedules.mutants import MUTANTS, Broken
from support.worlds.engines import simulate_with

SCHEDULES = 200
# Where each was caught when this was written: the search of all begins there, and is short.
KNOWN = {"KeyForgetsOthers": 52, "PromisesBeforeDurable": 21}


def first_caught(kind: type[Broken]) -> tuple[int, str] | None:
    first = KNOWN.get(kind.__name__, 1)
    for seed in (*range(first, SCHEDULES + 1), *range(1, first)):
        if seed % LONG_EVERY == 0:
            continue
        config = replace(schedule("propagation", seed), **kind.focus)
        result = simulate_with(kind, config, seed)
        if result.violations:
            return seed, result.violations[0].check
    return None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    caught = first_caught(MUTANTS[name])
    assert caught is not None, f"{name} survived {SCHEDULES} schedules"


def test_there_are_at_least_fifteen() -> None:
    assert len(MUTANTS) >= 15
