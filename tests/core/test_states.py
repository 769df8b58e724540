"""The tables of states: every state has a row, can be reached, and keeps what was logged."""

from collections.abc import Mapping
from enum import Enum

import pytest

from ordercast.core import states


@pytest.mark.parametrize(
    ("table", "first"),
    [
        (states.EPOCH, {states.OPEN, states.FROZEN}),
        (states.RECORDS, {states.REPLAYING}),
    ],
)
def test_every_state_has_a_row_and_can_be_reached(
    table: Mapping[Enum, Mapping[str, Enum]], first: set[Enum]
) -> None:
    assert list(table) == list(type(next(iter(first))))
    reached = {after for row in table.values() for after in row.values()}
    assert reached | first == set(table)


def test_nothing_is_placed_again_in_an_epoch_that_is_closing() -> None:
    for state, row in states.EPOCH.items():
        for after in row.values():
            assert state.places or not after.places
            assert after.closed or not state.closed
            assert state.works or not after.works
