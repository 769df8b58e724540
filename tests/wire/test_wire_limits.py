"""Each hard limit of the wire: what is at it passes, one more is refused; memory is bounded."""

import re
import tracemalloc
from pathlib import Path

import pytest

from ordercast.model import limits
from ordercast.model.errors import FrameError
from ordercast.model.features import MOST_FEATURES
from ordercast.model.messages import pack_payloads
from ordercast.model.names import NAME_PATTERN
from ordercast.model.options import Limits
from ordercast.wire.codec import HEADER_BYTES, decode_frame, encode_frame
from ordercast.wire.frames import CONTROL, UP, Ack, Data, DurableCounts, Frame, Settled, Submit
from wire.mutations import sealed
from wire.samples import batch, relay_frame, submit_frame

IMPLICIT = "@0123456789abcdef"
LIMIT_ROW = re.compile(r"^\| `([A-Z_]+)` \| ([0-9,]+) \|", re.MULTILINE)


def passes(frame: Frame) -> bool:
    try:
        return decode_frame(encode_frame(frame)) == frame
    except FrameError:
        return False


def two_batches(size: int) -> Data:
    """A frame of two batches, because one alone may not be so large; `size` bytes of bodies."""
    bodies = (bytes(limits.BODY_BYTES), bytes(size - limits.BODY_BYTES))
    return Data(1, 1, UP, 1, tuple(Submit(batch(body=body)) for body in bodies))


def test_a_frame_has_at_most_16_mib() -> None:
    around = len(encode_frame(two_batches(limits.FRAME_BYTES - 200))) - limits.FRAME_BYTES + 200
    largest = two_batches(limits.FRAME_BYTES - around)
    assert len(encode_frame(largest)) == limits.FRAME_BYTES == 16 * 1024 * 1024
    assert passes(largest)
    with pytest.raises(FrameError, match="frame of 16,777,217 bytes, at most 16,777,216"):
        encode_frame(two_batches(limits.FRAME_BYTES - around + 1))
    with pytest.raises(FrameError, match="frame of 16,777,217 bytes, at most 16,777,216"):
        decode_frame(sealed(bytes(limits.FRAME_BYTES + 1 - HEADER_BYTES)))


def test_a_frame_has_at_most_1024_items() -> None:
    items = (Submit(batch(body=b"")),) * limits.ITEMS
    assert passes(Data(1, 1, UP, 1, items))
    with pytest.raises(FrameError, match="frame of 1,025 items, at most 1,024"):
        encode_frame(Data(1, 1, UP, 1, (*items, items[0])))


def test_a_decoder_refuses_1025_items_too() -> None:
    whole = encode_frame(Data(1, 1, UP, 1, (Submit(batch(body=b"")),) * limits.ITEMS))
    head, tail = whole[HEADER_BYTES:].split(b"\xdc\x04\x00")
    one = (len(tail) - 1) // limits.ITEMS  # what follows the items is the empty list of acks
    with pytest.raises(FrameError, match="items: expected `array` of length <= 1024"):
        decode_frame(sealed(head + b"\xdc\x04\x01" + tail[:one] + tail))


def test_a_body_has_at_most_8_mib_and_an_envelope() -> None:
    most = limits.BODY_BYTES + limits.ENVELOPE_BYTES
    assert passes(submit_frame(batch(body=bytes(most))))
    assert not passes(submit_frame(batch(body=bytes(most + 1))))
    assert not passes(relay_frame(batch(body=bytes(most + 1))))


def test_a_batch_has_at_most_65536_messages() -> None:
    assert passes(submit_frame(batch(count=limits.BATCH_MESSAGES)))
    assert not passes(submit_frame(batch(count=limits.BATCH_MESSAGES + 1)))
    assert not passes(relay_frame(batch(count=limits.BATCH_MESSAGES + 1)))


def test_a_key_has_at_most_8192_integers() -> None:
    assert passes(relay_frame(batch(), path=(1,) * limits.KEY_PATH))
    assert not passes(relay_frame(batch(), path=(1,) * (limits.KEY_PATH + 1)))


def test_a_causal_past_has_at_most_16384_entries() -> None:
    past = (("alpha", 1, ()),) * limits.VECTOR_ENTRIES
    assert passes(submit_frame(batch(past=past)))
    assert not passes(submit_frame(batch(past=(*past, past[0]))))


def test_a_report_has_at_most_16384_entries() -> None:
    counts = (("alpha", 1, 1),) * limits.VECTOR_ENTRIES
    assert passes(Data(1, 1, CONTROL, 1, (DurableCounts(counts),)))
    assert not passes(Data(1, 1, CONTROL, 1, (DurableCounts((*counts, counts[0])),)))


