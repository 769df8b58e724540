"""Bounds on queues and replays: what is above its limit is counted, the worst is shown."""

from ordercast.check.bounds import Bound, HighWater, check_bounds, check_high_water


def test_a_value_at_its_limit_is_within_it() -> None:
    verdict = check_bounds([Bound("link a-b", 10, 10), Bound("window a", 0, 0)])
    assert (verdict.name, verdict.count, verdict.witness) == ("bounds", 0, None)


def test_the_witness_is_the_one_furthest_above_its_limit() -> None:
    seen = [Bound("long", 1_100, 1_000), Bound("short", 3, 1), Bound("fine", 1, 2)]
    verdict = check_bounds(seen)
    assert verdict.count == 2
    assert verdict.witness == {"name": "short", "value": 3, "limit": 1}
    assert check_bounds(reversed(seen)) == verdict


def test_a_limit_of_zero_can_be_broken() -> None:
    assert check_bounds([Bound("replay", 1, 0)]).count == 1


def test_a_high_water_mark_outlasts_the_ebb() -> None:
    marks = HighWater()
    for value in (1, 9, 2):
        marks.note("link a-b", value, 8)
    marks.note("link b-a", 8, 8)
    verdict = check_high_water(marks)
    assert verdict.count == 1
    assert verdict.witness == {"name": "link a-b", "value": 9, "limit": 8}


def test_a_mark_above_the_limit_of_its_time_outlasts_a_higher_limit() -> None:
    marks = HighWater()
    marks.note("window", 5, 4)
    marks.note("window", 6, 100)
    assert check_high_water(marks).witness == {"name": "window", "value": 5, "limit": 4}
    marks.note("window", 7, 4)
    assert check_high_water(marks).witness == {"name": "window", "value": 7, "limit": 4}
