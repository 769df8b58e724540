"""Random schedules under `exclude`: crashes, lost stores, partitions, changes; no violation."""

import pytest

from ordercast.history.rows import EXCLUDED, RETURNED
from ordercast.sim.schedules import excluding
from ordercast.sim.simulate import simulate
from support.exclude_schedules import schedule
from support.schedules import failures

CHUNK = 10
DIRECT = 200
PROPAGATION, CENTRALIZED = 70, 30


@pytest.mark.parametrize("first", range(0, DIRECT, CHUNK))
def test_members_keep_the_guarantees_through_failures(first: int) -> None:
    """A crash may come between any two duties of an outbox."""
    for seed in range(first, first + CHUNK):
        assert schedule(seed).judge() == [], f"seed {seed}"


@pytest.mark.parametrize("first", range(1, PROPAGATION + 1, CHUNK))
def test_propagation_keeps_its_guarantees_through_failures(first: int) -> None:
    assert failures("propagation", range(first, first + CHUNK), excluding) == []


@pytest.mark.parametrize("first", range(1, CENTRALIZED + 1, CHUNK))
def test_centralized_keeps_its_guarantees_through_failures(first: int) -> None:
    assert failures("centralized", range(first, first + CHUNK), excluding) == []


def test_sites_are_excluded_and_return() -> None:
    histories = [simulate(excluding("propagation", seed), seed).history for seed in range(1, 11)]
    kinds = [event.kind for history in histories for event in history.events]
    assert kinds.count(EXCLUDED) >= 5
    assert kinds.count(RETURNED) >= 5


def test_the_drawn_schedules_roll_back_at_agreed_only() -> None:
    worlds = [schedule(seed) for seed in ROLLING_BACK]
    assert all(world.rollbacks for world in worlds)
    assert {world.options.deliver for world in worlds} == {"agreed"}


ROLLING_BACK = (32, 92)
