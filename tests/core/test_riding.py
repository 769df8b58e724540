"""What is small on CONTROL rides in frames of data, where it may; what nobody waits for lingers."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.test_link import Pair, item
from ordercast.core.link import Link, LinkAlarms, Sends
from ordercast.model.limits import RIDERS
from ordercast.model.messages import Batch, Key, Placed
from ordercast.model.options import MILLISECOND, NEVER, Limits, Timing
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Ack,
    Data,
    DurableCounts,
    Frame,
    Item,
    Relay,
    Rider,
)
from ordercast.wire.stability import RoundAck, RoundStart
from ordercast.wire.tom import Body

START = RoundStart(1)
COUNTS = RoundAck(1, 0, False, (("g", 1, 0, 1, "a"),))
LATER = 5 * MILLISECOND


def new_link(limits: Limits | None = None) -> Link:
    return Link("b", 1, limits or Limits(), Timing())


def busy_link(now: int = 0) -> Link:
    """Data has just gone over it."""
    link = new_link()
    link.push(DOWN, relay(1))
    flushed(link, now)
    return link


def relay(number: int, size: int = 1) -> Relay:
    return Relay(Placed(Key((number,), "a"), number, Batch("a", 1, "g", number, 1, b"x" * size)))


def flushed(link: Link, now: int = 0) -> tuple[list[Frame], list[Frame], bool]:
    """What leaves at once, what leaves when the burst is durable, and whether to tell that."""
    down: Sends = []
    late: Sends = []
    waits = link.flush(now, down, late)
    return [frame for _, frame in down], [frame for _, frame in late], waits


def riders(frames: list[Frame]) -> list[Rider | None]:
    return [frame.rider for frame in frames if isinstance(frame, Data)]


def test_an_early_submission_carries_no_acknowledgement() -> None:
    link = Link("b", 1, Limits(), Timing(), up_early=True)
    link.receive(0, Data(1, 1, DOWN, 1, (relay(1),)), lambda *_: True)
    link.push(UP, item(1))
    down, late, _ = flushed(link, LATER)
    assert [(frame.lane, frame.acks) for frame in down if isinstance(frame, Data)] == [(UP, ())]
    assert late == [Ack(1, 1, ((DOWN, 1, 1),))]


def test_a_start_leaves_with_data_that_does_not_wait_for_the_disk() -> None:
    link = new_link()
    link.push(DOWN, relay(1))
    link.report(START, 0, 0, counts=False)
    down, late, waits = flushed(link)
    assert riders(down) == [Rider(1, (START,))]
    assert late == []
    assert not waits


def test_counts_never_leave_before_the_burst_that_they_count_is_durable() -> None:
    link = new_link()
    link.push(DOWN, relay(1))
    link.report(COUNTS, 0, 0, counts=True)
    down, late, waits = flushed(link)
    assert riders(down) == [None]
    assert [(frame.lane, frame.items) for frame in late if isinstance(frame, Data)] == [
        (CONTROL, (COUNTS,))
    ]
    assert waits


def test_a_start_overtakes_nothing_that_waits_for_the_disk() -> None:
    link = new_link()
    link.report(COUNTS, 0, 0, counts=True)
    assert flushed(link)[2]
    link.push(DOWN, relay(1))
    link.report(START, 0, 0, counts=False)
    down, late, waits = flushed(link)
    assert riders(down) == [None]
    assert [frame.number for frame in late if isinstance(frame, Data)] == [2]
    assert waits
    link.unstored -= 2
    link.push(DOWN, relay(2))
    link.report(START, 0, 0, counts=False)
    assert riders(flushed(link)[0]) == [Rider(3, (START,))]


def test_counts_that_linger_leave_with_the_data_after_their_burst_is_durable() -> None:
    link = busy_link()
    link.report(COUNTS, 0, LATER, counts=True)
    assert flushed(link) == ([], [], True)
    link.push(DOWN, relay(2))
    assert riders(flushed(link, 1)[0]) == [None]  # not durable yet
    link.unstored -= 1
    link.push(DOWN, relay(3))
    assert riders(flushed(link, 2)[0]) == [Rider(1, (COUNTS,))]
    assert link.linger_at == NEVER


def test_what_lingers_rides_with_what_waits_for_the_disk_too() -> None:
    link = busy_link()
    link.report(COUNTS, 0, LATER, counts=True)
    link.push(UP, item(1))
    _, late, _ = flushed(link)
    assert riders(late) == [Rider(1, (COUNTS,))]


def test_what_lingers_leaves_by_itself_when_no_data_comes() -> None:
    link = busy_link()
    link.report(START, 0, LATER, counts=False)
    assert flushed(link) == ([], [], False)
    assert link.linger_at == LATER
    _, late, _ = flushed(link, LATER)
    assert [frame.items for frame in late if isinstance(frame, Data)] == [(START,)]
    assert link.linger_at == NEVER


def test_the_site_is_called_when_it_has_lingered_long_enough() -> None:
    link = busy_link()
    link.resend_at = NEVER
    link.report(START, 0, LATER, counts=False)
    flushed(link)
    alarms = LinkAlarms({"b": link})
    alarms.arm(link)
    assert alarms.heap[0][0] == LATER
    assert list(alarms.due(LATER)) == [link]


def test_nothing_lingers_where_data_is_rare() -> None:
    link = busy_link()
    link.report(START, LATER, 2 * LATER, counts=False)
    assert len(flushed(link, LATER)[1]) == 1


def test_what_must_leave_takes_along_what_lingers() -> None:
    link = busy_link()
    link.report(START, 0, LATER, counts=False)
    flushed(link)
    link.control(DurableCounts(()))
    _, late, _ = flushed(link, 1)
    items = [frame.items for frame in late if isinstance(frame, Data)]
    assert items == [(START, DurableCounts(()))]


def test_nothing_lingers_behind_what_must_leave() -> None:
    link = busy_link()
    link.congested = True
    link.report(START, 0, 0, counts=False)
    flushed(link)
    link.report(START, 1, LATER, counts=False)
    link.congested = False
    _, late, _ = flushed(link, 1)
    assert [len(frame.items) for frame in late if isinstance(frame, Data)] == [2]


def test_a_congested_link_is_not_called_again_and_again_for_what_lingered() -> None:
    link = busy_link()
    link.congested = True
    link.report(START, 0, LATER, counts=False)
    flushed(link)
    flushed(link, LATER)
    assert link.linger_at == NEVER
    link.congested = False
    assert len(flushed(link, LATER)[1]) == 1


@pytest.mark.parametrize(
    "items",
    [
        [Body(Batch("a", 1, "g", 1, 1, b"x"))],
        [START] * (RIDERS + 1),
        [RoundAck(1, 0, False, (("g", 1, 0, 1, "a"),) * 100)],
    ],
    ids=["a body", "many", "heavy"],
)
def test_what_is_not_small_goes_by_itself(items: list[Item]) -> None:
    link = new_link()
    link.push(DOWN, relay(1))
    for control in items:
        link.report(control, 0, 0, counts=False)
    down, late, _ = flushed(link)
    assert riders(down) == [None]
    assert sum(len(frame.items) for frame in late if isinstance(frame, Data)) == len(items)


def test_nothing_rides_with_heavy_data() -> None:
    link = new_link()
    link.push(DOWN, relay(1, 20_000))
    link.report(START, 0, 0, counts=False)
    down, late, _ = flushed(link)
    assert riders(down) == [None]
    assert len(late) == 1


def test_what_rides_counts_against_the_window_of_its_lane() -> None:
    link = new_link(Limits(link_items=2))
    for number in (1, 2, 3):
        link.push(DOWN, relay(number))
        link.report(START, 0, 0, counts=False)
        flushed(link)
    assert link.outgoing[CONTROL].sent == 2


def test_acknowledgements_stand_in_the_same_frame() -> None:
    pair = Pair()
    pair.receive("a", Data(1, 1, DOWN, 1, (relay(1),)))
    link = pair.ends["a"]
    link.push(UP, item(1))
    link.report(COUNTS, 0, 0, counts=True)
    (frame,) = pair.flush("a")
    assert isinstance(frame, Data)
    assert (frame.rider, frame.acks) == (Rider(1, (COUNTS,)), ((DOWN, 1, 1),))


def test_what_rode_for_an_earlier_start_is_not_taken_but_its_data_is() -> None:
    pair = Pair()
    pair.ends["b"].boot = 2
    pair.receive("b", Data(1, 1, DOWN, 1, (relay(1),), (), Rider(1, (START,))))
    assert pair.taken["b"] == [(DOWN, relay(1))]
    assert [type(frame) for frame in pair.flush("b")] == [Ack]  # it hears that b has restarted


def mixed(seed: int, lane: int, count: int) -> int:
    """Data and what rides, in any mixture, over a bad network: each lane is whole and in order. How
    many frames had both."""
    rng = random.Random(seed)
    pair = Pair()
    sent: dict[int, list[Item]] = {lane: [], CONTROL: []}
    network: list[tuple[str, Frame]] = []
    rode = 0
    for _ in range(6_000):
        if len(sent[lane]) < count and rng.random() < 0.5:
            sent[lane].append(item(len(sent[lane]) + 1))
            pair.ends["a"].push(lane, sent[lane][-1])
        if len(sent[CONTROL]) < count and rng.random() < 0.5:
            sent[CONTROL].append(RoundStart(len(sent[CONTROL]) + 1))
            until = pair.now + rng.choice((0, LATER))
            pair.ends["a"].report(sent[CONTROL][-1], pair.now, until, counts=False)
        for name, other in ("ab", "ba"):
            for frame in pair.flush(name):
                rode += isinstance(frame, Data) and frame.rider is not None
                network.extend([(other, frame)] * rng.choice([0, 1, 1, 1, 2]))
        if network and rng.random() < 0.8:
            pair.receive(*network.pop(rng.randrange(len(network))))
        else:
            pair.wake()
        if len(sent[lane]) == len(sent[CONTROL]) == count and pair.ends["a"].idle():
            break
    for one, items in sent.items():
        assert [got for of, got in pair.taken["b"] if of == one] == items
    return rode


@given(st.integers(0, 2**32), st.sampled_from([UP, DOWN]), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_loss_doubling_and_reordering_of_two_lanes_in_one_frame(
    seed: int, lane: int, count: int
) -> None:
    mixed(seed, lane, count)


def test_these_mixtures_have_frames_of_both() -> None:
    assert sum(mixed(seed, DOWN, 20) for seed in range(10)) > 20
