"""Random changes of groups, sites, builders and protocols under faults: no violation in any."""

import pytest

from support.cases.epoch_schedules import VOTERS_FROM, schedule

CHUNK = 5
SCHEDULES = 100
WITH_VOTERS = 30  # beyond those


@pytest.mark.parametrize(
    "first",
    [*range(0, SCHEDULES, CHUNK), *range(VOTERS_FROM, VOTERS_FROM + WITH_VOTERS, CHUNK)],
)
def test_changing_epochs_keep_the_guarantees(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert schedule(seed).judge() == [], f"seed {seed}"
