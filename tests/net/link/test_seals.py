"""Sealed datagrams: what a holder of the key made is opened, and nothing else is."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import FrameError
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.net.link.seals import (
    OVERHEAD_BYTES,
    AuthenticSeal,
    Forged,
    MakeSeal,
    SecretSeal,
    open_datagram,
    seal_datagram,
    seal_for,
)
from ordercast.wire.datagrams import HEADER_BYTES, Beat, Datagram, Piece, PieceRequest

KEY, OTHER = bytes(range(32)), bytes(32)
BOTH = pytest.mark.parametrize("make", [AuthenticSeal, SecretSeal])
SAMPLES: list[Datagram] = [
    Piece(7, 1, True, False, b"the payload of somebody"),
    Piece(7, LARGEST_NUMBER, False, True, b""),
    PieceRequest(7, 3, 9, ((1, 1), (5, 65_535))),
    Beat(7, 4, 100, 1),
]


@BOTH
@pytest.mark.parametrize("datagram", SAMPLES, ids=lambda each: type(each).__name__)
def test_what_is_sealed_is_opened(make: MakeSeal, datagram: Datagram) -> None:
    assert open_datagram(seal_datagram(datagram, make(KEY)), {7: make(KEY)}.get) == datagram


@BOTH
@pytest.mark.parametrize("datagram", SAMPLES, ids=lambda each: type(each).__name__)
def test_no_bit_can_be_changed(make: MakeSeal, datagram: Datagram) -> None:
    data = bytearray(seal_datagram(datagram, make(KEY)))
    seals = {7: make(KEY)}
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(FrameError):
            assert open_datagram(bytes(data), seals.get) is None  # of another stream
        data[bit // 8] ^= 1 << bit % 8


@BOTH
def test_another_key_opens_nothing(make: MakeSeal) -> None:
    for datagram in SAMPLES:
        with pytest.raises(Forged):
            open_datagram(seal_datagram(datagram, make(OTHER)), {7: make(KEY)}.get)


@BOTH
def test_a_cut_datagram_is_refused(make: MakeSeal) -> None:
    data = seal_datagram(SAMPLES[0], make(KEY))
    for size in range(len(data)):
        with pytest.raises(FrameError):
            open_datagram(data[:size], {7: make(KEY)}.get)


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    for start in (b"", seal_datagram(SAMPLES[0], AuthenticSeal(KEY))[:HEADER_BYTES]):
        with pytest.raises(FrameError):
            open_datagram(start + data, {7: AuthenticSeal(KEY)}.get)


@pytest.mark.parametrize(
    ("datagram", "says"),
    [
        (Beat(7, 1, 4, 9), "beat from 9 to 4"),
        (Beat(7, 1, 4, 0), "beat from 0 to 4"),
        (PieceRequest(7, 1, 9, ()), "ask of 8 bytes"),
        (PieceRequest(7, 1, 9, ((0, 1),)), "ask for"),
        (PieceRequest(7, 1, 9, ((1, 0),)), "ask for"),
        (PieceRequest(7, 1, 9, ((1, 1),) * 33), "ask of"),
        (Piece(7, 0, True, True, b""), "serial"),
    ],
)
def test_a_wrong_field_is_named_even_under_the_right_key(datagram: Datagram, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        open_datagram(seal_datagram(datagram, AuthenticSeal(KEY)), {7: AuthenticSeal(KEY)}.get)


def test_with_certificates_payloads_are_hidden() -> None:
    body = SAMPLES[0].body if isinstance(SAMPLES[0], Piece) else b""
    assert body in seal_datagram(SAMPLES[0], seal_for(secret=False)(KEY))
    assert body not in seal_datagram(SAMPLES[0], seal_for(secret=True)(KEY))


@BOTH
def test_a_piece_is_sealed_alike_by_whoever_sends_it_again(make: MakeSeal) -> None:
    assert seal_datagram(SAMPLES[0], make(KEY)) == seal_datagram(SAMPLES[0], make(KEY))
    header_and_tag = len(seal_datagram(Piece(7, 2, True, True, b""), make(KEY)))
    assert header_and_tag == OVERHEAD_BYTES
