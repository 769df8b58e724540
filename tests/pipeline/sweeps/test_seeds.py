"""Seeds of runs: from the sweep's seed, the options and the repetition, and from nothing else."""

from typing import Any

from ordercast.pipeline.sweeps.tasks import Point, seed_of, tasks_of

EXPECTED = 4687855446125360413


def seeds(config: dict[str, Any], sweep_seed: int = 1, repetitions: int = 3) -> list[int]:
    tasks = tasks_of(Point.of(config), range(1, repetitions + 1), sweep_seed)
    return [task.seed for task in tasks]


def test_the_order_of_the_options_does_not_matter() -> None:
    assert seeds({"sites": 5, "groups": 3}) == seeds({"groups": 3, "sites": 5})


def test_sweep_seed_options_and_repetition_each_make_a_difference() -> None:
    base = seeds({"sites": 5})
    assert len(set(base)) == 3
    assert not set(base) & set(seeds({"sites": 5}, sweep_seed=2))
    assert not set(base) & set(seeds({"sites": 6}))
    assert not set(base) & set(seeds({"sites": 5, "size": 2}))


def test_more_repetitions_leave_the_first_ones_as_they_are() -> None:
    assert seeds({"sites": 5}, repetitions=9)[:3] == seeds({"sites": 5})


def test_a_seed_is_the_same_for_ever_and_fits_a_column() -> None:
    assert seed_of(1, '{"sites":5}', 1) == EXPECTED
    assert all(0 <= seed < 2**63 for seed in seeds({"x": "é"}, repetitions=200))


def test_runs_of_different_points_have_different_names() -> None:
    names = {
        task.run
        for sites in range(50)
        for task in tasks_of(Point.of({"sites": sites}), range(1, 20), 1)
    }
    assert len(names) == 50 * 19
