"""Every interleaving of three sites through one change: no violation in any state, and every end
is calm. What is covered is what the cases say; larger ones are the soak campaign `small_model`."""

import pytest

from support.epoch_mutants import broken
from support.small_cases import CASES, SHORT


@pytest.mark.parametrize("name", SHORT)
def test_every_interleaving_keeps_the_guarantees(name: str) -> None:
    found = CASES[name]().explore()
    assert found.violations == [], "\n".join(found.trace)
    assert found.complete
    assert found.ends > 0
    assert found.states == SHORT[name], "the space has changed: say so in docs/epochs.md"


@pytest.mark.parametrize(
    ("mutant", "name"),
    [
        ("close_not_ordered", "leave, 2 messages"),
        ("finish_before_all_have_closed", "join, 1 message"),
        ("what_came_while_closing_is_dropped", "join, 1 message"),
        ("goes_on_after_the_close", "join, 1 message"),
    ],
)
def test_the_search_finds_what_is_broken(mutant: str, name: str) -> None:
    with broken(mutant):
        found = CASES[name]().explore()
    assert found.violations != []
    assert found.trace != []
