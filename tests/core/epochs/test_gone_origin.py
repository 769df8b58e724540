"""An origin outside the domain that is gone between its offers and their numbers (`two_phase`):
the domain's epoch is closed, though none of its sites has failed, and the origin sends again."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from ordercast.core.epochs.exclusions import Exclusions
from ordercast.model.epochs import RetireSite
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.worlds import epochs
from support.worlds.epochs import World

ALONE = {"g": "abc"}
WITH_A_DOMAIN = {"g": "abc", "h": "xy"}


def offered(groups: dict[str, str], deliver: str = "safe") -> World:
    """x has offered a message to g, heard no answer, and crashed; then the others send."""
    world = World(groups, "abcxy", "abc", policy="exclude", protocol="two_phase", deliver=deliver)
    world.run(SECOND)
    world.submit("x", "g", b"first")
    world.run(world.now + SECOND)
    world.deaf = {(site, "x") for site in "abcy"}
    world.submit("x", "g", b"offered")
    world.run(world.now + 10 * MILLISECOND)
    world.down.add("x")
    world.crash("x", 60 * SECOND)
    world.deaf = set()
    for site in "abc":
        world.submit(site, "g", site.encode())
    return world


def texts(world: World, site: str) -> list[bytes]:
    return [payload for _, _, payload in world.seen[site]]


@pytest.fixture(autouse=True)
def _any_builder() -> Iterator[None]:
    with patch.object(epochs, "build", build_forest):
        yield


@pytest.mark.parametrize("groups", [ALONE, WITH_A_DOMAIN], ids=["alone", "with a domain"])
@pytest.mark.parametrize("deliver", ["safe", "agreed"])
def test_nobody_waits_for_it_and_it_sends_again_when_it_is_back(
    groups: dict[str, str], deliver: str
) -> None:
    world = offered(groups, deliver)
    world.run(world.now + 100 * MILLISECOND)
    assert texts(world, "a") == [b"first"]
    world.run(world.now + 2 * SECOND)
    assert sorted(texts(world, "a")[1:]) == [b"a", b"b", b"c"]
    world.down.discard("x")
    world.start("x")
    world.settle()
    assert world.judge() == []
    assert texts(world, "a")[4:] == [b"offered"]
    assert texts(world, "b") == texts(world, "c") == texts(world, "a")


def test_nor_when_it_is_retired_before_that() -> None:
    """The change itself waits for nobody: x is in no domain."""
    world = offered(ALONE)
    world.ask("a", "retire", RetireSite("x"))
    world.run(world.now + 2 * SECOND)
    world.settle()
    assert world.outcomes == {"retire": ""}
    assert sorted(texts(world, "c")[1:]) == [b"a", b"b", b"c"]
    assert world.judge() == []


def test_an_origin_that_is_there_is_waited_for() -> None:
    """It cannot be heard by one member: for a while that is not silence."""
    world = World(ALONE, "abcx", "abc", policy="exclude", protocol="two_phase")
    world.run(SECOND)
    world.deaf = {("c", "x")}
    world.submit("x", "g", b"1")
    world.run(world.now + 3 * SECOND // 2)
    assert world.members["a"].layout.last_epoch == 1
    world.deaf = set()
    world.settle()
    assert texts(world, "c") == [b"1"]
    assert world.judge() == []


def test_without_it_the_domain_would_stand_still() -> None:
    """The mutant of this: a manager that closes epochs for their own sites only."""
    with patch.object(Exclusions, "_waits", lambda *_: False):
        world = offered(ALONE)
        world.run(world.now + 2 * SECOND)
    assert texts(world, "a") == [b"first"]