def test_a_notice_of_what_is_settled_has_at_most_16384_entries() -> None:
    seqs = (("alpha", 1),) * limits.VECTOR_ENTRIES
    assert passes(Data(1, 1, CONTROL, 1, (Settled(seqs),)))
    assert not passes(Data(1, 1, CONTROL, 1, (Settled((*seqs, seqs[0])),)))


def test_an_implicit_group_has_at_most_16384_members() -> None:
    members = ("a",) * limits.MEMBERS
    assert passes(submit_frame(batch(group=IMPLICIT, members=members)))
    assert not passes(submit_frame(batch(group=IMPLICIT, members=(*members, "a"))))
    assert not passes(submit_frame(batch(past=((IMPLICIT, 1, (*members, "a")),))))


def test_there_is_at_most_one_acknowledgement_for_each_lane() -> None:
    acks = ((0, 1, 1), (1, 1, 1), (2, 1, 1))
    assert passes(Ack(1, 1, acks))
    assert not passes(Ack(1, 1, (*acks, acks[0])))
    assert not passes(submit_frame(batch(), acks=(*acks, acks[0])))


def test_a_name_has_at_most_64_characters() -> None:
    assert passes(relay_frame(batch(origin="o" * 64, group="g" * 64), site="s" * 64))
    for wrong in (
        relay_frame(batch(origin="o" * 65)),
        relay_frame(batch(group="g" * 65)),
        relay_frame(batch(), site="s" * 65),
        submit_frame(batch(group=IMPLICIT, members=("m" * 65,))),
    ):
        assert not passes(wrong)
    assert NAME_PATTERN.fullmatch("n" * 65) is None


def test_numbers_go_up_to_2_to_the_62() -> None:
    most = limits.LARGEST_NUMBER
    assert passes(relay_frame(batch(seq=most, incarnation=most), number=most))
    assert not passes(relay_frame(batch(seq=most + 1)))
    assert not passes(relay_frame(batch(incarnation=most + 1)))
    assert not passes(relay_frame(batch(), number=most + 1))
    assert passes(submit_frame(batch(past=(("alpha", most, ()),))))
    assert not passes(submit_frame(batch(past=(("alpha", most + 1, ()),))))
    assert most + limits.BATCH_MESSAGES < 2**63


def test_what_a_site_sends_by_default_lies_within_the_limits() -> None:
    ours = Limits()
    assert ours.frame_items <= limits.ITEMS
    assert len(pack_payloads([bytes(ours.message_bytes)])) <= limits.BODY_BYTES
    assert ours.frame_bytes + limits.BODY_BYTES <= limits.FRAME_BYTES


@pytest.mark.parametrize("opcode", [b"\xc6", b"\xdb", b"\xdd", b"\xdf", b"\xc9"])
def test_a_length_of_4_gb_takes_no_memory(opcode: bytes) -> None:
    """Wherever it stands: at each place of a frame, a claim of 2**32-1 bytes, parts or entries."""
    body = encode_frame(relay_frame(batch(past=(("alpha", 1, ()),))))[HEADER_BYTES:]
    liars = [sealed(body[:at] + opcode + b"\xff" * 4 + body[at:]) for at in range(len(body) + 1)]
    tracemalloc.start()
    try:
        for liar in liars:
            with pytest.raises(FrameError):
                decode_frame(liar)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "frame",
    [
        relay_frame(batch(), path=(1,) * 1_000_000),
        submit_frame(batch(group=IMPLICIT, members=("ab",) * 333_333)),
        submit_frame(batch(past=(("", 1, ()),) * 250_000)),
        Data(1, 1, CONTROL, 1, (DurableCounts((("", 0, 0),) * 250_000),)),
        Ack(1, 1, ((0, 0, 0),) * 250_000),
    ],
    ids=["key", "members", "past", "counts", "acks"],
)
def test_a_frame_of_too_many_small_parts_takes_at_most_30_times_its_size(frame: Frame) -> None:
    """Some lengths are checked when the parts are there: the worst are 2 bytes, but objects."""
    data = encode_frame(frame)
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match=r"has [\d,]+ entries|of length <= \d+"):
            decode_frame(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * len(data)


def test_the_page_on_the_wire_tells_every_limit() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
    told = {name: int(value.replace(",", "")) for name, value in LIMIT_ROW.findall(page)}
    known = {**vars(limits), "MOST_FEATURES": MOST_FEATURES}
    assert told == {name: value for name, value in known.items() if type(value) is int}
