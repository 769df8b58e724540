"""Random schedules under `exclude`: crashes, lost stores, partitions, changes; no violation."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from ordercast.core.epochs.changes import fold
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.history.rows import EXCLUDED, RETURNED
from ordercast.model.epochs import Begin, UseProtocol
from ordercast.model.errors import ConfigError
from ordercast.model.options import SECOND
from ordercast.plan.advice import advise
from ordercast.sim.faults import Fault
from ordercast.sim.members import Epochs, build_forest
from ordercast.sim.schedules import excluding
from ordercast.sim.simulate import simulate
from support.cases.exclude_schedules import hard_schedule, hard_world, schedule
from support.cases.schedules import all_return, failures
from support.worlds import epochs
from support.worlds.epochs import by_chance

CHUNK = 10
DIRECT = 80
PROPAGATION, CENTRALIZED = 20, 10
OTHERS = tuple(
    name
    for name, info in PROTOCOLS.items()
    if info.exclude and name not in ("propagation", "centralized")
)


@pytest.mark.parametrize("first", range(0, DIRECT, CHUNK))
def test_members_keep_the_guarantees_through_failures(first: int) -> None:
    """A crash may come between any two duties of an outbox."""
    for seed in range(first, first + CHUNK):
        assert schedule(seed).judge() == [], f"seed {seed}"


@pytest.mark.parametrize("first", range(1, PROPAGATION + 1, CHUNK))
def test_propagation_keeps_its_guarantees_through_failures(first: int) -> None:
    assert failures("propagation", range(first, first + CHUNK), excluding) == []


@pytest.mark.parametrize("first", range(1, CENTRALIZED + 1, CHUNK))
def test_centralized_keeps_its_guarantees_through_failures(first: int) -> None:
    assert failures("centralized", range(first, first + CHUNK), all_return) == []


@pytest.mark.parametrize("protocol", OTHERS)
def test_so_do_the_others_that_support_it(protocol: str) -> None:
    assert failures(protocol, range(1, 1 + CHUNK), all_return) == []


# Those on one reduction.
FEW = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")


@pytest.mark.parametrize("protocol", OTHERS)
def test_members_that_run_any_of_them_keep_the_guarantees_through_failures(protocol: str) -> None:
    every = [protocol, *(name for name in PROTOCOLS if PROTOCOLS[name].exclude)]
    with patch.object(epochs, "build", build_forest):
        for seed in range(300, 300 + (2 if protocol in FEW else 5)):
            assert schedule(seed, protocols=every).judge() == [], f"seed {seed}"
            assert hard_schedule(seed, protocol=protocol).judge() == [], f"hard seed {seed}"


def test_all_of_the_registry_do() -> None:
    assert {"propagation", "centralized", *OTHERS} == set(PROTOCOLS)


def test_one_that_would_not_is_refused_where_sites_may_go_for_good() -> None:
    config = excluding("two_phase", 1)
    with patch.dict(PROTOCOLS, {"two_phase": replace(PROTOCOLS["two_phase"], exclude=False)}):
        with pytest.raises(ConfigError, match="on-failure: 'two_phase' does not support"):
            simulate(config, 1)
        assert simulate(replace(config, faults=()), 1).ok
        assert simulate(replace(config, faults=(), on_failure="wait"), 1).ok


def test_nor_is_it_switched_to() -> None:
    config = replace(excluding("propagation", 1), faults=(Fault("crash", count=1),))
    with patch.dict(PROTOCOLS, {"two_phase": replace(PROTOCOLS["two_phase"], exclude=False)}):
        forest = advise(config.table, config.built_by).forest
        run = Epochs(config, Structure(1, config.table, forest), 1)
        after = fold(run.first, Begin("c", (UseProtocol("two_phase"),)), run.build)
    assert "does not support on_failure = 'exclude'" in after.outcomes["c"]


def test_sites_are_excluded_and_return() -> None:
    histories = [simulate(excluding("propagation", seed), seed).history for seed in range(1, 11)]
    kinds = [event.kind for history in histories for event in history.events]
    assert kinds.count(EXCLUDED) >= 5
    assert kinds.count(RETURNED) >= 5


def test_the_drawn_schedules_roll_back_at_agreed_only() -> None:
    worlds = [schedule(seed) for seed in ROLLING_BACK]
    assert all(world.rollbacks for world in worlds)
    assert {world.options.deliver for world in worlds} == {"agreed"}


ROLLING_BACK = (32, 92)


def test_who_was_given_up_and_comes_back_after_all_takes_its_deliveries_back() -> None:
    """And what it alone had is there: nothing is left out by the judge."""
    world = hard_world(801_562, make_world=by_chance(5))
    world.run(6 * SECOND)
    world.settle()
    (site,) = world.down
    world.down.clear()
    world.start(site)
    world.settle()
    assert world.judge() == []
    assert site in [who for who, _ in world.rollbacks]
