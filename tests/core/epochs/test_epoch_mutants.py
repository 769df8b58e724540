"""Every broken variant is caught by the schedules: within 600 seeds, counted from the first.

The search starts where each was caught when this was written, and goes on through all of them, so
that it is short as long as nothing has changed."""

from collections.abc import Sequence
from typing import Any

import pytest

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.raft import Raft
from ordercast.core.epochs.records import Folded, Kept, MemberBox
from ordercast.model.options import SECOND
from ordercast.wire.epochs import Fed
from support.cases.epoch_schedules import drawn_world, schedule
from support.cases.last_burst import written_around_the_end
from support.mutants.epochs import MUTANTS, broken
from support.mutants.voters import VOTER_MUTANTS
from support.worlds.epochs import World
from support.worlds.voters import drawn_run

SEEDS = 600
KNOWN = {
    "no_majority": 0,
    "fed_before_it_is_committed": 269,
    "close_not_ordered": 2,
    "report_before_it_is_durable": 33,
    "records_of_the_last_burst_come_too_late": 25,
    "goes_on_after_the_close": 9,
    "finish_is_not_persisted": 46,
    "in_two_epochs": 22,
    "resent_before_it_is_known_what_was_included": 22,
}
# What these break shows only if a site crashes at one point of one outbox.
TOO_LATE = "records_of_the_last_burst_come_too_late"
AIMED = ("report_before_it_is_durable", TOO_LATE)
RUNS = 1_500


class Aimed(World):
    """Crashes where an outbox has both records of an epoch and word of its end, and only there."""

    def _danger(self, member: Member, box: MemberBox) -> float:  # noqa: ARG002
        if not any(isinstance(record, Kept) for record in box.persist):
            return 0.0
        if any(isinstance(record, Folded) for record in box.persist):
            return 1.0
        told = (frame for _, frame in (*box.send, *box.then_send))
        return 0.5 if any(isinstance(frame, Fed) and frame.closed for frame in told) else 0.0


def aimed(seed: int) -> World:
    """With one voter, which may pass a Close and decide on the new epoch in one burst."""

    def make(groups: Any, sites: Any, voters: Sequence[str], **drawn: Any) -> World:
        return Aimed(groups, sites, voters[:1], **{**drawn, "burst": 0.5, "crash": 0.0})

    world = drawn_world(seed, make_world=make)
    world.run(3 * SECOND)
    world.settle()
    return world


def is_caught(name: str, seed: int) -> bool:
    run = aimed if name in AIMED else schedule
    with broken(name):
        try:
            return run(seed).judge() != []
        except Exception:  # it fell over its own state: that is seen too
            return True


def breaks(kind: type[Raft], seed: int) -> bool:
    try:
        return drawn_run(seed, kind=kind).violations != []
    except Exception:
        return True


def test_what_a_burst_asked_for_is_written_before_the_end_of_its_epoch() -> None:
    assert written_around_the_end() == ["message", "end"]
    with broken(TOO_LATE):
        assert written_around_the_end() == ["end", "message"]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str) -> None:
    first = KNOWN.get(name, 0)
    seeds = [*range(first, SEEDS), *range(first)]
    assert any(is_caught(name, seed) for seed in seeds), f"{name} survived {SEEDS} schedules"


@pytest.mark.parametrize("name", AIMED)
def test_the_right_one_passes_where_crashes_are_aimed(name: str) -> None:
    assert aimed(KNOWN[name]).judge() == []


@pytest.mark.parametrize("name", VOTER_MUTANTS)
def test_a_mutant_of_the_voters_is_caught(name: str) -> None:
    kind, first = VOTER_MUTANTS[name]
    seeds = [*range(first, RUNS), *range(first)]
    assert any(breaks(kind, seed) for seed in seeds), f"{name} survived {RUNS} runs"


def test_there_are_at_least_ten() -> None:
    assert len(MUTANTS) + len(VOTER_MUTANTS) >= 10
