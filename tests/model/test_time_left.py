"""How long work will still take."""

import pytest

from ordercast.model.time_left import time_left


@pytest.mark.parametrize(
    ("took_s", "done", "total", "told"),
    [
        (1.0, 5, 10, ""),  # too soon to tell
        (4.0, 0, 10, ""),
        (4.0, 10, 10, ""),
        (4.0, 9, 10, ", about 1 s left"),
        (10.0, 1, 5, ", about 40 s left"),
        (60.0, 1, 5, ", about 4 min left"),
        (3_600.0, 1, 5, ", about 4 h left"),
        (86_400.0, 1, 5, ", about 4 d left"),
    ],
)
def test_the_rest_takes_as_long_as_the_part_that_is_done(
    took_s: float, done: int, total: int, told: str
) -> None:
    assert time_left(took_s, done, total) == told
