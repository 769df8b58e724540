"""Arrays on links go as differences, and whole again when either side has started anew."""

import random
from typing import Any

from ordercast.core.stability.arrays import LogArray, LogCounts, Traced, changes_between
from ordercast.core.stability.rounds import AckMessage, InfoMessage, RoundMessage, StartMessage
from ordercast.core.stability.seat import Differences, difference
from ordercast.model.limits import VECTOR_ENTRIES


def carried(
    sender: Differences, receiver: Differences, message: RoundMessage[LogArray]
) -> list[Any]:
    return [receiver.taken("a", item) for item in sender.told("b", message)]


def test_only_what_has_changed_is_sent_and_the_whole_array_arrives() -> None:
    a, b = Differences(), Differences()
    first: LogArray = {"x": (3, 1, 2, "a"), "y": (5, 5, 1, "b")}
    second: LogArray = {**first, "x": (4, 1, 2, "a"), "z": (1, 0, 1, "c")}
    assert carried(a, b, AckMessage(1, first)) == [AckMessage(1, first)]
    (item,) = a.told("b", AckMessage(2, second))
    assert [entry[0] for entry in item.counts] == ["x", "z"]  # type: ignore[union-attr]
    assert b.taken("a", item) == AckMessage(2, second)


def test_each_kind_has_differences_of_its_own() -> None:
    a, b = Differences(), Differences()
    array: LogArray = {"x": (3, 1, 2, "a")}
    assert carried(a, b, StartMessage(1)) == [StartMessage(1)]
    assert carried(a, b, AckMessage(1, array)) == [AckMessage(1, array)]
    assert carried(a, b, InfoMessage(1, array)) == [InfoMessage(1, array)]


def test_another_name_alone_is_not_told() -> None:
    new: LogArray = {"x": (3, 1, 2, "a")}
    assert difference(new, {"x": (3, 1, 2, "b")}) == {}
    assert LogCounts().least([new, {"x": (3, 0, 1, "c")}]) == {"x": (3, 0, 3, "c")}


def test_a_difference_made_for_somebody_else_is_dropped() -> None:
    a, b, restarted = Differences(), Differences(), Differences()
    carried(a, b, AckMessage(1, {"x": (3, 1, 2, "a")}))
    assert carried(a, restarted, AckMessage(2, {"x": (4, 1, 2, "a")})) == [None]


def test_after_a_start_the_last_of_each_kind_is_said_again_whole() -> None:
    a, b = Differences(), Differences()
    array: LogArray = {"x": (3, 1, 2, "a"), "y": (1, 1, 1, "b")}
    for message in (
        StartMessage(1),
        AckMessage(1, {"x": (2, 1, 2, "a")}),
        StartMessage(2),
        AckMessage(2, array),
    ):
        carried(a, b, message)
    again = a.again("b")
    assert again == [StartMessage(2), AckMessage(2, array)]
    assert a.again("b") == []
    assert [carried(a, Differences(), message) for message in again] == [[m] for m in again]


def test_an_entry_that_is_gone_makes_the_array_whole() -> None:
    a, b = Differences(), Differences()
    carried(a, b, AckMessage(1, {"x": (3, 1, 2, "a"), "y": (1, 1, 1, "b")}))
    assert carried(a, b, AckMessage(2, {"y": (1, 1, 1, "b")})) == [
        AckMessage(2, {"y": (1, 1, 1, "b")})
    ]


def test_an_array_too_long_for_one_message_goes_in_several() -> None:
    a, b = Differences(), Differences()
    for step in (1, 2):
        array: LogArray = {f"g{n}": (n, step, 1, "a") for n in range(2 * VECTOR_ENTRIES + 5)}
        assert carried(a, b, InfoMessage(step, array)) == [None, None, InfoMessage(step, array)]


def test_the_least_of_arrays_that_change_a_little_is_worked_out_for_the_changes_alone() -> None:
    draw, counts = random.Random(3), LogCounts()
    logs: list[LogArray] = [{f"g{n}": (0, 0, 1, s) for n in range(40)} for s in "abc"]
    arrays: list[LogArray] = [Traced(log) for log in logs]
    counts.least(arrays)
    for _ in range(60):
        changed = 0
        for place, log in enumerate(logs):
            touched = draw.sample(sorted(log), draw.randint(0, 3))
            for group in touched:
                log[group] = (log[group][0] + 1, log[group][0], 1, log[group][3])
            arrays[place] = Traced(log, arrays[place], touched)
            changed += len(touched)
        before, given = counts._least, draw.sample(arrays, 3)
        found = counts.least(given)
        whole = LogCounts().least(given)
        assert {g: e[:3] for g, e in found.items()} == {g: e[:3] for g, e in whole.items()}
        changes = changes_between(before, found)
        assert changes is not None
        assert len(list(changes)) <= changed
        assert difference(found, before) == difference(dict(found), dict(before))
