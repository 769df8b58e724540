"""The rule for clients that send to lists of sites, in the small model (docs/requests.md, "A rule
for lists of sites")."""

import pytest

from support.models.once.lists import LIST_MUTANTS, ListWorld

CAUGHT = {
    "RepeatsUnaccepted": 4, "RepeatsUnordered": 51, "KeepsTableWhenCut": 25,
    "LosesTableOnRestart": 2, "HandsNothing": 4, "HandsCurrentTable": 88, "FloorStays": 2,
    "FloorBelowForgotten": 2, "FloorOfNow": 10, "FloorOfKnownLists": 2, "KeepsBelowFloor": 19,
    "FloorBySite": 29, "NumbersWithEpochs": 1_108, "ForgetsUnused": 1, "ListsStampedAnew": 5,
    "ListsResolvedAnew": 77,
}  # fmt: skip


def test_no_schedule_delivers_a_request_to_a_list_twice_or_out_of_order() -> None:
    raised = 0
    for seed in range(200):
        world = ListWorld(seed).run()
        assert world.wrong == [], f"seed {seed}"
        raised += world.counts["raised floors"]
    assert raised > 20, "clients of lists are forgotten"


@pytest.mark.parametrize("name", CAUGHT)
def test_a_rule_for_lists_that_is_nearly_right_is_caught(name: str) -> None:
    mutant = next(one for one in LIST_MUTANTS if one.__name__ == name)
    assert ListWorld(CAUGHT[name]).run().wrong == []
    assert mutant(CAUGHT[name]).run().wrong


def test_every_mutant_has_its_schedule() -> None:
    assert {one.__name__ for one in LIST_MUTANTS} == set(CAUGHT)
