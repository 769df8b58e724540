"""Offsets of the source: what is one, the limit of a batch, and the ranges of tasks."""

import json
import random

import pytest

from ordercast.model.errors import ConfigError
from ordercast.pipeline.streams.offsets import (
    Offset,
    PositionRange,
    as_json,
    limited,
    offsets_in,
    spans,
)


def test_offsets_are_json_with_sorted_sites() -> None:
    found = offsets_in('{"b": [2, 7], "a": [1, 0]}', "startingOffsets")
    assert found == {"a": Offset(1, 0), "b": Offset(2, 7)}
    assert (
        json.dumps(as_json({"b": Offset(2, 7), "a": Offset(1, 0)})) == '{"a": [1, 0], "b": [2, 7]}'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "startingOffsets: 'soon' is not JSON"),
        ("[1]", "startingOffsets: [1] is not {site: [attempt, position]}"),
        ('{"a": 3}', "startingOffsets: a: 3 is not [attempt, position]"),
        ('{"a": [0, 3]}', "startingOffsets: a: [0, 3] is not"),
        ('{"a": [1, -3]}', "startingOffsets: a: [1, -3] is not"),
        ('{"a": [1, true]}', "startingOffsets: a: [1, True] is not"),
        ('{"a b": [1, 1]}', "startingOffsets: 'a b' is not the name of a site"),
    ],
)
def test_what_is_no_offset_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as found:
        offsets_in(text, "startingOffsets")
    assert said in str(found.value)


def test_a_limit_is_kept_and_nobody_is_left_out_for_ever() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        sites = [f"s{n}" for n in range(chance.randint(1, 6))]
        start = {site: Offset(1, chance.randint(0, 50)) for site in sites}
        goal = {site: Offset(1, start[site].position + chance.choice([0, 1, 30])) for site in sites}
        most = chance.randint(1, 20)
        batches = 0
        while start != goal:
            end = limited(start, goal, most)
            read = sum(end[site].position - start[site].position for site in sites)
            assert 0 < read <= most
            assert all(start[s].position <= end[s].position <= goal[s].position for s in sites)
            start = end
            batches += 1
        assert batches <= 180


def test_ranges_have_every_position_once() -> None:
    start, end = {"a": Offset(1, 5), "b": Offset(1, 3)}, {"a": Offset(1, 12), "b": Offset(1, 3)}
    assert spans(start, end, None) == [PositionRange("a", 5, 12)]
    assert spans(start, end, 3) == [
        PositionRange("a", 5, 8),
        PositionRange("a", 8, 11),
        PositionRange("a", 11, 12),
    ]
    assert spans({}, {"c": Offset(1, 2)}, None) == [PositionRange("c", 0, 2, joins=True)]


def test_an_end_below_the_start_means_that_positions_began_anew() -> None:
    start = {"a": Offset(1, 500)}
    assert spans(start, {"a": Offset(1, 20)}, 15) == [
        PositionRange("a", 0, 15, True),
        PositionRange("a", 15, 20),
    ]
    assert spans(start, {"a": Offset(1, 0)}, None) == [PositionRange("a", 0, 0, True)]
    assert limited(start, {"a": Offset(1, 20)}, 7) == {"a": Offset(1, 7)}
