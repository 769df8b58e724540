"""Every interleaving of three sites through one change: no violation in any state, and every end
is calm. What is covered is what the cases say; larger ones are the soak campaign `small_model`."""

import pytest

from support.models.small_cases import CASES, SHORT
from support.mutants import exclusion as exclude_mutants
from support.mutants.epochs import broken

ROLLING_BACK = ("two sites, the root is cut off, agreed",)


@pytest.mark.parametrize("name", SHORT)
def test_every_interleaving_keeps_the_guarantees(name: str) -> None:
    found = CASES[name]().explore()
    assert found.violations == [], "\n".join(found.trace)
    assert found.complete
    assert found.ends > 0
    assert found.states == SHORT[name], "the space has changed: say so in docs/epochs.md"
    assert (found.rollbacks > 0) == (name in ROLLING_BACK)
    assert found.rollbacks < found.ends


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        ("finish_before_all_have_closed", "join, 1 message"),
        ("what_came_while_closing_is_dropped", "join, 1 message"),
        ("goes_on_after_the_close", "join, 1 message"),
    ],
)
def test_the_search_finds_what_is_broken_in_changes(mutant: str, name: str) -> None:
    with broken(mutant):
        found = CASES[name]().explore()
    assert found.violations != []
    assert found.trace != []


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        ("deliveries_are_reported_instead_of_logs", "two sites, a leaf crashes, safe"),
        ("the_tail_is_kept", "two sites, the root is cut off, agreed"),
        ("rollback_is_one_short", "two sites, the root is cut off, agreed"),
    ],
)
def test_the_search_finds_what_is_broken_in_the_flush(mutant: str, name: str) -> None:
    with exclude_mutants.broken(mutant):
        found = CASES[name]().explore()
    assert found.violations != []
