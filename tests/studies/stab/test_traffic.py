"""Rounds beside data, and the trigger: f(r), X, stops, silent roots and lone messages."""

import pytest

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.trigger import Trigger, best_limit
from ordercast.model.options import SECOND
from ordercast.sim.rounds.tracking import Setting, Unsafe, track
from ordercast.sim.rounds.tree import parse_tree
from ordercast.studies.stab import traffic as traffic_module
from ordercast.studies.stab.traffic import DataLoad, DataTraffic, measure_load
from ordercast.studies.stab.triggering import Buffers, Triggered, measure_trigger
from support.mutants.stability import MUTANTS

SMALL = parse_tree("b=2,p=3")
FAR = Setting("s_coordp", SMALL, links="wan")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_data_a_round_takes_what_one_alone_takes(protocol: str) -> None:
    setting = Setting(protocol, SMALL)
    found = measure_load(setting, None, seed=1, rounds=3)
    assert set(found.rtts_ns) == {track(setting, 1).rtt_ns}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_data_makes_rounds_longer_and_loss_makes_nothing_unsafe(protocol: str) -> None:
    """What is called stable is held against what every member has, at every end of a round."""
    setting = Setting(protocol, SMALL)
    alone = measure_load(setting, None, seed=1, rounds=3).rtt_ms
    data = DataLoad(rate=100, loss=0.05, repair=30_000_000)
    found = measure_load(setting, data, seed=1, rounds=8)
    assert found.rtt_ms > alone
    assert 0.5 < found.busy < 1


@pytest.mark.parametrize(
    "name",
    [
        "one_answer_short",
        "own_row_is_enough",
        "passed_on_as_it_came",
        "only_for_the_children",
        "does_not_wait_for_its_sibling",
    ],
)
def test_a_broken_protocol_is_caught_while_data_flows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol, mutant = MUTANTS[name]
    monkeypatch.setattr(traffic_module, "part_named", lambda _: mutant)
    data = DataLoad(rate=100, loss=0.05, repair=500_000_000)  # longer than a round
    with pytest.raises(Unsafe, match=r"more is stable than every member has"):
        measure_load(Setting(protocol, SMALL), data, seed=1, rounds=10)


def test_what_was_sent_after_a_lost_message_counts_when_that_one_is_there() -> None:
    traffic = DataTraffic(Setting("coordp", SMALL), DataLoad(rate=1), seed=1, told=lambda _: None)
    member = traffic.members[3]
    for number, counted in [(1, 1), (3, 1), (4, 1), (2, 4), (5, 5)]:
        member.takes(7, number)
        assert member.own.get(7) == counted
    assert member.own.get(6) == 0


# --- X --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("g", "q", "stable", "of", "x"),
    [
        (100, 10, 1, 1, 90),  # α = 1: g − rf
        (100, 10, 1, 2, 90),  # (g − 2rf)/(1 − α) = 160 is no tighter
        (100, 30, 1, 2, 70),
        (100, 40, 1, 2, 40),  # the second bound, 20/0.5
        (100, 30, 0, 5, 40),  # α = 0: g − 2rf
        (100, 60, 1, 2, 1),  # hopeless: as small as can be
    ],
)
def test_stab_6_x_is_the_lesser_bound(g: int, q: int, stable: int, of: int, x: int) -> None:
    assert best_limit(g, q, stable, of) == x


def test_stab_6_senders_can_go_on_if_and_only_if_the_first_bound_is_the_lesser() -> None:
    """g ≥ Q(1 + 1/α): then X = g − Q."""
    for g in range(1, 60, 7):
        for q in range(g - 1):
            for stable in range(10):
                free = g * stable >= q * (stable + 10)
                assert free == (best_limit(g, q, stable, 10) == g - q)


def test_a_trigger_measures_what_it_needs() -> None:
    trigger = Trigger(buffer=100, patience=SECOND)
    assert trigger.limit == 50  # nothing is known yet
    trigger.begun(held=50, oldest=0, newest=490, now=500)  # one every 10 ns
    trigger.ended(released=50, now=700)
    assert trigger.meanwhile == 20
    assert trigger.limit == 80
    for _ in range(3):
        trigger.begun(held=80, oldest=700, newest=1490, now=1500)
        trigger.ended(released=0, now=1600)  # quicker, but nothing was stable
    assert 10 < trigger.meanwhile < 20
    assert trigger.limit < 100 - trigger.meanwhile


def test_a_trigger_is_due_at_x_or_when_the_oldest_has_waited_too_long() -> None:
    trigger = Trigger(buffer=10, patience=1_000, limit=4)
    assert not trigger.due(held=3, oldest=0, now=999)
    assert trigger.due(held=4, oldest=0, now=0)
    assert trigger.due(held=1, oldest=0, now=1_000)
    assert not trigger.due(held=0, oldest=0, now=10_000)


def run(
    limit: int | None, loss: float = 0.0, *, ask: bool = False, silent: bool = False
) -> Triggered:
    patience = SECOND if ask else 3_600 * SECOND
    buffers = Buffers(40, 150, limit, anyone_asks=ask, patience=patience, silent=silent)
    return measure_trigger(FAR, DataLoad(60, 200, loss, 300_000_000), buffers, seed=1)


def test_t_of_x_is_k_by_alpha_x() -> None:
    for limit in (15, 30):
        found = run(limit)
        assert found.alpha == 1
        assert found.rounds == 150 // limit
        assert found.stops == 0


def test_the_first_member_stops_above_the_lesser_bound_only() -> None:
    found = run(34)
    bound = 40 - found.round_ms * 60 / 1e3
    assert 34 < bound < 36
    assert found.first_stops == 0
    assert run(37).first_stops > 0


def test_an_x_above_the_buffer_is_never_reached() -> None:
    """What the printed formula asks for as soon as anything is lost."""
    found = run(41)
    assert (found.rounds, found.stable) == (0, 0)
    assert found.stops == 15  # everyone, for good
    assert found.stopped_ns > 0.7 * 15 * found.end_ns


def test_a_smaller_x_makes_messages_stable_sooner_by_more_rounds() -> None:
    small, large = run(5), run(30)
    assert small.rounds > 2 * large.rounds
    assert small.time_to_stable_ms < 0.7 * large.time_to_stable_ms


@pytest.mark.parametrize("loss", [0.0, 0.01])
def test_with_limits_of_their_own_everything_becomes_stable_and_hardly_anyone_stops(
    loss: float,
) -> None:
    found = run(None, loss, ask=True)
    assert found.stable == 15 * 150
    assert found.stopped_ns < 0.01 * 15 * found.end_ns


def test_in_the_paper_a_silent_root_stops_everyone() -> None:
    found = run(20, silent=True)
    assert found.rounds == 0
    assert found.stable == 0


def test_with_a_silent_root_others_ask() -> None:
    found = run(None, silent=True, ask=True)
    assert found.stable == 14 * 150


def test_one_lone_message_becomes_stable_by_its_age() -> None:
    lone = Buffers(buffer=40, messages=1, anyone_asks=True, patience=SECOND)
    found = measure_trigger(FAR, DataLoad(60, 200), lone, seed=1)
    assert found.stable == 15
    paper = Buffers(buffer=40, messages=1, limit=20)
    assert measure_trigger(FAR, DataLoad(60, 200), paper, seed=1).stable == 0
