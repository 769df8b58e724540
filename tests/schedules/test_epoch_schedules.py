"""Random changes of groups, sites, builders and protocols under faults: no violation in any."""

import pytest

from support.epoch_schedules import schedule

CHUNK = 5
SCHEDULES = 200


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_changing_epochs_keep_the_guarantees(first: int) -> None:
    for seed in range(first, first + CHUNK):
        assert schedule(seed).judge() == [], f"seed {seed}"
