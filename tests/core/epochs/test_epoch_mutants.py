"""Every broken variant is caught by the schedules: within 600 seeds, counted from the first.

The search starts where each was caught when this was written, and goes on through all of them, so
that it is short as long as nothing has changed."""

import pytest

from ordercast.core.epochs.raft import Raft
from support.cases.epoch_schedules import schedule
from support.cases.last_burst import written_around_the_end
from support.mutants.epochs import MUTANTS, broken
from support.mutants.voters import VOTER_MUTANTS
from support.worlds.voters import drawn_run

SEEDS = 600
KNOWN = {
    "no_majority": 1,
    "fed_before_it_is_committed": 53,
    "close_not_ordered": 2,
    "report_before_it_is_durable": 540,
    "goes_on_after_the_close": 9,
    "finish_is_not_persisted": 14,
}
TOO_LATE = "records_of_the_last_burst_come_too_late"
RUNS = 1_500


def is_caught(name: str, seed: int) -> bool:
    with broken(name):
        try:
            return schedule(seed).judge() != []
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


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("name", [name for name in MUTANTS if name != TOO_LATE])
def test_a_mutant_is_caught(name: str) -> None:
    first = KNOWN.get(name, 0)
    seeds = [*range(first, SEEDS), *range(first)]
    assert any(is_caught(name, seed) for seed in seeds), f"{name} survived {SEEDS} schedules"


@pytest.mark.parametrize("name", VOTER_MUTANTS)
def test_a_mutant_of_the_voters_is_caught(name: str) -> None:
    kind, first = VOTER_MUTANTS[name]
    seeds = [*range(first, RUNS), *range(first)]
    assert any(breaks(kind, seed) for seed in seeds), f"{name} survived {RUNS} runs"


def test_there_are_at_least_ten() -> None:
    assert len(MUTANTS) + len(VOTER_MUTANTS) >= 10
