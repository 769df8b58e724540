"""Who has all of a past, some of it or nothing comes back together, after stores were lost."""

import pytest

from support.cases.loss_schedules import LossSchedule, loss_schedule

CHUNK, SCHEDULES = 8, 48

# Bugs that a schedule once found; with changes of groups, or without.
FOUND = {
    (252, False): "one fetched nothing of an epoch, and another that was away had delivered it",
    (218, False): "the same",
    (482, True): "the same",
    (414, True): "who was away for too long, and had all of a past, was not asked for it",
    (668, True): "the same, at `safe`",
    (10_437, True): "who joined a group later was counted on for what it had before",
    (20_156, False): "nobody had a past any more, and one returned without it or a word of that",
    (814, True): "such a one was rolled back where nobody else wanted that past",
    (897, True): "the same",
}


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_what_is_left_after_lost_stores_is_agreed_on(first: int) -> None:
    lost = 0
    for seed in range(first, first + CHUNK):
        world = loss_schedule(seed)
        assert world.judge() == [], f"seed {seed}"
        lost += sum(world.lost.values())
    assert lost > CHUNK // 2


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("seed", "changes"), FOUND)
def test_a_bug_of_lost_stores_stays_fixed(seed: int, changes: bool) -> None:
    assert LossSchedule(seed, changes=changes).run().judge() == [], FOUND[seed, changes]
