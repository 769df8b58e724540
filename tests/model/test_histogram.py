"""Times in buckets."""

from ordercast.model.histogram import BOUNDS, Histogram


def test_a_time_is_in_the_first_bucket_that_it_fits_into() -> None:
    found = Histogram()
    for nanoseconds in (0, 500_000, 500_001, 40_000_000_000):
        found.add(nanoseconds)
    told = found.told()
    assert told["count"] == 4
    assert told["sum_s"] == 40.001000001
    assert told["buckets"][0] == [BOUNDS[0], 2]
    assert told["buckets"][1] == [BOUNDS[1], 1]
    assert told["buckets"][-1] == [None, 1]
    assert list(BOUNDS) == sorted(BOUNDS)
