"""Frames are found in a byte stream however it is cut; wrong bytes end it before they pile up."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import FrameError
from ordercast.model.limits import FRAME_BYTES
from ordercast.wire.codec import HEADER_BYTES, FrameSplitter, WireFrame, encode_frame
from ordercast.wire.frames import Ack, Frame
from wire import samples
from wire.samples import batch, relay_frame

SMALL = Ack(1, 1, ((0, 3, 3),))
LARGE = relay_frame(batch(body=bytes(100_000)))


def chunks(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def feed_in_steps(splitter: FrameSplitter, data: bytes, step: int) -> list[WireFrame]:
    steps = range(0, len(data), step)
    return [frame for at in steps for frame in splitter.feed(data[at : at + step])]


@given(
    st.lists(samples.frames, max_size=6),
    st.lists(st.integers(0, 10_000), max_size=12),
    st.sampled_from([bytes, bytearray, memoryview]),
)
def test_any_cutting_gives_the_same_frames(
    frames: list[Frame], cuts: list[int], kind: type[bytes] | type[bytearray] | type[memoryview]
) -> None:
    splitter = FrameSplitter()
    stream = b"".join(encode_frame(frame) for frame in frames)
    found = [frame for part in chunks(stream, cuts) for frame in splitter.feed(kind(part))]
    assert found == frames
    assert splitter.held == 0


def test_a_slow_drip_gives_each_frame_with_its_last_byte() -> None:
    frames: list[Frame] = [SMALL, relay_frame(batch()), SMALL]
    splitter = FrameSplitter()
    for frame in frames:
        data = encode_frame(frame)
        for place in range(len(data) - 1):
            assert splitter.feed(data[place : place + 1]) == []
            assert splitter.held == place + 1
        assert splitter.feed(data[-1:]) == [frame]
        assert splitter.held == 0


def test_only_the_frame_under_way_is_held() -> None:
    small, large = encode_frame(SMALL), encode_frame(LARGE)
    splitter = FrameSplitter()
    assert splitter.feed(small * 50 + large[:70_000]) == [SMALL] * 50
    assert splitter.held == 70_000
    assert splitter.feed(large[70_000:] + small * 50 + small[:5]) == [LARGE, *[SMALL] * 50]
    assert splitter.held == 5


def test_the_callers_buffer_is_free_again_after_a_feed() -> None:
    data = bytearray(encode_frame(SMALL) * 2 + encode_frame(LARGE)[:500])
    splitter = FrameSplitter()
    splitter.feed(data)
    data.clear()  # would raise while a view of it lives
    assert splitter.held == 500


def test_an_empty_feed_changes_nothing() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"") == []
    assert splitter.feed(encode_frame(SMALL)[:20]) == []
    assert splitter.feed(b"") == []
    assert splitter.feed(encode_frame(SMALL)[20:]) == [SMALL]


@pytest.mark.parametrize("step", [1, 7, HEADER_BYTES, 1_000])
def test_an_oversize_frame_is_refused_at_its_header(step: int) -> None:
    data = encode_frame(LARGE)
    splitter = FrameSplitter(limit=len(data) - 1)
    assert feed_in_steps(splitter, data[: HEADER_BYTES - 1], step) == []
    with pytest.raises(
        FrameError, match=f"frame of {len(data):,} bytes, at most {len(data) - 1:,}"
    ):
        splitter.feed(data[HEADER_BYTES - 1 :][:step])
    assert splitter.held == 0
    assert feed_in_steps(FrameSplitter(limit=len(data)), data, 1_000) == [LARGE]


def test_no_limit_exceeds_that_of_the_format() -> None:
    splitter = FrameSplitter(limit=10 * FRAME_BYTES)
    header = encode_frame(SMALL)[:4] + FRAME_BYTES.to_bytes(4) + bytes(4)
    with pytest.raises(FrameError, match=f"at most {FRAME_BYTES:,}"):
        splitter.feed(header)


@pytest.mark.parametrize("garbage", [b"\0" * 12, b"GET / HTTP/1.1\r\n\r\n", b"ocf\x01" + bytes(8)])
@pytest.mark.parametrize("step", [1, 5, 1_000])
def test_garbage_between_frames_ends_the_stream(garbage: bytes, step: int) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(encode_frame(SMALL)) == [SMALL]
    with pytest.raises(FrameError, match=r"begins with|version 1, this is") as caught:
        feed_in_steps(splitter, garbage + encode_frame(SMALL), step)
    with pytest.raises(FrameError) as again:
        splitter.feed(encode_frame(SMALL))
    assert str(again.value) == str(caught.value)
    assert splitter.held == 0


@pytest.mark.parametrize("step", [3, 1_000])
def test_a_damaged_frame_ends_the_stream_as_well(step: int) -> None:
    damaged = bytearray(encode_frame(SMALL))
    damaged[-1] ^= 1
    splitter = FrameSplitter()
    with pytest.raises(FrameError, match="checksum"):
        feed_in_steps(splitter, bytes(damaged), step)
    with pytest.raises(FrameError, match="checksum"):
        splitter.feed(encode_frame(SMALL))


@given(st.binary(min_size=HEADER_BYTES, max_size=300), st.integers(1, 300))
def test_random_bytes_never_pass(stream: bytes, step: int) -> None:
    with pytest.raises(FrameError):
        feed_in_steps(FrameSplitter(), stream, step)
