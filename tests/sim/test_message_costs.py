"""Listening to a few messages: what is counted, what is not, and when it ends."""

from collections import Counter

import pytest

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.messages import MessageId
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.plan.advice import advise
from ordercast.sim.message_costs import Overheard, PlannedSend, overhear
from ordercast.sim.networks import Sends

P, L = MILLISECOND, 5 * MILLISECOND
# c is in both groups: greedy makes a star at c.
TABLE = GroupTable.of({"x": ["a", "b", "c"], "y": ["c", "d"]}, sites=["a", "b", "c", "d", "o"])
STAR = Structure(1, TABLE, advise(TABLE, "greedy").forest)


def kinds(found: Overheard) -> Counter[str]:
    """How many items there were of each kind."""
    return Counter(type(item).__name__ for frame in found.heard for item in frame.items)


def test_a_message_down_a_star_by_hand() -> None:
    """o to c; c delivers and sends to a, then to b."""
    found = overhear(STAR, "propagation", [PlannedSend(0, "o", "x")])
    message = MessageId("o", 1, "x", 1)
    assert found.had == {message: {"c": P + L, "a": 2 * (P + L), "b": 2 * (P + L) + P}}
    assert sorted(found.delays(message)) == sorted(found.had[message].values())
    assert found.messages == 3
    assert found.transmissions() == 2  # c's two are one where a multicast is one
    assert found.loads() == {"o": 1, "c": 3, "a": 1, "b": 1}
    assert kinds(found) == {"Submit": 1, "Relay": 2}


def test_what_is_sent_late_has_as_much_time() -> None:
    """A ring of many sites takes seconds; it once had only what was left of twenty."""
    found = overhear(STAR, "propagation", [PlannedSend(25 * SECOND, "o", "x")])
    assert found.messages == 3


def test_messages_at_once_are_told_apart_and_counted_together() -> None:
    sent = [PlannedSend(0, "o", "x"), PlannedSend(0, "d", "y"), PlannedSend(7 * L, "o", "x")]
    found = overhear(STAR, "propagation", sent)
    assert list(found.sent.values()) == [0, 0, 7 * L]
    assert {m.seq for m in found.sent if m.origin == "o"} == {1, 2}
    assert found.messages == 3 + 2 + 3


def test_an_origin_that_is_its_own_last_member_sends_nothing() -> None:
    alone = GroupTable.of({"x": ["a"]})
    structure = Structure(1, alone, advise(alone, "greedy").forest)
    found = overhear(structure, "propagation", [PlannedSend(3, "a", "x")])
    assert (found.messages, found.delays(MessageId("a", 1, "x", 1))) == (0, [0])


def test_neither_acknowledgements_nor_reports_are_heard() -> None:
    """Many messages over long enough a time: links would acknowledge, members report."""
    sent = [PlannedSend(n * 10 * L, "o", "x") for n in range(80)]
    found = overhear(STAR, "propagation", sent)
    assert kinds(found) == {"Submit": 80, "Relay": 160}


class Never:
    """A network on which nothing arrives in time."""

    def arrivals(self, now: int, _source: str, sends: Sends, /) -> list[int]:
        return [now + 10**15 for _ in sends]


def test_a_message_that_does_not_arrive_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="propagation: 3 deliveries were missing after 20 s"):
        overhear(STAR, "propagation", [PlannedSend(0, "o", "x")], by=Never())
