"""Schedules: drawn whole from the seed, of many shapes, and always runnable."""

from collections import Counter

from ordercast.forest.indexed_table import IndexedTable
from ordercast.sim.config import SimConfig, check_config
from ordercast.sim.faults import total
from ordercast.sim.options import replay_line
from ordercast.sim.schedules import LONG_EVERY, schedule

MANY = [schedule("propagation", seed) for seed in range(1, 401)]


def share(claims: list[bool]) -> float:
    return sum(claims) / len(claims)


def test_a_schedule_is_a_function_of_protocol_and_seed() -> None:
    assert schedule("propagation", 3) == schedule("propagation", 3)
    assert schedule("propagation", 3) != schedule("propagation", 4)
    assert schedule("propagation", 3).table != schedule("centralized", 3).table


def test_every_schedule_can_be_run() -> None:
    for config in [*MANY, *(schedule("centralized", seed) for seed in range(1, 401))]:
        check_config(config)


def test_clusters_are_small_and_of_every_shape() -> None:
    tables = [config.table for config in MANY]
    assert {len(table.sites) for table in tables} == set(range(3, 10))
    assert {len(table.groups) for table in tables} == set(range(1, 7))
    sets = [[frozenset(members) for members in table.groups.values()] for table in tables]
    assert share([len(set(groups)) < len(groups) for groups in sets]) > 0.2  # equal groups
    assert share([any(len(group) == 1 for group in groups) for groups in sets]) > 0.1
    assert share([len(IndexedTable.of(table).domains()) > 1 for table in tables]) > 0.1
    outside = [len(frozenset().union(*g)) < len(t.sites) for g, t in zip(sets, tables, strict=True)]
    assert share(outside) > 0.2


def test_options_limits_networks_and_workloads_vary() -> None:
    for field in ("deliver", "on_failure", "causal", "durability", "codec", "builder", "network"):
        drawn = Counter(repr(getattr(config, field)) for config in MANY)
        assert len(drawn) >= 2, field
        assert min(drawn.values()) > 20, field
    assert share([config.limits.link_items < 100 for config in MANY]) > 0.3
    assert share([config.implicit > 0 for config in MANY]) > 0.2
    assert share([config.batch > 1 for config in MANY]) > 0.3


def test_sites_crash_under_wait_only_and_all_of_them_come_back() -> None:
    crashing = [config for config in MANY if total(config.faults, "crash")]
    assert len(crashing) > 100
    for config in crashing:
        assert config.on_failure == "wait"
        assert total(config.faults, "restart") == total(config.faults, "crash")


def test_every_50th_is_long() -> None:
    long = [schedule("propagation", LONG_EVERY * number).messages for number in range(1, 20)]
    short = [config.messages for seed, config in enumerate(MANY, start=1) if seed % LONG_EVERY]
    assert min(long) >= 100
    assert max(short) <= 120
    assert sorted(short)[len(short) // 2] < 40


def test_its_replay_line_names_protocol_and_seed() -> None:
    config: SimConfig = schedule("centralized", 17)
    assert replay_line(config, 17) == "ordercast sim --schedule --protocol centralized --seed 17"
