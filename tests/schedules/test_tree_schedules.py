"""Random fault schedules of the protocols on trees of their own kind: no violation in any."""

import pytest

from ordercast.sim.schedules import changing
from support.cases.schedules import failures

CHUNK = 10
SCHEDULES, CHANGING = 60, 20
PROTOCOLS = ("metagroup", "tom")

every = pytest.mark.parametrize("protocol", PROTOCOLS)


@every
@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_it_keeps_its_guarantees(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK)) == []


@every
@pytest.mark.parametrize("first", range(1, CHANGING + 1, CHUNK))
def test_it_keeps_its_guarantees_through_epochs(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK), changing) == []
