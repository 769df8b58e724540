"""Every broken variant of the swap family is caught, where the right one passes."""

from dataclasses import replace

import pytest

from ordercast.sim.config import SimConfig
from ordercast.sim.schedules import LONG_EVERY, schedule
from ordercast.sim.simulate import simulate
from schedules.swap_mutants import SWAP_MUTANTS, BrokenSwap
from support.worlds.engines import simulate_with

SCHEDULES = 200
# Where each was caught when this was written: the search of all begins there, and is short.
KNOWN = {
    "TheCountIsLost": 141,
    "TheRootCountsAnew": 24,
    "AnswersToMarksAreLost": 10,
    "OpenChainsAreLost": 10,
}


def config_of(kind: type[BrokenSwap], seed: int) -> SimConfig:
    return replace(schedule(kind.name_of_protocol, seed), **kind.focus)


def first_caught(kind: type[BrokenSwap]) -> tuple[int, str] | None:
    first = KNOWN.get(kind.__name__, 1)
    for seed in (*range(first, SCHEDULES + 1), *range(1, first)):
        if seed % LONG_EVERY:
            result = simulate_with(kind, config_of(kind, seed), seed)
            if result.violations:
                return seed, result.violations[0].check
    return None


@pytest.mark.parametrize("name", SWAP_MUTANTS)
def test_a_swap_mutant_is_caught_where_the_protocol_itself_passes(name: str) -> None:
    kind = SWAP_MUTANTS[name]
    caught = first_caught(kind)
    assert caught is not None, f"{name} survived {SCHEDULES} schedules"
    assert caught[1] != "breakdown"
    assert not simulate(config_of(kind, caught[0]), caught[0]).violations
