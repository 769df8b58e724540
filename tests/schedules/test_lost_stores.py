"""Who has all of a past, some of it or nothing comes back together, after stores were lost."""

import pytest

from support.cases.loss_schedules import loss_schedule

CHUNK, SCHEDULES = 8, 16


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_what_is_left_after_lost_stores_is_agreed_on(first: int) -> None:
    lost = 0
    for seed in range(first, first + CHUNK):
        world = loss_schedule(seed)
        assert world.judge() == [], f"seed {seed}"
        lost += sum(world.lost.values())
    assert lost > CHUNK // 2
