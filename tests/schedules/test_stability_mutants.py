"""Every argument of the trackers is needed: without it the judge finds a run that goes wrong."""

from contextlib import ExitStack
from unittest.mock import patch

import pytest

from support.stability_truth import judged, tracked
from support.tracker_mutants import MUTANTS

MOST_RUNS = 150


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_tracker_is_caught(name: str) -> None:
    make, trackers = MUTANTS[name]
    with ExitStack() as stack:
        for owner, attribute, instead in make():
            stack.enter_context(patch.object(owner, attribute, instead))
        for seed in range(MOST_RUNS):
            if judged(tracked(seed, trackers), seed)[0]:
                return
    pytest.fail(f"{name} survived {MOST_RUNS} runs")


def test_there_are_at_least_eight() -> None:
    assert len(MUTANTS) >= 8
