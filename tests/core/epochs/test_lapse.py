"""What is kept for absent sites has a bound; beyond it they return as joiners do, with a base."""

import pytest

from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World

SITES = ["a", "b", "c", "d", "e"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d", "e"]}
LIMIT = 20_000


def cluster(deliver: str = "safe", limit: int = LIMIT) -> World:
    world = World(
        GROUPS, SITES, ["a", "b", "d"], policy="exclude", deliver=deliver, missed_bytes=limit
    )
    world.run(SECOND)
    return world


def run(world: World, milliseconds: int) -> None:
    world.run(world.now + milliseconds * MILLISECOND)


def load(world: World, count: int, site: str = "d") -> None:
    for number in range(count):
        for group in GROUPS:
            world.submit(site, group, b"%d" % number * 100)
        run(world, 10)


def texts(world: World, site: str) -> list[bytes]:
    return [payload for _, _, payload in world.seen[site]]


def lapsed(world: World) -> tuple[str, ...]:
    return world.members["a"].layout.lapsed


def shelves(world: World) -> int:
    return max(member.flush.missed.size for member in world.members.values())


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("gone", ["c", "e", "d"])
def test_who_misses_too_much_joins_its_groups_anew(deliver: str, gone: str) -> None:
    world = cluster(deliver)
    sender = "a"
    load(world, 3, sender)
    world.crash(gone, 60 * SECOND)
    run(world, 1_000)
    load(world, 100, sender)
    assert lapsed(world) == (gone,)
    assert shelves(world) < LIMIT
    before = list(world.seen[gone])
    world.start(gone)
    world.settle()
    assert world.judge() == []
    back = world.opened[gone][-1]
    groups = tuple(group for group in GROUPS if gone in GROUPS[group])
    assert back.joined == back.groups == groups
    assert back.position == len(before)
    assert (groups[0], (gone,)) in world.opened["a" if gone == "c" else "c"][-1].arrived
    assert lapsed(world) == ()
    load(world, 1, sender)
    world.settle()
    assert world.judge() == []
    assert world.seen[gone][: len(before)] == before
    assert len(world.seen[gone]) == len(before) + len(groups)


def test_who_misses_less_catches_up() -> None:
    world = cluster(limit=1_000_000)
    world.crash("c", 60 * SECOND)
    run(world, 1_000)
    load(world, 100)
    world.start("c")
    world.settle()
    assert world.judge() == []
    assert world.opened["c"][-1].joined == ()
    assert len(world.seen["c"]) == 200


def test_at_agreed_the_unagreed_tail_is_rolled_back_all_the_same() -> None:
    world = cluster("agreed")
    load(world, 2, "c")
    world.partition(["c"])
    for _ in range(3):
        world.submit("c", "alpha", b"nobody else has it")
    run(world, 1_000)
    assert texts(world, "c").count(b"nobody else has it") == 3
    load(world, 100, "a")
    assert lapsed(world) == ("c",)
    world.partition([])
    world.settle()
    assert world.judge() == []
    ((site, rollback),) = world.rollbacks
    assert (site, len(rollback.annulled)) == ("c", 3)
    assert texts(world, "a").count(b"nobody else has it") == 3  # sent again


def test_a_lapse_is_kept_through_restarts_of_those_that_hold() -> None:
    world = cluster()
    world.crash("c", 60 * SECOND)
    run(world, 1_000)
    load(world, 100)
    for site in "ab":
        world.crash(site, 20 * MILLISECOND)
        run(world, 1_000)
    load(world, 100)
    assert shelves(world) < LIMIT
    world.start("c")
    world.settle()
    assert world.judge() == []
    assert world.opened["c"][-1].joined == ("alpha", "beta")


def test_nobody_lapses_while_a_group_waits_for_its_word() -> None:
    """b and a alone can tell the past of the group that they are the last of."""
    world = World(
        {"alpha": ["a", "b"], "beta": ["b", "c", "d"]}, SITES, ["c", "d", "e"],
        policy="exclude", missed_bytes=LIMIT,
    )  # fmt: skip
    world.run(SECOND)
    world.submit("e", "alpha", b"in alpha")
    run(world, 500)
    for site in "ab":
        world.crash(site, 60 * SECOND)
    run(world, 1_000)
    for number in range(100):
        world.submit("e", "beta", b"%d" % number * 100)
        run(world, 10)
    layout = world.members["c"].layout
    assert sorted(layout.frozen) == ["alpha"]
    assert layout.lapsed == ()
    world.start("a")
    run(world, 1_000)
    layout = world.members["c"].layout
    assert (layout.frozen, layout.lapsed) == ({}, ("b",))  # a has told it: now b may
    world.start("b")
    world.settle()
    assert world.judge() == []
    assert texts(world, "b") == texts(world, "a") == [b"in alpha"]
