"""The voters' log by itself: the claims of the Raft paper that apply here, one test each, and a few
of our own about stores; then random schedules with the invariants looked at after every step."""

import pytest

from ordercast.core.epochs.raft import CANDIDATE, FOLLOWER, LEADER, VotingTimes
from ordercast.core.epochs.voters_log import Ballot
from ordercast.model.epochs import Admit, Begin, Founded, Nothing, Voters
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.voting import Append, Install, Vote, Voted
from support.worlds.voters import TIMES, Parliament, drawn_run


def record(text: str) -> Begin:
    return Begin(text, ())


def founded(names: str = "abc", **options: object) -> Parliament:
    world = Parliament(list(names), **options)  # type: ignore[arg-type]
    world.elect("a")
    world.pass_time(TIMES.beat)
    return world


def records(world: Parliament, name: str) -> list[object]:
    return [entry.record for entry in world[name].log.entries]


# --- elections ------------------------------------------------------------------------------------


def test_founding_needs_all_voters() -> None:
    world = Parliament(["a", "b", "c"])
    world.crash("c")
    world.pass_time(5 * TIMES.election)
    assert world.leaders == {}
    world.boot("c")
    world.pass_time(5 * TIMES.election)
    assert world.decided[1].record == Founded((("a", 1), ("b", 2), ("c", 3)))


def test_a_voter_votes_once_in_a_term_also_after_a_restart() -> None:
    world = founded()
    world["c"].receive(world.now, "a", Vote(7, 99, 7, False))
    world.settle_duties("c")
    assert world.machines["c"].disk[-1] == Ballot(7, "a")
    world.crash("c")
    world.boot("c")
    world.flying.clear()
    world["c"].receive(world.now, "b", Vote(7, 99, 7, False))
    world.settle_duties("c")
    ((_, peer, answer),) = world.flying
    assert peer == "b"
    assert answer == Voted(7, False, False, 3)


def test_nobody_votes_for_one_whose_log_is_behind() -> None:
    world = founded()
    world.isolate("c")
    world.propose("a", record("x"))
    world.calm()
    world.cut = set()
    world["b"].receive(world.now, "c", Vote(9, 1, 1, False))
    world.settle_duties("b")
    answer = world.flying[-1][2]
    assert isinstance(answer, Voted)
    assert not answer.granted


def test_one_that_comes_back_from_a_partition_disturbs_nobody() -> None:
    world = founded()
    world.isolate("c")
    world.pass_time(10 * TIMES.election)
    assert world["c"].role == CANDIDATE
    assert world["c"].term == 1  # it only ever asked whether it would be elected
    world.cut = set()
    world.pass_time(5 * TIMES.election)
    assert list(world.leaders) == [1]


def test_a_leader_grants_no_trial_vote() -> None:
    world = founded()
    world["a"].receive(world.now, "b", Vote(2, 9, 1, True))
    world.settle_duties("a")
    assert world.flying[-1][2] == Voted(1, True, False, 1)


def test_one_that_is_behind_in_terms_learns_of_it_from_a_refused_trial() -> None:
    world = founded()
    world["b"].receive(world.now, "x", Voted(5, False, False, 9))  # b has heard of term 5
    world.settle_duties("b")
    world.isolate("a")
    world.pass_time(TIMES.election)
    world.cut = set()
    world.pass_time(6 * TIMES.election)
    assert max(world.leaders) > 5


