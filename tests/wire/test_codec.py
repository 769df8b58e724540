"""Frames survive the way through bytes; every header field is checked; errors are one line."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import FrameError
from ordercast.model.limits import BODY_BYTES
from ordercast.model.messages import Key, Placed
from ordercast.wire.codec import (
    HEADER_BYTES,
    VERSION,
    FrameEncoder,
    FrameSplitter,
    decode_frame,
    encode_frame,
)
from ordercast.wire.frames import DOWN, Ack, Data, Frame, Relay
from wire import samples
from wire.mutations import sealed


def shape(value: object) -> object:
    """The types of a value and of all its parts."""
    if isinstance(value, msgspec.Struct):
        return type(value), [shape(part) for part in msgspec.structs.astuple(value)]
    if isinstance(value, tuple):
        return type(value), [shape(part) for part in value]
    return type(value)


@given(samples.frames)
def test_a_frame_comes_back_equal_and_of_the_same_types(frame: Frame) -> None:
    back = decode_frame(encode_frame(frame))
    assert back == frame
    assert shape(back) == shape(frame)


def test_a_key_comes_back_as_a_key() -> None:
    back = decode_frame(encode_frame(samples.relay_frame(samples.batch(), path=(0, 5), site="d")))
    assert isinstance(back, Data)
    assert isinstance(back.items[0], Relay)
    key = back.items[0].placed.key
    assert (type(key), key.path, key.site) == (Key, (0, 5), "d")


@given(samples.frames)
def test_a_view_is_decoded_like_bytes_and_not_kept(frame: Frame) -> None:
    data = bytearray(b"before" + encode_frame(frame) + b"after")
    assert decode_frame(memoryview(data)[6:-5]) == frame
    data.clear()  # would raise while a view of it lives


@given(st.binary(max_size=400))
def test_a_body_is_opaque(body: bytes) -> None:
    frame = samples.relay_frame(samples.batch(body=body, count=7))
    assert decode_frame(encode_frame(frame)) == frame


def test_the_header_is_magic_version_length_and_crc32_of_the_rest() -> None:
    frame = Ack(1, 2, ((0, 3, 3),))
    data = encode_frame(frame)
    assert HEADER_BYTES == 12
    assert data == sealed(msgspec.msgpack.encode(frame))


def test_another_version_is_refused_and_both_are_named() -> None:
    body = msgspec.msgpack.encode(Ack(1, 1, ()))
    with pytest.raises(FrameError, match=f"version 7, this is version {VERSION}"):
        decode_frame(sealed(body, version=7))


def test_other_magic_is_refused() -> None:
    with pytest.raises(FrameError, match=r"begins with b'GET', not b'ocf'"):
        decode_frame(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize("length", range(12))
def test_less_than_a_header_is_refused(length: int) -> None:
    with pytest.raises(FrameError, match=f"frame of {length} bytes"):
        decode_frame(encode_frame(Ack(1, 1, ()))[:length])


def test_a_wrong_length_is_refused() -> None:
    data = encode_frame(Ack(1, 1, ()))
    for wrong in (data[:-1], data + b"\0"):
        with pytest.raises(FrameError, match="after the header, which says"):
            decode_frame(wrong)


@given(samples.frames, st.data())
def test_every_flipped_bit_is_found(frame: Frame, data: st.DataObject) -> None:
    whole = bytearray(encode_frame(frame))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FrameError):
        decode_frame(bytes(whole))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(None),
        msgspec.msgpack.encode(["Z", 1, 1, []]),
        msgspec.msgpack.encode(["A\nB" * 999, 1, 1, []]),
        msgspec.msgpack.encode(["A", 1, 1]),
        msgspec.msgpack.encode(["A", 1, 1.0, []]),
        msgspec.msgpack.encode(["A", 1, 1, []]) + b"\0",
        b"\x94\xa1A\x01\x01\x91\xa2\xff\xfe",
        b"\x95\xa1D\x01\x01\x01\x91\x92\xa1s\x96\xa2\xff\xfe\x01\xa1g\x01\x01\xc4\x00",
        b"\x95\xa1A\x01\x01\x90" + b"\x91" * 100_000 + b"\x90",
    ],
    ids=lambda body: f"{body[:9].hex()}-{len(body)}",
)
def test_a_well_sealed_body_that_is_no_frame_gives_one_short_line(body: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        decode_frame(sealed(body))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
    assert caught.value.__cause__ is None


def test_what_cannot_be_encoded_is_the_same_error() -> None:
    for frame in (Ack(2**64, 1, ()), samples.submit_frame(samples.batch(origin="\ud800"))):
        with pytest.raises(FrameError, match="cannot be encoded"):
            encode_frame(frame)


@given(st.lists(st.lists(samples.frames, min_size=1, max_size=4), max_size=4), st.data())
def test_writes_are_the_frames_in_a_row_whatever_was_written_before(
    writes: list[list[Frame]], data: st.DataObject
) -> None:
    encoder = FrameEncoder()
    for frames in writes:
        again = data.draw(st.lists(st.sampled_from(frames), min_size=1, max_size=4))
        for written in (frames, again, frames[:1]):
            encoded = encoder.encode(written)
            assert encoded == [encode_frame(frame) for frame in written]
            assert FrameSplitter().feed(b"".join(encoded)) == written


def test_a_frame_to_children_is_encoded_once() -> None:
    encoder = FrameEncoder()
    frame = samples.relay_frame(samples.batch())
    (first,), (second,) = encoder.encode([frame]), encoder.encode([frame])
    assert first is second
    other = samples.relay_frame(samples.batch(body=b"other"))
    assert decode_frame(encoder.encode([other])[0]) == other  # of the same number


def test_a_frame_that_is_too_large_is_refused_among_others_too() -> None:
    large = Data(1, 1, DOWN, 1, (Relay(placed_of(BODY_BYTES)), Relay(placed_of(BODY_BYTES))))
    encoder = FrameEncoder()
    with pytest.raises(FrameError, match="at most"):
        encoder.encode([Ack(1, 1, ()), large])
    assert encoder.encode([Ack(1, 1, ())]) == [encode_frame(Ack(1, 1, ()))]


def placed_of(size: int) -> Placed:
    return Placed(Key((0, 1), "d"), 1, samples.batch(body=bytes(size)))


def test_a_wrong_value_before_bytes_that_cannot_be_read_is_told_by_its_place() -> None:
    start = msgspec.msgpack.encode(["A", 0])[1:]
    for rest in (b"\x91" * 20_000 + b"\x90", b"\xc1", b"\xa1\xff", b""):
        with pytest.raises(FrameError, match=r"not a frame: .* at `\$\[1\]`"):
            decode_frame(sealed(b"\x94" + start + rest))
