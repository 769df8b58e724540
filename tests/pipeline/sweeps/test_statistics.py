"""Means and intervals: exact quantiles, sums that do not depend on order, and when to stop."""

import math
import random
import statistics
from itertools import pairwise

import pytest

from ordercast.pipeline.sweeps.statistics import (
    Estimate,
    Precision,
    estimate,
    runs_wanted,
    student_t,
)

# Published to ten digits and more (two-sided 95 %).
KNOWN = {
    1: 12.706204736174694,
    2: 4.302652729749462,
    3: 3.182446305283708,
    4: 2.7764451051977934,
    5: 2.5705818356363146,
    9: 2.262157162798205,
    10: 2.228138851986274,
    19: 2.093024054408263,
    29: 2.045229642132703,
    30: 2.0422724563012378,
    60: 2.0002978220142604,
    99: 1.9842169515864174,
    100: 1.9839715185235518,
    999: 1.9623414611334626,
    1000: 1.9623390808264083,
    100_000: 1.9599877075346095,
}


@pytest.mark.parametrize(("freedom", "quantile"), KNOWN.items())
def test_the_quantile_is_the_published_one(freedom: int, quantile: float) -> None:
    assert student_t(freedom) == pytest.approx(quantile, rel=1e-13)


def density(t: float, freedom: int) -> float:
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    power = -(freedom + 1) / 2 * math.log1p(t * t / freedom)
    return math.exp(scale + power) / math.sqrt(freedom * math.pi)


def integral(t: float, freedom: int, steps: int = 2000) -> float:
    """Simpson's rule from -t to t: nothing in common with what is tested."""
    width = t / steps
    inner = ((4 if step % 2 else 2) * density(step * width, freedom) for step in range(1, steps))
    return 2 * width / 3 * math.fsum([density(0, freedom), *inner, density(t, freedom)])


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 8, 25, 26, 151, 998, 999, 1000, 5000])
def test_95_of_100_lie_within_the_quantile(freedom: int) -> None:
    t = student_t(freedom)
    assert integral(t, freedom) == pytest.approx(0.95, abs=1e-10)


def test_the_quantile_falls_with_every_degree_of_freedom() -> None:
    values = [student_t(freedom) for freedom in range(1, 1100)]
    assert all(later < earlier for earlier, later in pairwise(values))


def test_no_degrees_of_freedom_are_refused() -> None:
    with pytest.raises(ValueError, match="0 degrees"):
        student_t(0)


def test_mean_and_interval_of_a_known_sample() -> None:
    found = estimate([4.0, 6.0, 8.0, 10.0])
    assert found.mean == 7.0
    assert found.ci95 == pytest.approx(3.182446305283708 * math.sqrt(20 / 3) / 2, rel=1e-12)
    assert found.runs == 4


def test_one_run_has_no_interval() -> None:
    assert estimate([3.5]) == Estimate(3.5, None, 1)


def test_equal_runs_have_an_interval_of_nothing() -> None:
    assert estimate([0.1] * 7).ci95 == 0.0


def test_the_order_of_the_runs_does_not_matter_to_the_last_bit() -> None:
    rng = random.Random(1)
    values = [rng.lognormvariate(0, 3) for _ in range(200)]
    expected = estimate(values)
    assert expected.mean == pytest.approx(statistics.fmean(values))
    for _ in range(20):
        rng.shuffle(values)
        assert estimate(values) == expected


def test_the_interval_holds_the_truth_95_times_of_100() -> None:
    rng = random.Random(2)
    hits = 0
    for _ in range(2000):
        found = estimate([rng.gauss(5, 2) for _ in range(6)])
        assert found.ci95 is not None
        hits += abs(found.mean - 5) <= found.ci95
    assert 0.935 < hits / 2000 < 0.965


def test_a_relative_bound_follows_the_mean_and_an_absolute_one_does_not() -> None:
    relative, absolute = Precision("depth", share=0.1), Precision("depth", width=0.5)
    assert relative.holds(Estimate(10.0, 0.9, 5))
    assert relative.holds(Estimate(-10.0, 0.9, 5))
    assert not relative.holds(Estimate(5.0, 0.9, 5))
    assert not absolute.holds(Estimate(10.0, 0.9, 5))
    assert absolute.holds(Estimate(0.0, 0.5, 5))
    assert not absolute.holds(Estimate(0.0, None, 1))


def test_more_runs_are_asked_for_by_the_square_of_what_is_missing() -> None:
    bound = Precision("depth", width=1.0)
    assert runs_wanted(Estimate(0.0, 1.5, 100), bound, 10_000) == 225
    assert runs_wanted(Estimate(0.0, 1.01, 100), bound, 10_000) == 150  # at least half as many more
    assert runs_wanted(Estimate(0.0, 50.0, 100), bound, 10_000) == 400  # at most four times
    assert runs_wanted(Estimate(0.0, 50.0, 100), bound, 300) == 300
    assert runs_wanted(Estimate(0.0, 1.0, 100), Precision("depth", share=0.1), 10_000) == 400