def test_a_new_leader_gives_the_others_as_long_to_answer_as_an_old_one() -> None:
    """Their disks may be slower than a beat."""
    world = founded()
    world.isolate("a")
    world.pass_time(5 * TIMES.election)
    (leader,) = (name for name in "bc" if world[name].role == LEADER)
    raft = world[leader]
    raft._lead(world.now)  # as just elected: nobody has answered
    for beats in range(1, 2 * TIMES.election // TIMES.beat):
        raft.alarm(world.now + beats * TIMES.beat)
        assert raft.role == LEADER
    raft.alarm(world.now + 2 * TIMES.election + TIMES.beat)
    assert raft.role == FOLLOWER


def test_a_leader_that_is_cut_off_steps_down() -> None:
    world = founded()
    world.isolate("a")
    world.pass_time(3 * TIMES.election)
    assert world["a"].role != LEADER
    assert [name for name in "bc" if world[name].role == LEADER]


# --- the log --------------------------------------------------------------------------------------


def test_a_new_leader_overwrites_what_was_never_committed() -> None:
    world = founded()
    world.isolate("a")
    world.propose("a", record("lost"))
    world.pass_time(3 * TIMES.election)
    (leader,) = [name for name in "bc" if world[name].role == LEADER]
    world.propose(leader, record("kept"))
    world.cut = set()
    world.pass_time(3 * TIMES.election)
    assert record("lost") not in records(world, "a")
    assert records(world, "a") == records(world, leader)


def test_an_entry_of_an_earlier_term_is_committed_only_with_one_of_the_own() -> None:
    """[Raft] Figure 8: an old entry that a majority has may still be overwritten."""
    world = founded()
    world.propose("a", record("old"))
    world.deliver()  # b has it; nobody knows that it does
    world.crash("a")
    world.flying.clear()
    world.alarm("b")
    while world["b"].role != LEADER:
        world.deliver()
    last = world["b"].log.last
    assert world["b"].log.entry(last).record == Nothing()
    assert world["b"].committed < last - 1
    appends = [frame for _, _, frame in world.flying if isinstance(frame, Append)]
    assert appends[-1].entries == (world["b"].log.entry(last),)  # c lacks "old": it is sent then
    world.calm()
    assert world["b"].committed == last
    assert record("old") in [entry.record for entry in world.decided.values()]


def test_what_is_committed_survives_every_minority() -> None:
    world = founded("abcde")
    world.propose("a", record("x"))
    world.calm()
    for name in "ab":
        world.crash(name)
    world.pass_time(4 * TIMES.election)
    (leader,) = [name for name in "cde" if world[name].role == LEADER]
    assert record("x") in records(world, leader)


def test_a_voter_far_behind_gets_the_snapshot() -> None:
    world = founded()
    world.isolate("c")
    for number in range(5):
        world.propose("a", record(f"{number}"))
        world.calm()
    world.compact("a")
    world.cut = set()
    world.alarm("a")
    assert any(isinstance(frame, Install) for _, _, frame in world.flying)
    world.pass_time(2 * TIMES.beat)
    assert world["c"].log.snapshot == world["a"].log.snapshot
    world.propose("a", record("after"))
    world.pass_time(2 * TIMES.beat)
    assert world["c"].committed == world["a"].committed
    world.crash("c")
    world.boot("c")
    assert world["c"].log.last == world["a"].log.last


# --- voters change --------------------------------------------------------------------------------


def test_voters_change_by_one() -> None:
    world = founded("abcx", first="abc")
    assert world.propose("a", Voters((("a", 1),))) is None
    assert world.propose("a", Voters((("a", 1), ("b", 2), ("x", 4)))) is None
    assert world.propose("a", Voters((("a", 1), ("b", 2), ("c", 9)))) is None  # that is for Admit
    assert world.propose("a", Voters((("a", 1), ("b", 2)))) is not None


def test_the_next_change_waits_for_the_one_before() -> None:
    world = founded("abcx", first="abc")
    more = (("a", 1), ("b", 2), ("c", 3), ("x", 4))
    assert world.propose("a", Voters(more)) is not None
    assert world.propose("a", Voters(more[1:])) is None
    world.pass_time(2 * TIMES.beat)
    assert world.propose("a", Voters(more[1:])) is not None


def test_a_new_leader_changes_no_voters_before_it_has_committed_something() -> None:
    world = Parliament(["a", "b", "c"])
    world.alarm("a")
    while world["a"].role != LEADER:
        world.deliver()
    assert world.propose("a", Voters((("a", 1), ("b", 2)))) is None


def test_an_added_voter_counts() -> None:
    world = founded("abx", first="ab")
    world.propose("a", Voters((("a", 1), ("b", 2), ("x", 3))))
    world.pass_time(2 * TIMES.beat)
    world.crash("b")
    index = world.propose("a", record("with x"))
    world.calm()
    assert index is not None
    assert world["a"].committed >= index


def test_a_leader_that_is_removed_leads_until_that_is_committed() -> None:
    world = founded()
    world.propose("a", Voters((("b", 2), ("c", 3))))
    assert world["a"].role == LEADER
    world.pass_time(2 * TIMES.beat)
    assert world["a"].role == FOLLOWER
    world.pass_time(4 * TIMES.election)
    assert [name for name in "bc" if world[name].role == LEADER]
    assert world["a"].role == FOLLOWER


def test_one_whose_removal_nobody_else_knows_of_still_helps() -> None:
    world = founded("ab")
    world.isolate("a")
    world.propose("a", Voters((("b", 2),)))
    world.crash("a")
    world.boot("a")
    world.cut = set()
    world.pass_time(6 * TIMES.election)
    assert world["b"].role == LEADER
    assert world["b"].log.stores() == {"b": 2}


# --- lost stores ----------------------------------------------------------------------------------


def test_a_new_store_has_no_vote_until_it_is_admitted() -> None:
    world = founded()
    world.crash("c", lose_store=True)
    world.boot("c")
    world.pass_time(2 * TIMES.beat)
    assert world["c"].log.last == world["a"].log.last
    world.crash("a")
    world.pass_time(6 * TIMES.election)
    assert list(world.leaders) == [1]  # b and the new c are no majority
    world.boot("a")
    world.pass_time(6 * TIMES.election)
    (leader,) = [name for name in "abc" if world[name].role == LEADER]
    for _ in range(2):
        world.admit_waiting(leader)
        world.pass_time(2 * TIMES.beat)
    assert world[leader].log.stores()["c"] == 4
    world.crash("a")
    world.pass_time(6 * TIMES.election)
    assert [name for name in "bc" if world[name].role == LEADER]


def test_a_store_is_admitted_only_in_the_place_of_none() -> None:
    world = founded()
    assert world.propose("a", Admit("c", 2, 9)) is None
    assert world.propose("a", Admit("c", 1, 0)) is not None
    world.pass_time(2 * TIMES.beat)
    assert world.propose("a", Admit("c", 2, 9)) is not None


def test_two_leaders_cannot_both_count_a_voter_that_lost_its_store() -> None:
    """a leads and is cut off; b and c decide without it; c loses its store and hears a first."""
    world = founded()
    world.isolate("a")
    world.alarm("b")
    world.now += TIMES.election
    world.alarm("b")
    world.calm()
    assert world["b"].role == LEADER
    world.propose("b", record("decided by b and c"))
    world.calm()
    assert world["b"].committed == world["b"].log.last
    assert world["a"].role == LEADER  # it does not know better yet
    world.crash("c", lose_store=True)
    world.boot("c")
    world.cut = {frozenset("ab"), frozenset("bc")}
    world.flying.clear()
    world["a"].propose(world.now, record("a alone"))
    world.settle_duties("a")
    world.calm()
    for _ in range(3):
        world.admit_waiting("a")
        world.calm()
    assert world.violations == []
    assert world["a"].committed < world["a"].log.last


def test_entries_of_a_lost_store_do_not_count_for_the_new_one() -> None:
    world = founded()
    world.propose("a", record("x"))
    world.calm()
    world.crash("c", lose_store=True)
    world.boot("c")
    world.alarm("a")
    world.deliver(len(world.flying) - 1)  # c answers: nothing here
    world.deliver(len(world.flying) - 1)
    assert world["a"].waiting_for_admission() == []


# --- random schedules -----------------------------------------------------------------------------

CHUNK, RUNS = 50, 600

# 675: a removed leader restarted and no longer knew that it might stand.
# 29, 489, 852: nobody told one with the longer log that its term had passed.
LIVENESS = [29, 489, 675, 852, 1083, 1134, 2294]


@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_random_schedules_break_no_invariant_and_end_in_a_decision(first: int) -> None:
    for seed in range(first, first + CHUNK):
        drawn = drawn_run(seed)
        assert drawn.violations == [], f"seed {seed}"
        assert drawn.live, f"seed {seed}"


@pytest.mark.parametrize("seed", LIVENESS)
def test_voters_that_had_no_leader_any_more(seed: int) -> None:
    drawn = drawn_run(seed)
    assert drawn.violations == []
    assert drawn.live


def test_voters_stand_before_a_suspicion_but_not_for_a_stall_of_the_machine() -> None:
    assert VotingTimes.within(SECOND).election == SECOND // 2
    assert VotingTimes.within(100 * MILLISECOND).election == 150 * MILLISECOND
