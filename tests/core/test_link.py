"""A link is FIFO, whole and without repeats, whatever the network does to its frames."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.link import Link
from ordercast.model.messages import Batch
from ordercast.model.options import MILLISECOND, NEVER, SECOND, Limits, Timing
from ordercast.wire.frames import CONTROL, DOWN, UP, Ack, Data, Frame, Item, Repair, Rider, Submit
from ordercast.wire.stability import RoundStart

LIMITS = Limits(link_items=8, frame_items=3, frame_bytes=600)


def item(number: int) -> Submit:
    return Submit(Batch("a", 1, "g", number, 1, b"x" * (number % 40)))


class Pair:
    """Two ends and a network that a test decides about."""

    def __init__(self) -> None:
        self.ends = {name: Link(peer, 1, LIMITS, Timing()) for name, peer in ("ab", "ba")}
        self.taken: dict[str, list[tuple[int, Item]]] = {"a": [], "b": []}
        self.now = 0
        self.room = True

    def take(self, name: str, lane: int, taken: Item) -> bool:
        if self.room:
            self.taken[name].append((lane, taken))
            self.ends[name].incoming[UP].done += lane == UP
        return self.room

    def receive(self, name: str, frame: Frame) -> None:
        link = self.ends[name]
        if isinstance(frame, Repair):
            link.repair(self.now, frame)
            return
        link.acknowledged(self.now, frame.acks)
        if isinstance(frame, Data):
            link.receive(self.now, frame, lambda _, lane, got: self.take(name, lane, got))

    def flush(self, name: str) -> list[Frame]:
        sends: list[tuple[str, Frame]] = []
        self.ends[name].flush(self.now, sends, sends)
        return [frame for _, frame in sends]

    def wake(self) -> None:
        wakes = [
            min(link.ack_at, link.resend_at, link.repair_at, link.linger_at)
            for link in self.ends.values()
        ]
        if min(wakes) < NEVER:
            self.now = max(self.now, min(wakes))
            for link in self.ends.values():
                link.alarm(self.now)


@given(st.integers(0, 2**32), st.sampled_from([UP, DOWN, CONTROL]), st.integers(1, 60))
@settings(max_examples=200, deadline=None)
def test_fifo_exactly_once_over_loss_doubling_and_reordering(
    seed: int, lane: int, count: int
) -> None:
    rng = random.Random(seed)
    pair = Pair()
    items = [item(number) for number in range(1, count + 1)]
    waiting = list(items)
    network: list[tuple[str, Frame]] = []
    for _ in range(4000):
        if waiting and rng.random() < 0.5:
            pair.ends["a"].push(lane, waiting.pop(0))
        for name, other in ("ab", "ba"):
            for frame in pair.flush(name):
                network.extend([(other, frame)] * rng.choice([0, 1, 1, 1, 2]))
        if network and rng.random() < 0.8:
            pair.receive(*network.pop(rng.randrange(len(network))))
        else:
            pair.wake()
        for link in pair.ends.values():
            assert len(link.incoming[lane].early) <= LIMITS.link_items
            assert link.outgoing[lane].sent - link.outgoing[lane].done <= LIMITS.link_items
        if not waiting and not network and pair.ends["a"].idle():
            break
    assert [got for _, got in pair.taken["b"]] == items
    assert pair.ends["a"].idle()


def test_an_item_below_the_expected_number_is_dropped_and_acknowledged_again() -> None:
    pair = Pair()
    frame = Data(1, 1, DOWN, 1, (item(1),))
    pair.receive("b", frame)
    pair.receive("b", frame)
    assert len(pair.taken["b"]) == 1
    assert [type(sent) for sent in pair.flush("b")] == [Ack]


def test_a_hole_is_asked_for_once_and_filled_from_the_sender() -> None:
    pair = Pair()
    for number in (1, 2, 3):
        pair.ends["a"].push(DOWN, item(number))
    pair.flush("a")
    pair.receive("b", Data(1, 1, DOWN, 3, (item(3),)))
    pair.receive("b", Data(1, 1, DOWN, 3, (item(3),)))
    requests = [frame for frame in pair.flush("b") if isinstance(frame, Repair)]
    assert requests == [Repair(1, 1, DOWN, 1, 2)]
    pair.receive("a", requests[0])
    for frame in pair.flush("a"):
        pair.receive("b", frame)
    assert [got for _, got in pair.taken["b"]] == [item(1), item(2), item(3)]


def test_without_room_items_wait_unacknowledged_and_hold_the_sender_back() -> None:
    pair = Pair()
    pair.room = False
    for number in range(1, 31):
        pair.ends["a"].push(DOWN, item(number))
    for _ in range(20):
        for name, other in ("ab", "ba"):
            for frame in pair.flush(name):
                pair.receive(other, frame)
        pair.wake()
    assert pair.taken["b"] == []
    assert pair.ends["a"].outgoing[DOWN].sent == LIMITS.link_items
    assert len(pair.ends["b"].incoming[DOWN].early) <= LIMITS.link_items
    pair.room = True
    pair.ends["b"].resume(pair.now, lambda _, lane, got: pair.take("b", lane, got))
    for _ in range(60):
        for name, other in ("ab", "ba"):
            for frame in pair.flush(name):
                pair.receive(other, frame)
        pair.wake()
    assert [got for _, got in pair.taken["b"]] == [item(number) for number in range(1, 31)]


def test_a_peer_that_restarts_gets_again_what_was_not_done() -> None:
    pair = Pair()
    for number in (1, 2, 3):
        pair.ends["a"].push(UP, item(number))
    pair.flush("a")
    link = pair.ends["a"]
    assert link.acknowledged(0, ((UP, 3, 1),)) == [(UP, [item(1)])]
    assert pair.flush("a") == []
    assert link.heard(2)
    again = [frame for frame in pair.flush("a") if isinstance(frame, Data)]
    assert [(frame.number, frame.items) for frame in again] == [(2, (item(2), item(3)))]
    assert link.heard(1) is None


def answered(pair: Pair, lane: int, sent_at: int, got_at: int) -> int:
    """One item there and its acknowledgement back; after how long the next is sent again."""
    link = pair.ends["a"]
    pair.now = sent_at
    link.push(lane, item(1))
    (frame,) = pair.flush("a")
    pair.now = got_at
    pair.receive("b", frame)
    pair.ends["b"].ack_at = got_at
    for answer in pair.flush("b"):
        pair.receive("a", answer)
    link.push(lane, item(2))
    pair.flush("a")
    return link.outgoing[lane].resend_at - pair.now


def test_what_is_not_answered_on_control_is_sent_again_after_twice_what_an_answer_takes() -> None:
    timing = Timing()
    assert answered(Pair(), CONTROL, 0, 40 * MILLISECOND) == 80 * MILLISECOND
    assert answered(Pair(), CONTROL, 0, MILLISECOND) == timing.repair_again
    assert answered(Pair(), CONTROL, 0, SECOND) == timing.resend_after
    assert answered(Pair(), DOWN, 0, 40 * MILLISECOND) == timing.resend_after


def test_an_answer_that_takes_longer_than_it_did_is_timed_again() -> None:
    """Once it came after the resend, and no longer after those that followed."""
    pair = Pair()
    link = pair.ends["a"]
    for number in range(1, 40):
        slow = 120 * MILLISECOND if number > 3 else MILLISECOND
        link.push(CONTROL, item(number))
        (frame,) = pair.flush("a")
        sent_at, resent = pair.now, 0
        while link.resend_at < sent_at + slow:
            pair.now = link.resend_at
            link.alarm(pair.now)
            resent += len(pair.flush("a"))
        assert resent <= (number == 4) * 2, number
        pair.now = sent_at + slow
        pair.receive("b", frame)
        pair.ends["b"].ack_at = pair.now
        for answer in pair.flush("b"):
            pair.receive("a", answer)
    assert link.outgoing[CONTROL].took <= Timing().resend_after


def test_a_peer_that_answers_the_first_item_only_owes_an_answer() -> None:
    """The second item left while the first was timed, and stays unanswered however often it is sent
    again. A peer that owes nothing is asked for nothing, however long nobody speaks."""
    pair = Pair()
    link, out = pair.ends["a"], pair.ends["a"].outgoing[DOWN]
    link.push(DOWN, item(1))
    (first,) = pair.flush("a")
    assert not out.owed_since(0)
    pair.now = MILLISECOND
    link.push(DOWN, item(2))
    pair.flush("a")
    assert out.owed_since(MILLISECOND)
    pair.receive("b", first)
    pair.ends["b"].ack_at = pair.now = 2 * MILLISECOND
    for answer in pair.flush("b"):
        pair.receive("a", answer)
    assert not out.owed_since(2 * MILLISECOND)  # the answer was progress
    while pair.now < SECOND:
        pair.now = link.resend_at
        link.alarm(pair.now)
        (second,) = pair.flush("a")
    assert out.owed_since(SECOND // 2)
    pair.receive("b", second)
    pair.ends["b"].ack_at = pair.now
    for answer in pair.flush("b"):
        pair.receive("a", answer)
    assert not out.owed_since(NEVER)
    pair.now += 60 * SECOND
    link.push(DOWN, item(3))
    pair.flush("a")
    assert not out.owed_since(pair.now)


def test_holes_of_two_lanes_are_asked_for_at_once() -> None:
    """One frame was lost with what rode in it."""
    pair = Pair()
    pair.receive("b", Data(1, 1, DOWN, 2, (item(2),), (), Rider(2, (RoundStart(2),))))
    asked = [frame for frame in pair.flush("b") if isinstance(frame, Repair)]
    assert asked == [Repair(1, 1, DOWN, 1, 1), Repair(1, 1, CONTROL, 1, 1)]
    pair.now = pair.ends["b"].repair_at
    pair.ends["b"].alarm(pair.now)
    again = [frame for frame in pair.flush("b") if isinstance(frame, Repair)]
    assert again == asked
