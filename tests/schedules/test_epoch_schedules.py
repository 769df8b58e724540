"""Random changes of groups, sites, builders and protocols under faults: no violation in any."""

import pytest

from support.cases.epoch_schedules import VOTERS_FROM, schedule

CHUNK = 5
SCHEDULES = 200
WITH_VOTERS = 60  # beyond those


@pytest.mark.parametrize(
    "first",
    [*range(0, SCHEDULES, CHUNK), *range(VOTERS_FROM, VOTERS_FROM + WITH_VOTERS, CHUNK)],
)
def test_changing_epochs_keep_the_guarantees(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert schedule(seed).judge() == [], f"seed {seed}"


@pytest.mark.usefixtures("apart")
def test_a_retired_site_is_not_quiet_before_it_is_told_what_no_epoch_takes() -> None:
    """A new manager did not know of it, and the run was judged as if it owed nothing."""
    assert schedule(20_129).judge() == []
