"""Envelopes come back as they were packed, and their parts as if each message had been alone."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.batches import Extras, batch_bytes, extras_of, packed_body
from ordercast.model.envelope import (
    Envelope,
    HeaderRun,
    body_part,
    bounded_time,
    pack_envelope,
    unpack_body,
)
from ordercast.model.errors import FrameError
from ordercast.model.headers import header_items
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import (
    BATCH_MESSAGES,
    BODY_BYTES,
    ENVELOPE_BYTES,
    HEADERS_BYTES,
    LARGEST_NUMBER,
    MEMBERS,
)
from ordercast.model.messages import (
    Batch,
    DeliveredBatch,
    Delivery,
    Key,
    Placed,
    check_body,
    pack_payloads,
    payloads_of,
    unpack_payloads,
)

KEY = Key((0, 5), "d")
ALL = ("a", "b", "c")
RED = (("colour", b"red"),)
headers = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.binary(max_size=5), max_size=3)
messages = st.lists(st.tuples(st.binary(max_size=9), headers), min_size=1, max_size=8)
Message = tuple[bytes, dict[str, bytes]]


def enveloped(sent: list[Message], sent_ns: int, groups: tuple[str, ...]) -> Envelope:
    runs = tuple(
        HeaderRun(place, 1, header_items(some)) for place, (_, some) in enumerate(sent) if some
    )
    return Envelope([payload for payload, _ in sent], sent_ns, runs, groups)


def batch(body: bytes, count: int, *, listed: bool = True) -> Batch:
    group, members = (implicit_group(ALL), ALL) if listed else ("alpha", ())
    return Batch("a", 1, group, 17, count, body, (), members)


def delivered(body: bytes, count: int, *, listed: bool = True) -> DeliveredBatch:
    return DeliveredBatch(7, 3, Placed(KEY, 99, batch(body, count, listed=listed)), 2)


@given(messages, st.integers(0, LARGEST_NUMBER), st.sampled_from([(), ("g",), ("b", "a")]))
def test_deliveries_say_what_was_sent(
    sent: list[Message], sent_ns: int, groups: tuple[str, ...]
) -> None:
    envelope = enveloped(sent, sent_ns, groups)
    body = pack_envelope(envelope)
    found = delivered(body, len(sent))
    check_body(found.placed.batch)
    assert unpack_body(body) == envelope
    assert unpack_payloads(body) == payloads_of(found.placed.batch) == found.payloads
    assert (found.sent_ns, found.groups) == (sent_ns, groups)
    assert found.headers == [some for _, some in sent]
    for place, (item, (payload, some)) in enumerate(zip(found.deliveries(), sent, strict=True)):
        assert (item.position, item.seq, item.payload) == (7 + place, 17 + place, payload)
        assert (item.sent_ns, item.headers, item.groups) == (sent_ns, some, groups)
        assert hash(item) == hash(msgspec.structs.replace(item))


@given(messages, st.data())
def test_a_part_of_a_body_is_as_if_sent_alone(sent: list[Message], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(sent) - 1))
    end = data.draw(st.integers(first + 1, len(sent)))
    whole = enveloped(sent, 5, ("g",))
    assert body_part(pack_envelope(whole), first, end) == pack_envelope(
        enveloped(sent[first:end], 5, ("g",))
    )
    plain = [payload for payload, _ in sent]
    assert body_part(pack_payloads(plain), first, end) == pack_payloads(plain[first:end])


def test_a_run_of_a_whole_batch_is_cut_with_it() -> None:
    body = packed_body([b"1", b"2", b"3", b"4"], 0, (HeaderRun(1, 3, RED),), ())
    found = unpack_body(body_part(body, 0, 3))
    assert isinstance(found, Envelope)
    assert found.headers == (HeaderRun(1, 2, RED),)
    assert found.items() == [(), RED, RED]


def test_without_time_headers_and_groups_a_body_is_what_it_always_was() -> None:
    payloads = [b"x", b"y"]
    assert packed_body(payloads, 0, (), ()) == pack_payloads(payloads)
    for item in delivered(pack_payloads(payloads), 2, listed=False).deliveries():
        assert (item.sent_ns, item.headers, item.groups) == (0, {}, ("alpha",))
    assert delivered(pack_payloads(payloads), 2).deliveries()[0].groups == ()
    assert delivered(pack_payloads(payloads), 2).headers == [{}, {}]


def test_one_message_with_a_time_alone_says_it() -> None:
    [item] = delivered(packed_body([b"x"], 9, (), ()), 1, listed=False).deliveries()
    assert item == Delivery(7, 3, "alpha", "a", 1, 17, b"x", 2, KEY, 9)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_body_or_frame_error(data: bytes) -> None:
    for body in (
        data,
        b"\x82\xa1p\x91\xc4\x01x\xa1h" + data,
        b"\x82\xa1p\x91\xc4\x01x\xa1g" + data,
    ):
        try:
            check_body(batch(body, 1))
        except FrameError:
            continue
        assert delivered(body, 1).deliveries()[0].payload == payloads_of(batch(body, 1))[0]


LARGE = (("a", bytes(HEADERS_BYTES)),)


@pytest.mark.parametrize(
    ("envelope", "why"),
    [
        (Envelope([b"x"]), "holds 1 payloads, the batch says 2"),
        (Envelope([b"x", b"y"], -1), "`int` >= 0"),
        (Envelope([b"x", b"y"], LARGEST_NUMBER + 1), "`int` <= "),
        (Envelope([b"x", b"y"], 1, (HeaderRun(0, 3, RED),)), "are of 3 messages, the batch has 2"),
        (Envelope([b"x", b"y"], 1, (HeaderRun(2, 1, RED),)), "are of 3 messages, the batch has 2"),
        (
            Envelope([b"x", b"y"], 1, (HeaderRun(0, 2, RED), HeaderRun(1, 1, RED))),
            "a run at 1 begins before 2",
        ),
        (
            Envelope([b"x", b"y"], 1, (HeaderRun(1, 1, RED), HeaderRun(0, 1, RED))),
            "a run at 0 begins before 2",
        ),
        (Envelope([b"x", b"y"], 1, (HeaderRun(0, 0, RED),)), "`int` >= 1"),
        (Envelope([b"x", b"y"], 1, (HeaderRun(0, BATCH_MESSAGES + 1, RED),)), "`int` <= 65536"),
        (Envelope([b"x", b"y"], 1, (HeaderRun(0, 1, ()),)), "length >= 1"),
        (Envelope([b"x", b"y"], 1, (HeaderRun(0, 1, LARGE),)), "headers of 4,097 bytes"),
        (Envelope([b"x", b"y"], 1, (), ("g", "g")), "one of them stands there twice"),
        (Envelope([b"x", b"y"], 1, (), ("no name",)), "'no name' is not a group's name"),
        (Envelope([b"x", b"y"], 1, (), (implicit_group(ALL),)), "is a list of sites"),
        (Envelope([b"x", b"y"], 1, (), ("g",) * (MEMBERS + 1)), "length <= 16384"),
    ],
)
def test_an_envelope_that_breaks_a_rule_is_refused(envelope: Envelope, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        check_body(batch(pack_envelope(envelope), 2))


def test_groups_stand_only_where_members_are_listed() -> None:
    body = packed_body([b"x"], 1, (), ("g",))
    check_body(batch(body, 1))
    with pytest.raises(FrameError, match="the batch goes to one group"):
        check_body(batch(body, 1, listed=False))


def test_a_field_that_this_program_does_not_know_is_refused() -> None:
    with pytest.raises(FrameError, match="unknown field"):
        check_body(batch(b"\x82\xa1p\x91\xc4\x01x\xa1z\x01", 1))


@given(messages, st.integers(0, LARGEST_NUMBER), st.lists(st.text("ab", min_size=1), max_size=9))
def test_no_body_is_larger_than_what_is_counted_for_it(
    sent: list[Message], sent_ns: int, groups: list[str]
) -> None:
    envelope = enveloped(sent, sent_ns, tuple(groups))
    extras = Extras(envelope.headers, envelope.groups)
    body = packed_body(envelope.payloads, sent_ns, extras.headers, extras.groups)
    assert len(body) <= batch_bytes(envelope.payloads, 100, extras) + ENVELOPE_BYTES


def test_the_largest_batch_has_room_for_the_time() -> None:
    payload = bytes(BODY_BYTES - 16)  # the largest `message_bytes`
    body = packed_body([payload], LARGEST_NUMBER, (), ())
    assert len(body) <= BODY_BYTES + ENVELOPE_BYTES


def test_a_clock_that_is_set_wrong_is_bounded() -> None:
    assert bounded_time(-5) == 0
    assert bounded_time(1 << 63) == LARGEST_NUMBER
    found = unpack_body(packed_body([b"x"], 1 << 63, (), ()))
    assert found == Envelope([b"x"], LARGEST_NUMBER)


def test_the_same_headers_for_a_batch_stand_in_it_once() -> None:
    extras = extras_of({"colour": bytes(1_000)}, 100)
    body = packed_body([b"x"] * 100, 0, extras.headers, extras.groups)
    assert len(body) < 2_000
    assert delivered(body, 100).headers == [{"colour": bytes(1_000)}] * 100
