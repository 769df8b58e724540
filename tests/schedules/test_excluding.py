"""Random schedules under `exclude`: crashes, lost stores, partitions, changes; no violation."""

from dataclasses import replace
from unittest.mock import patch

import pytest

from ordercast.core.epochs.folding import fold
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.history.rows import EXCLUDED, RETURNED
from ordercast.model.epochs import Begin, UseProtocol
from ordercast.model.errors import ConfigError
from ordercast.plan.advice import advise
from ordercast.sim.faults import Fault
from ordercast.sim.members import Epochs, build_forest
from ordercast.sim.schedules import excluding
from ordercast.sim.simulate import simulate
from support.cases.exclude_schedules import hard_schedule, schedule
from support.cases.schedules import all_return, failures
from support.worlds import epochs

CHUNK = 10
DIRECT = 200
PROPAGATION, CENTRALIZED = 70, 30
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


# Of those on one reduction ten each.
FEW = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")


@pytest.mark.parametrize(
    ("protocol", "first"),
    [(p, first) for p in OTHERS for first in ((1,) if p in FEW else (1, 11))],
)
def test_so_do_the_others_that_support_it(protocol: str, first: int) -> None:
    assert failures(protocol, range(first, first + CHUNK), all_return) == []


@pytest.mark.parametrize("protocol", OTHERS)
def test_members_that_run_any_of_them_keep_the_guarantees_through_failures(protocol: str) -> None:
    every = [protocol, *(name for name in PROTOCOLS if PROTOCOLS[name].exclude)]
    with patch.object(epochs, "build", build_forest):
        for seed in range(300, 300 + (3 if protocol in FEW else CHUNK)):
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

# What these runs were once said to have broken, and had not.
MISJUDGED = {
    ("tom", 20_013): "a voter went before the cluster was founded, which takes all of them",
    ("centralized", 20_041): "an origin that went for good was owed word of its messages",
    ("tom", 20_163): "the only member of a group lost its store, with what it had delivered",
    ("propagation", 100_008): "the same, of a group that another member had left before",
    ("symmetric", 100_125): "the same, and it was sent again",
    ("two_phase", 100_100): "a site waited for what only one that went for good had",
    ("centralized", 20_176): "a site relayed what was its own, and crashed before it was stored",
    (
        "centralized",
        300_140,
    ): "who waited for one that was gone for good was not counted as a voter",
    (
        "symmetric",
        800_475,
    ): "an origin lost its store, with what it alone had delivered at `agreed`",
    ("arrow", 26): "what had died with a store was delivered once more, from its origin's",
}


# Bugs that a schedule once found.
FOUND = {
    255: "what waited for a frozen group was sent again although the group's past had it",
    100_685: "the last present member left a group, with what an absent one had missed of it",
    100_706: "a flush ended a change, and left one of the domains that it had closed sealed",
    200_966: "a site relayed in an epoch, had not stored that it opened, and entered it again",
    900_589: "in causal order an absent site sent what had waited before what it had sent earlier",
    5_105_951: "the only one who had the past lost it, and who had some of it gave others nothing",
    5_200_490: "who was in an epoch, and not in a group, made the past of that group shorter",
    5_705_983: "a site without its store was taken for the one with it, and had nothing",
    5_705_048: "in causal order one was relayed before the one before it was stored, and lost",
    101_487: "a voter that returned without its store was made another incarnation once more",
}
FOUND_SIM = {
    ("metagroup", 100_145): "an origin gave a number again when all who had the first were lost",
}
FOUND_RETURNING = {
    ("arrow", 41): "the voters never had a leader, and the cluster was not founded",
}
FOUND_HARD = {
    5_306_901: "an origin outside was retired, and what it was told later was owed to it for ever",
    301_362: "who had told the past of a list was retired, and another's word counted as well",
    163: "who had been absent for too long went again before it heard that it had joined anew",
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("seed", FOUND)
def test_a_bug_of_the_flush_stays_fixed(seed: int) -> None:
    assert schedule(seed).judge() == [], FOUND[seed]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("seed", FOUND_HARD)
def test_a_bug_of_the_return_stays_fixed(seed: int) -> None:
    assert hard_schedule(seed).judge() == [], FOUND_HARD[seed]


@pytest.mark.usefixtures("apart")
def test_bids_that_a_new_epoch_lost_on_their_way_to_a_restarted_site_are_not_long_missed() -> None:
    """It was excluded for them as a slow member, returned, and missed them again, for ever."""
    assert failures("tom", range(800_189, 800_190), all_return) == []


# Sites that went for good at `agreed`, with deliveries of an epoch that was closed without them.
GONE = {
    900_222: "what it had delivered was not in the past, and was placed again or by nobody",
    801_522: "the same, and another that had delivered it came back and rolled it back",
    804_738: "a list of sites named it alone: what it has of it stands, and is not lost",
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("seed", GONE)
def test_what_a_site_that_is_gone_for_good_cannot_take_back_is_not_held_against_it(
    seed: int,
) -> None:
    world = hard_schedule(seed)
    assert world.options.deliver == "agreed"
    assert len(world.down) == 1
    assert world.judge() == [], GONE[seed]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("seed", [801_011])
def test_if_it_comes_back_after_all_it_takes_it_back(seed: int) -> None:
    """And what it alone had is there: nothing is left out by the judge."""
    world = hard_schedule(seed)
    (site,) = world.down
    world.down.clear()
    world.start(site)
    world.settle()
    assert world.judge() == []
    assert site in [who for who, _ in world.rollbacks]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("seed", [5_003_204, 5_004_784, 5_707_981])
def test_what_was_stable_where_it_is_lost_is_lost_with_the_store(seed: int) -> None:
    """The only member, or the only one that was there, had it, and its application had not seen
    it."""
    world = schedule(seed)
    assert len(world.lost) == 1
    assert world.judge() == []


def test_what_was_stable_where_it_is_retired_is_lost_with_the_site() -> None:
    """The only member present then crashed for good before its application saw it."""
    world = hard_schedule(7_101_408)
    assert world.lost == {}
    assert "e" in world.down
    assert world.outcomes["retire e a"] == ""
    assert world.judge() == []


@pytest.mark.usefixtures("apart")
def test_who_waits_for_a_site_that_is_gone_for_good_returns_when_that_one_is_retired() -> None:
    """The first to ask was refused: it was not excluded yet, and had what another had missed."""
    world = hard_schedule(800_067)
    assert sorted(world.down) == ["c"]
    assert "site 'c' has what 'e', absent, missed of 'g0'" in world.outcomes.values()
    assert sorted(world.lapses) == ["a", "e"]
    assert world.judge() == []


@pytest.mark.usefixtures("apart")
def test_what_absent_members_have_of_a_group_that_was_removed_stands() -> None:
    world = schedule(803_824)
    assert world.removed("g1")
    assert world.judge() == []


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("protocol", "seed"), FOUND_SIM)
def test_a_bug_of_the_numbers_stays_fixed(protocol: str, seed: int) -> None:
    assert failures(protocol, range(seed, seed + 1), excluding) == []


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("protocol", "seed"), FOUND_RETURNING)
def test_what_once_waited_for_ever_ends(protocol: str, seed: int) -> None:
    assert failures(protocol, range(seed, seed + 1), all_return) == []


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize(("protocol", "seed"), MISJUDGED)
def test_what_is_no_violation_is_not_called_one(protocol: str, seed: int) -> None:
    assert failures(protocol, range(seed, seed + 1), excluding) == []
