"""Random fault schedules in which groups, protocols and builders change: no violation in any."""

import pytest

from ordercast.sim.schedules import changing
from ordercast.sim.simulate import simulate
from support.cases.schedules import failures

CHUNK = 10
PROPAGATION, CENTRALIZED = 80, 30


@pytest.mark.parametrize("first", range(1, PROPAGATION + 1, CHUNK))
def test_propagation_keeps_its_guarantees_through_epochs(first: int) -> None:
    assert failures("propagation", range(first, first + CHUNK), changing) == []


@pytest.mark.parametrize("first", range(1, CENTRALIZED + 1, CHUNK))
def test_centralized_keeps_its_guarantees_through_epochs(first: int) -> None:
    assert failures("centralized", range(first, first + CHUNK), changing) == []


def test_most_schedules_see_several_epochs() -> None:
    epochs = [simulate(changing("propagation", seed), seed).epochs for seed in range(1, 11)]
    assert sum(1 for count in epochs if count >= 3) >= 6
