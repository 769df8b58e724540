"""Corners of opening and closing under `exclude` that schedules found, each by itself and with the
mutant that lacks its cure."""

from contextlib import ExitStack
from unittest.mock import patch

import pytest

from ordercast.core.epochs import absence
from ordercast.core.epochs.fence import Fence
from ordercast.core.epochs.flush import Flusher
from ordercast.model.epochs import JoinGroup, LeaveGroup, RetireSite
from ordercast.model.options import MILLISECOND, SECOND
from support.mutants.exclusion import a_restart_resumes, anybody_settles_a_frozen_group, in_force
from support.worlds.epochs import World


def entered_twice(deliver: str, *, earlier: bool = True) -> World:
    """b returns, opens the epoch, places a message in it and, if its program is an earlier version,
    relays it; it crashes before any of that is stored. Then c sends, too."""
    world = World({"g": "bc"}, "abc", "a", policy="exclude", deliver=deliver)
    world.run(SECOND)
    world.crash("b", SECOND)
    world.run(world.now + 900 * MILLISECOND)
    assert sorted(world.members["a"].layout.absent) == ["b"]
    drain, entered = world.drain, list[int]()

    def crash_when_it_opens(site: str) -> None:
        member = world.members[site]
        layout = member.layout
        if site == "b" and not entered and layout.last_epoch > 2 and layout.flushing is None:
            entered.append(layout.last_epoch)
            member.submit(world.now, "g", [b"ghost"])
            with ExitStack() as version:
                if earlier:
                    version.enter_context(patch.object(Fence, "end", lambda *_: None))
                box = member.drain()
            world._send(site, box)
            world.crash(site, 20 * MILLISECOND)
        else:
            drain(site)

    with patch.object(world, "drain", crash_when_it_opens):
        world.run(world.now + 250 * MILLISECOND)
        assert entered
        world.submit("c", "g", b"from c")
        world.run(world.now + SECOND)
        world.settle()
    return world


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
def test_an_epoch_that_was_entered_and_not_stored_is_not_entered_again(deliver: str) -> None:
    world = entered_twice(deliver)
    assert world.judge() == []
    assert [payload for _, _, payload in world.seen["b"]] == [b"ghost", b"from c"]


def test_nothing_is_relayed_in_an_epoch_before_it_is_stored_that_it_is_open() -> None:
    world = entered_twice("agreed", earlier=False)
    assert world.judge() == []
    assert [payload for _, _, payload in world.seen["c"]] == [b"from c"]


def test_otherwise_a_number_would_be_given_twice() -> None:
    with patch.object(Flusher, "entering", lambda *_: None):
        assert entered_twice("agreed").judge() != []


def resumed(deliver: str) -> World:
    """b has placed and relayed a message, and crashed before it was stored; it is back before
    anybody has missed it."""
    world = World({"g": "bc"}, "abc", "a", policy="exclude", deliver=deliver)
    world.run(SECOND)
    world.members["b"].submit(world.now, "g", [b"ghost"])
    world._send("b", world.members["b"].drain())
    world.crash("b", 5 * MILLISECOND)
    world.run(world.now + 10 * MILLISECOND)
    world.submit("c", "g", b"from c")
    world.run(world.now + SECOND)
    world.settle()
    return world


def test_a_restart_does_not_resume() -> None:
    world = resumed("agreed")
    assert world.judge() == []
    assert [payload for _, _, payload in world.seen["b"]] == [b"ghost", b"from c"]


def test_otherwise_it_would_place_another_message_there() -> None:
    with in_force(a_restart_resumes()):
        assert resumed("agreed").judge() != []


def settled_by_an_earlier_one() -> World:
    """a was absent when b, the last of their group, went; then a returns first."""
    world = World({"g": "ab"}, "abcde", "cde", policy="exclude")
    world.run(SECOND)
    world.crash("a", 60 * SECOND)
    world.run(world.now + SECOND)
    world.submit("c", "g", b"b alone has it")
    world.run(world.now + SECOND)
    world.crash("b", 60 * SECOND)
    world.run(world.now + SECOND)
    assert sorted(world.members["c"].layout.frozen) == ["g"]
    world.start("a")
    world.run(world.now + SECOND)
    world.start("b")
    world.settle()
    return world


def test_a_frozen_group_waits_for_a_member_of_the_epoch_that_was_closed() -> None:
    world = settled_by_an_earlier_one()
    assert world.judge() == []
    assert [payload for _, _, payload in world.seen["a"]] == [b"b alone has it"]


def test_otherwise_what_was_stable_would_be_taken_back() -> None:
    with in_force(anybody_settles_a_frozen_group()):
        assert settled_by_an_earlier_one().judge() != []


def ended_by_a_flush() -> World:
    """A change that merges two domains has sealed one of them; a site of the other, which asked
    for it, has crashed meanwhile."""
    world = World({"g": "ab", "h": "cd"}, "abcde", "abe", policy="exclude")
    world.run(SECOND)
    world.ask("d", "merge", JoinGroup("h", "a"))
    world.run(world.now + 3 * MILLISECOND)
    world.crash("d", 2 * SECOND)
    world.run(world.now + 100 * MILLISECOND)
    assert world.members["a"].engines[1].epoch_state.closed
    world.run(world.now + SECOND)
    world.submit("a", "g", b"later")
    world.run(world.now + SECOND)
    world.settle()
    return world


def test_a_flush_closes_all_that_a_change_it_ends_had_begun_to_close() -> None:
    world = ended_by_a_flush()
    assert world.judge() == []
    assert [payload for _, _, payload in world.seen["b"]] == [b"later"]


def test_otherwise_a_domain_would_stay_sealed() -> None:
    with patch.object(absence, "_with_changes", lambda _, epochs: epochs):
        assert ended_by_a_flush().judge() != []


@pytest.mark.parametrize("edit", [LeaveGroup("g", "b"), RetireSite("c")], ids=["leave", "retire"])
def test_who_has_what_an_absent_member_missed_stays_until_it_is_back(
    edit: LeaveGroup | RetireSite,
) -> None:
    world = World({"g": "abc"}, "abcde", "bde", policy="exclude")
    world.run(SECOND)
    world.crash("a", 3 * SECOND)
    world.run(world.now + SECOND)
    world.ask("d", "too early", edit)
    world.run(world.now + SECOND)
    assert "has what 'a', absent, missed of 'g'" in world.outcomes["too early"]
    world.run(world.now + 2 * SECOND)
    world.ask("d", "in time", edit)
    world.settle()
    assert world.outcomes["in time"] == ""
    assert world.judge() == []
