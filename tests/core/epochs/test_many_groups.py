"""What a return costs grows with the number of groups, not with its square."""

from dataclasses import replace
from typing import ClassVar

import pytest

from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.layout import Flushing
from ordercast.core.epochs.past import choose
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import LogReport
from support.worlds.epochs import World


def looks(groups: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the sites look how much of a group they have, while c returns to all groups."""
    named = {f"g{number}": "abc" for number in range(groups)}
    world = World(named, "abc", "abc", policy="exclude", deliver="safe")
    world.run(SECOND)
    world.crash("c", 4 * SECOND)
    world.run(2 * SECOND)
    assert sorted(world.members["a"].layout.absent) == ["c"]
    for group in named:
        world.submit("a", group, b"x")
        world.run(world.now + MILLISECOND)
    count = 0
    having = Flusher._having

    def counted(flusher: Flusher, epoch: int, group: str) -> int:
        nonlocal count
        count += 1
        return having(flusher, epoch, group)

    monkeypatch.setattr(Flusher, "_having", counted)
    world.settle()
    monkeypatch.undo()
    assert world.judge() == []
    assert len(world.seen["c"]) == groups
    return count


def test_a_page_of_one_group_is_not_compared_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = looks(20, monkeypatch), looks(80, monkeypatch)
    assert many < 6 * few


class Compared(str):
    """A group's name that counts how often it is compared."""

    times: ClassVar[int] = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def comparisons(groups: int) -> int:
    names = [Compared(f"g{number}") for number in range(groups)]
    world = World({str(name): "ab" for name in names}, "abc", "abc", policy="exclude")
    layout = replace(
        world.members["a"].layout,
        pasts={(1, name): (1, ()) for name in names},
        counted={1: ("a",)},
        absent={"b": 1},
        flushing=Flushing(9, (), ("a", "b"), {}, {}),
    )
    holds = tuple((1, Compared(name)) for name in names)
    reports = {"a": LogReport(9, (), (), holds), "b": LogReport(9, (), (), ())}
    Compared.times = 0
    choose(layout, reports)
    return Compared.times


def test_the_manager_does_not_compare_every_group_with_every_other() -> None:
    assert comparisons(400) < 6 * comparisons(100)
