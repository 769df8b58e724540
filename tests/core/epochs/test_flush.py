"""Failure under `exclude` and return ([GS] §5.2.1): what survivors see, and who comes back."""

from collections.abc import Sequence

import pytest

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.packing import pack_layout
from ordercast.model.errors import NotInMajority
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import Feed
from support.worlds.epochs import World

SITES = ["a", "b", "c", "d", "e"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d", "e"]}
SUSPECT = 300 * MILLISECOND


def cluster(deliver: str = "safe", groups: dict[str, list[str]] | None = None) -> World:
    world = World(groups or GROUPS, SITES, ["a", "b", "d"], policy="exclude", deliver=deliver)
    world.run(SECOND)
    return world


def send(world: World, site: str, group: str, *texts: str) -> None:
    for text in texts:
        world.submit(site, group, text.encode())


def texts(world: World, site: str) -> list[str]:
    return [payload.decode() for _, _, payload in world.seen[site]]


def run(world: World, milliseconds: int) -> None:
    world.run(world.now + milliseconds * MILLISECOND)


def absent(world: World, site: str = "a") -> list[str]:
    return sorted(world.members[site].layout.absent)


def settled(world: World) -> None:
    world.settle()
    assert world.judge() == []
    assert absent(world) == []


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("gone", SITES)
def test_survivors_go_on_without_whoever_crashed(deliver: str, gone: str) -> None:
    """Leaf, inner site, root, primary and manager alike."""
    world = cluster(deliver)
    world.crash(gone, 5 * SECOND)
    run(world, 10)
    others = [site for site in SITES if site != gone]
    for site in others:
        for group in GROUPS:
            send(world, site, group, f"{site} to {group}")
    run(world, 2_000)
    assert absent(world, others[0]) == [gone]
    for group, members in GROUPS.items():
        for member in members:
            if member != gone:
                assert {f"{site} to {group}" for site in others} <= set(texts(world, member))
    run(world, 3_000)
    settled(world)
    for group, members in GROUPS.items():
        if gone in members:
            assert {f"{site} to {group}" for site in others} <= set(texts(world, gone))


def test_the_pause_is_little_more_than_the_timeout() -> None:
    world = cluster()
    world.crash("c", 5 * SECOND)
    begun = world.now
    while absent(world) != ["c"]:
        run(world, 10)
    assert world.now - begun < SUSPECT + 200 * MILLISECOND


def test_a_short_silence_excludes_nobody() -> None:
    world = cluster()
    world.partition(["c"])
    run(world, SUSPECT // MILLISECOND // 2)
    world.partition([])
    run(world, 1_000)
    assert absent(world) == []
    assert len(world.epochs) == 1


def test_a_restart_is_answered_with_another_epoch_and_nobody_is_absent() -> None:
    world = cluster("agreed")
    send(world, "a", "alpha", "before")
    run(world, 50)
    world.crash("c", 20 * MILLISECOND)
    send(world, "b", "alpha", "meanwhile")
    settled(world)
    assert len(world.epochs) == 2
    assert world.rollbacks == []
    assert texts(world, "c")[:2] == ["before", "meanwhile"]


def cut_off(world: World, site: str) -> None:
    """Until the others have closed the epoch without the site; it does not know."""
    world.partition([site])
    run(world, 10)


def test_what_only_the_excluded_site_delivered_is_rolled_back() -> None:
    world = cluster("agreed", {"alpha": ["a", "b", "c"]})
    root = world.members["a"].layout.domains[1].root
    send(world, root, "alpha", "known to all")
    run(world, 50)
    cut_off(world, root)
    send(world, root, "alpha", "lonely 1", "lonely 2")
    run(world, 1_000)
    assert texts(world, root) == ["known to all", "lonely 1", "lonely 2"]
    other = next(site for site in "abc" if site != root)
    send(world, other, "alpha", "in the meantime")
    run(world, 500)
    world.partition([])
    settled(world)
    ((site, rollback),) = world.rollbacks
    assert (site, rollback.position) == (root, 1)
    assert [message.seq for _, message in rollback.annulled] == [2, 3]
    assert texts(world, root) == ["known to all", "in the meantime", "lonely 1", "lonely 2"]


def test_at_safe_the_same_site_had_delivered_nothing() -> None:
    world = cluster("safe", {"alpha": ["a", "b", "c"]})
    root = world.members["a"].layout.domains[1].root
    cut_off(world, root)
    send(world, root, "alpha", "lonely")
    run(world, 1_000)
    assert texts(world, root) == []
    world.partition([])
    settled(world)
    assert texts(world, root) == ["lonely"]
    assert world.rollbacks == []


def test_an_absent_site_takes_nothing_from_its_application() -> None:
    world = cluster()
    world.partition(["c"])
    run(world, 1_000)
    assert absent(world) == ["c"]
    member = world.members["c"]
    member.receive(world.now, "a", _feed_of(world))
    with pytest.raises(NotInMajority, match="c is absent"):
        member.submit(world.now, "alpha", [b"x"])


def _feed_of(world: World) -> Feed:
    layout = world.members["a"].layout
    return Feed(layout.count, (), layout.count, (), pack_layout(layout))


# --- frozen groups --------------------------------------------------------------------------------


def test_a_group_whose_members_are_all_gone_waits_for_one_of_them() -> None:
    world = cluster("safe", {"alpha": ["a", "b", "c"], "beta": ["d", "e"]})
    send(world, "a", "beta", "before")
    run(world, 50)
    for site in "de":
        world.crash(site, 3 * SECOND)
    send(world, "a", "beta", "kept by its origin")
    run(world, 1_500)
    assert list(world.members["a"].layout.frozen) == ["beta"]
    with pytest.raises(NotInMajority, match="beta"):
        world.members["a"].submit(world.now, "beta", [b"refused"])
    run(world, 2_000)
    settled(world)
    assert texts(world, "d") == texts(world, "e") == ["before", "kept by its origin"]


def test_a_frozen_group_is_settled_by_who_was_in_it_to_the_end() -> None:
    """d was absent already when e, alone in the group, delivered more and went too."""
    world = cluster("safe", {"alpha": ["a", "b", "c"], "beta": ["d", "e"]})
    world.crash("d", 3 * SECOND)
    run(world, 1_000)
    send(world, "a", "beta", "only e has it")
    run(world, 200)
    assert texts(world, "e") == ["only e has it"]
    world.crash("e", 4 * SECOND)
    run(world, 2_500)
    assert "d" in world.members
    assert absent(world) == ["d", "e"]  # d is there, and is not let in
    run(world, 3_000)
    settled(world)
    assert texts(world, "d") == ["only e has it"]


def test_who_left_an_epoch_before_its_end_holds_it_for_nobody() -> None:
    """a, too, has kept for c what its log forgot, but not what came after it was cut off."""
    world = cluster("safe", {"alpha": ["a", "c", "d"], "beta": ["c", "d", "e"]})
    world.crash("c", 10 * SECOND)
    run(world, 1_000)
    assert (absent(world), world.members["d"].layout.domains[2].root) == (["c"], "d")
    for number in range(60):
        send(world, "d", "alpha", f"{number}")
        run(world, 10)
    assert (2, "alpha") in world.members["a"].flush.missed.places()
    cut_off(world, "a")
    send(world, "d", "alpha", "more")
    run(world, 1_000)
    assert absent(world, "d") == ["a", "c"]
    world.partition([])
    run(world, 2_000)
    assert absent(world) == ["c"]
    run(world, 9_000)
    settled(world)


# --- partitions and stores ------------------------------------------------------------------------


def test_the_side_without_a_majority_opens_nothing() -> None:
    world = cluster()
    world.partition(["d", "e"])
    run(world, 3_000)
    assert list(world.members["d"].layout.domains) == [1]
    assert absent(world) == ["d", "e"]
    assert [site for site in SITES if world.members[site].manager.leads] in (["a"], ["b"])
    world.partition([])
    settled(world)


def test_a_site_without_its_store_returns_as_another_incarnation() -> None:
    world = cluster()
    send(world, "c", "alpha", "first life")
    run(world, 50)
    world.lose("c", 100 * MILLISECOND)
    run(world, 2_000)
    send(world, "c", "alpha", "second life")
    settled(world)
    assert world.members["c"].incarnation == 2
    assert texts(world, "c") == ["second life"]
    assert texts(world, "a") == ["first life", "second life"]


def test_everyone_may_crash_at_once() -> None:
    world = cluster()
    for number in range(20):
        send(world, SITES[number % 5], "alpha", str(number))
    for site in SITES:
        world.crash(site, 100 * MILLISECOND)
    settled(world)


def test_under_wait_nobody_is_excluded() -> None:
    world = World(GROUPS, SITES, ["a", "b", "d"], policy="wait")
    world.run(SECOND)
    world.crash("c", 3 * SECOND)
    run(world, 2_000)
    assert absent(world) == []
    settled(world)
    assert len(world.epochs) == 1


def test_a_rollback_is_told_once_and_repeated_by_a_restart() -> None:
    world = cluster("agreed", {"alpha": ["a", "b", "c"]})
    root = world.members["a"].layout.domains[1].root
    cut_off(world, root)
    send(world, root, "alpha", "lonely")
    run(world, 1_000)
    world.partition([])
    run(world, 1_000)
    world.crash(root, 10 * MILLISECOND)
    settled(world)
    assert len(_told(world.rollbacks, root)) == 1


def _told(rollbacks: Sequence[tuple[str, Rollback]], site: str) -> list[Rollback]:
    return [rollback for who, rollback in rollbacks if who == site]


# --- slow members ---------------------------------------------------------------------------------


def held_up(slow_member: str) -> World:
    """The application of c takes nothing more, and c, at `safe`, holds everyone up."""
    world = World(
        GROUPS, SITES, ["a", "b", "d"], policy="exclude", slow_member=slow_member, deliver="safe"
    )
    world.run(SECOND)
    world.members["c"].hold(world.now, held=True)
    send(world, "a", "alpha", "waits for c")
    run(world, 2_500)
    return world


def test_a_slow_member_is_waited_for() -> None:
    world = held_up("wait")
    assert texts(world, "b") == []
    world.members["c"].hold(world.now, held=False)
    settled(world)
    assert len(world.epochs) == 1


def test_a_slow_member_is_excluded_if_that_is_asked_for() -> None:
    world = held_up("exclude")
    assert texts(world, "b") == ["waits for c"]
    assert len(world.epochs) > 1
    world.members["c"].hold(world.now, held=False)
    settled(world)
    assert texts(world, "c") == ["waits for c"]


def test_a_site_that_loses_its_store_again_and_again_does_not_stop_all_domains_each_time() -> None:
    """z is in no group, and could say it at any time."""
    world = World({"g": "abc"}, "abcz", "abc", policy="exclude")
    world.run(SECOND)
    before = world.members["a"].layout.last_epoch
    for _ in range(10):
        world.lose("z", 50 * MILLISECOND)
        world.run(world.now + SECOND)
    opened = world.members["a"].layout.last_epoch - before
    assert opened <= 4  # of ten seconds, once in three
    for _ in range(30):
        world.lose("z", 50 * MILLISECOND)
        world.run(world.now + SECOND)
    assert world.members["a"].layout.last_epoch - before <= opened + 4  # each time later
    world.settle()
    layout = world.members["z"].layout
    assert (layout.absent, layout.stores["z"]) == ({}, world.stores["z"])
    assert world.judge() == []
