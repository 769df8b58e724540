"""Every broken variant of the tree protocols is caught, and by what it breaks: the order."""

from dataclasses import replace
from functools import cache

import pytest

from ordercast.sim.schedules import LONG_EVERY, schedule
from ordercast.sim.simulate import simulate
from schedules import tom_mutants
from schedules.tree_mutants import TREE_MUTANTS
from support.worlds.engines import simulate_with

SCHEDULES = 200
# Where each was caught when this was written: the search of all begins there, and is short.
KNOWN = {"DigitLabels": 71, "CausalByClocks": 32, "NeverBidsAgain": 20}
assert tom_mutants.TOM  # imported for its mutants


@cache
def first_caught(name: str) -> tuple[int, set[str]] | None:
    kind = TREE_MUTANTS[name]
    first = KNOWN.get(name, 1)
    for seed in (*range(first, SCHEDULES + 1), *range(1, first)):
        if seed % LONG_EVERY == 0:
            continue
        config = replace(schedule("propagation", seed), **kind.focus)
        result = simulate_with(kind, config, seed)
        if result.violations:
            return seed, {violation.check for violation in result.violations}
    return None


@pytest.mark.parametrize("name", TREE_MUTANTS)
def test_a_mutant_is_caught_by_what_it_breaks(name: str) -> None:
    kind = TREE_MUTANTS[name]
    caught = first_caught(name)
    assert caught is not None, f"{name} survived {SCHEDULES} schedules"
    assert caught[1].intersection(kind.breaks), caught


@pytest.mark.parametrize("name", TREE_MUTANTS)
def test_the_protocol_itself_passes_where_its_mutant_is_caught(name: str) -> None:
    kind = TREE_MUTANTS[name]
    caught = first_caught(name)
    assert caught is not None
    config = replace(schedule("propagation", caught[0]), **kind.focus)
    assert not simulate(config, caught[0]).violations
