"""All who chose the past of an epoch lose their stores: what is left of it is what those have that
were absent then, and all of them get that."""

import pytest

from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World


def texts(world: World, site: str) -> str:
    return "".join(payload.decode() for _, _, payload in world.seen[site])


def bereft(level: str, late: str) -> World:
    """The root goes on alone, and loses its store. Of four messages of the epoch before d had
    three, c two and b one. The voters see those that return at the same time, but for `late`."""
    for seed in range(1, 100):
        world = World({"g": "abcd"}, "abcdvwx", "vwx", deliver=level, policy="exclude", seed=seed)
        world.run(SECOND)
        assert world.members["v"].layout.domains[1].root == "a"
        for number, gone in enumerate("bcda", 1):
            world.submit("a", "g", b"%d" % number)
            world.run(world.now + 20 * MILLISECOND)
            if gone != "a":
                world.crash(gone, (9 if gone in late else 4) * SECOND)
        world.run(world.now + 2 * SECOND)
        layout = world.members["v"].layout
        assert layout.absent == {"b": 1, "c": 1, "d": 1}
        assert [number for number, _ in layout.pasts.values()] == [4]
        for voter in "vw":
            world.crash(voter, 3 * SECOND)
        world.lose("a", SECOND)
        world.run(7 * SECOND)
        layout = world.members["v"].layout
        if layout.last_epoch == 3 and sorted(layout.absent) == sorted(late):
            return world
    raise AssertionError("they never came at the same time")


@pytest.mark.parametrize("level", ["agreed", "safe"])
def test_those_that_return_have_as_much_as_one_of_them_had(level: str) -> None:
    world = bereft(level, late="")
    world.submit("b", "g", b"5")
    world.settle()
    assert [texts(world, site) for site in "abcd"] == ["5", "1235", "1235", "1235"]
    assert world.rollbacks == []
    assert world.judge() == []


@pytest.mark.parametrize("level", ["agreed", "safe"])
@pytest.mark.parametrize(("late", "left"), [("b", "123"), ("d", "12")])
def test_who_returns_later_is_compared_with_what_was_left(late: str, left: str, level: str) -> None:
    """Also one that had more than that: it is rolled back, as nobody else will have it. At `safe`
    it was not delivered."""
    world = bereft(level, late)
    world.submit("c", "g", b"5")
    world.settle()
    assert [texts(world, site) for site in "bcd"] == [left + "5"] * 3
    assert len(world.rollbacks) == (late == "d" and level == "agreed")
    assert world.judge() == []
