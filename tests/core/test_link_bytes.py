"""What is under way on a lane is bounded in bytes too: else a site that returns after a while is
sent everything at once, more than a connection takes, and again when that has been dropped."""

import random

from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.link import Link, Sends
from ordercast.model.messages import Batch
from ordercast.model.options import Limits, Timing
from ordercast.wire.frames import UP, Ack, Data, Submit

LIMITS = Limits(link_bytes=10_000, frame_bytes=3_000)


def submission(number: int, size: int) -> Submit:
    return Submit(Batch("a", 1, "alpha", number, 1, bytes(size)))


def flushed(link: Link) -> list[Data]:
    down: Sends = []
    late: Sends = []
    link.flush(0, down, late)
    return [frame for _, frame in late if isinstance(frame, Data)]


def sizes(frames: list[Data]) -> list[int]:
    return [
        len(item.batch.body) for frame in frames for item in frame.items if type(item) is Submit
    ]


@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=30), st.integers(0, 2**32))
def test_no_more_bytes_are_under_way_than_allowed_and_all_arrive(
    bodies: list[int], seed: int
) -> None:
    rng = random.Random(seed)
    link = Link("b", 1, LIMITS, Timing())
    for number, size in enumerate(bodies, 1):
        link.push(UP, submission(number, size))
    arrived: list[int] = []
    got = done = 0
    while done < len(bodies):
        new = sizes(flushed(link))
        under_way = bodies[done : done + len(arrived) - done + len(new)]
        assert sum(under_way) <= LIMITS.link_bytes or len(under_way) == 1
        arrived += new
        assert arrived == bodies[: len(arrived)]
        if rng.random() < 0.1:  # the connection is lost, with what was under way
            got = rng.randint(got, len(arrived))
            link.connected(0)
            arrived = arrived[:got]
        got = rng.randint(got, len(arrived))
        done = rng.randint(done, got)
        link.acknowledged(0, Ack(1, 1, ((UP, got, done),)).acks)
    assert link.outgoing[UP].weight == 0


def test_what_waits_goes_on_when_there_is_room_again() -> None:
    link = Link("b", 1, LIMITS, Timing())
    for number in range(1, 6):
        link.push(UP, submission(number, 4_000))
    assert len(sizes(flushed(link))) == 2
    assert flushed(link) == []
    link.acknowledged(0, ((UP, 2, 1),))
    assert link.urgent
    assert len(sizes(flushed(link))) == 1


def received(link: Link, number: int, size: int, taken: list[int], *, room: bool = True) -> None:
    def take(_: str, __: int, item: object) -> bool:
        assert isinstance(item, Submit)
        if room:
            taken.append(item.batch.seq)
        return room

    link.receive(0, Data(1, 1, UP, number, (submission(number, size),)), take)


def test_items_out_of_order_are_kept_up_to_a_number_of_bytes() -> None:
    link, taken = Link("b", 1, LIMITS, Timing()), list[int]()
    for number in range(2, 100):  # no honest peer has so much under way
        received(link, number, 4_000, taken)
    incoming = link.incoming[UP]
    assert list(incoming.early) == [2, 3]
    assert incoming.early_bytes <= LIMITS.link_bytes
    received(link, 1, 9_000, taken)  # the next in order is always taken
    assert taken == [1, 2, 3]
    assert (incoming.early, incoming.early_bytes) == ({}, 0)
    received(link, 4, 4_000, taken)
    assert taken == [1, 2, 3, 4]


def test_items_without_room_are_kept_up_to_a_number_of_bytes() -> None:
    link, taken = Link("b", 1, LIMITS, Timing()), list[int]()
    for number in range(1, 100):
        received(link, number, 4_000, taken, room=False)
    incoming = link.incoming[UP]
    assert sorted(incoming.early) == [1, 2]
    received(link, 3, 4_000, taken)
    assert taken == [1, 2]
    assert incoming.early_bytes == 0
