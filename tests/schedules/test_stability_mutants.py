"""Every argument of the trackers is needed: without it the judge finds a run that goes wrong."""

from contextlib import ExitStack
from dataclasses import replace
from unittest.mock import patch

import pytest

from ordercast.model.options import NEVER, SECOND
from ordercast.sim.config import SimConfig
from support.judges.stability_truth import judged, tracked
from support.mutants.trackers import MUTANTS

MOST_RUNS = 150


def short(seed: int, trackers: tuple[str, ...]) -> SimConfig:
    """Within one epoch; what does not come to rest soon will not."""
    config = tracked(seed, trackers, epochs_every=NEVER)
    return replace(config, settle=20 * SECOND, most_events=10_000)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_tracker_is_caught(name: str) -> None:
    make, trackers = MUTANTS[name]
    with ExitStack() as stack:
        for owner, attribute, instead in make():
            stack.enter_context(patch.object(owner, attribute, instead))
        for seed in range(1, MOST_RUNS):
            if judged(short(seed, trackers), seed)[0]:
                return
    pytest.fail(f"{name} survived {MOST_RUNS} runs")


def test_there_are_at_least_eight() -> None:
    assert len(MUTANTS) >= 8
