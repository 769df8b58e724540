"""Payloads come back as they were packed; any other body gives FrameError."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import FrameError
from ordercast.model.messages import Batch, pack_payloads, payloads_of, unpack_payloads


def batch(count: int, body: bytes) -> Batch:
    return Batch("a", 1, "alpha", 17, count, body)


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_payloads_come_back_as_they_were_packed(payloads: list[bytes]) -> None:
    body = pack_payloads(payloads)
    assert unpack_payloads(body) == payloads
    assert payloads_of(batch(len(payloads), body)) == payloads


@given(st.binary(max_size=60))
def test_any_bytes_are_payloads_or_frame_error(body: bytes) -> None:
    try:
        payloads = unpack_payloads(body)
    except FrameError:
        return
    assert unpack_payloads(pack_payloads(payloads)) == payloads


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91\xa1x", b"\x91" * 5_000, b"\x90\x90"],
    ids=lambda body: f"{body[:5].hex()}-{len(body)}",
)
def test_a_body_that_is_no_list_of_payloads_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="not a list of payloads"):
        unpack_payloads(body)


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_payloads_than_the_batch_says_is_refused(count: int) -> None:
    with pytest.raises(FrameError, match=f"17 to alpha holds 2 payloads, the batch says {count}"):
        payloads_of(batch(count, pack_payloads([b"x", b"y"])))
