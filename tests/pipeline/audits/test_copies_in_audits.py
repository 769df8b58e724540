"""Copies of producers' messages in histories: both engines take them for what they are."""

import random

import pytest

from ordercast.history.rows import (
    DROPPED,
    END,
    Delivered,
    Event,
    GroupRow,
    History,
    Sent,
    dropped_detail,
)
from ordercast.model.messages import MessageId
from support.judges.both_engines import agree, in_memory

SITES = ("a", "b")


def sent(origin: str, seq: int, request: int) -> Sent:
    return Sent(origin, 1, "g", seq, 0, 0, seq, 1, client="producer/1", request=request, part=0)


def delivered(site: str, position: int, origin: str, seq: int, request: int) -> Delivered:
    return Delivered(
        site, position, 1, 1, "g", origin, 1, seq, position,
        client="producer/1", request=request, part=0,
    )  # fmt: skip


def history(*, told: bool, twice: bool = False, outcome: str = "", again: int = 1) -> History:
    """Message 1 goes through a, and again through b as `again`; message 2 through b."""
    found = History()
    found.groups.extend(GroupRow(1, "g", site) for site in SITES)
    found.sent.extend([sent("a", 1, 1), sent("b", 1, again), sent("b", 2, 7)])
    for site in SITES:
        rows = [("a", 1, 1), *([("b", 1, 1)] if twice else []), ("b", 2, 7)]
        found.deliveries.extend(delivered(site, n, *row) for n, row in enumerate(rows, 1))
        if told:
            detail = dropped_detail(MessageId("b", 1, "g", 1), outcome)
            found.events.append(Event(site, 1, DROPPED, 1, 1, 1, 0, detail))
        found.events.append(Event(site, 2, END, len(rows), 1, 1, 0))
    return found


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (history(told=True), {}),
        (history(told=True, outcome="duplicate"), {}),
        (history(told=True, outcome="duplicate", again=3), {"lost": 1}),
        (history(told=True, outcome="fenced", again=3), {}),
        (history(told=True, again=3), {}),
        (history(told=False), {"lost": 1}),
        (history(told=False, twice=True), {"resent": 1}),
    ],
    ids=[
        "dropped",
        "a copy",
        "a copy of nothing",
        "fenced",
        "dropped by an earlier release",
        "not told",
        "delivered twice",
    ],
)
def test_a_copy_is_not_lost_and_two_deliveries_are_told(
    given: History, wrong: dict[str, int]
) -> None:
    checks = in_memory(given)["checks"]
    assert {name: count for name, count in checks.items() if count} == wrong
    for seed in range(4):
        assert agree(given, random.Random(seed))
