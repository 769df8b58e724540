"""Between the quickest forest and the least loaded one there is one that gives most of both."""

import pytest

from ordercast.model.groups import GroupTable
from ordercast.plan.trade_off import ALONG, trade_off


def local_groups(sites: int) -> GroupTable:
    """Groups of neighbours on a ring."""
    names = [f"s{number:03}" for number in range(sites)]
    return GroupTable.of(
        {f"g{at:03}": [names[(at + step) % sites] for step in range(4)] for at in range(sites)}
    )


def test_each_end_is_best_by_its_own_objective_and_the_middle_lies_between() -> None:
    steps = trade_off(local_groups(120))
    assert [step.objective for step in steps] == list(ALONG)
    quick, between, light = (step.candidate.values for step in steps)
    assert quick.delay <= between.delay <= light.delay
    assert light.load <= between.load <= quick.load
    assert between.mixed < quick.mixed


@pytest.mark.parametrize("builder", ["star", "greedy"])
def test_a_builder_asked_for_is_used_throughout(builder: str) -> None:
    steps = trade_off(local_groups(12), builder)
    assert {step.candidate.builder for step in steps} == {builder}
