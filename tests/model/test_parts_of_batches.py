"""A part of a batch is what the whole batch says of those messages, however often it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.batches import extras_of, packed_body
from ordercast.model.errors import FrameError
from ordercast.model.messages import Batch, DeliveredBatch, Delivery, Key, Placed, Requests

CLIENT = bytes(range(16))
counts = st.lists(st.integers(1, 4), min_size=1, max_size=5)


def whole(of: list[int]) -> DeliveredBatch:
    """Requests of so many messages, with headers that some share."""
    count = sum(of)
    headers = extras_of([{"h": b"%d" % (n // 2)} if n % 3 else {} for n in range(count)], count)
    body = packed_body([b"%d" % n for n in range(count)], 7, headers.headers, ())
    numbers = tuple((3 * n + 1, each) for n, each in enumerate(of))
    batch = Batch("a", 1, "alpha", 5, count, body, requests=Requests(CLIENT, numbers))
    return DeliveredBatch(11, 2, Placed(Key((0, 1), "a"), 40, batch), 3)


def told(batch: DeliveredBatch) -> list[tuple[int, tuple[int, int], Delivery]]:
    requests = batch.placed.batch.requests
    assert requests is not None
    numbers = range(batch.placed.number, batch.placed.number + batch.count)
    return list(zip(numbers, requests.parts(batch.count), batch.deliveries(), strict=True))


@given(counts, st.data())
def test_a_part_of_a_part_says_of_its_messages_what_the_whole_batch_says(
    of: list[int], data: st.DataObject
) -> None:
    batch = whole(of)
    everything = told(batch)
    for _ in range(3):
        first = data.draw(st.integers(batch.position, batch.last))
        last = data.draw(st.integers(first, batch.last))
        batch = batch.between(first, last)
        assert (batch.position, batch.last) == (first, last)
        assert told(batch) == everything[first - 11 : last - 10]


@given(counts)
def test_borders_beyond_a_batch_leave_it_as_it_is(of: list[int]) -> None:
    batch = whole(of)
    assert batch.between(1, 10_000) is batch


def test_requests_of_fewer_messages_than_the_batch_are_an_error() -> None:
    with pytest.raises(FrameError, match="its requests have 3 messages, the batch 4"):
        Requests(CLIENT, ((1, 1), (2, 2))).parts(4)
