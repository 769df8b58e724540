"""Frames about epochs and snapshots: round trips, each rule, each limit, bounded memory."""

import tracemalloc
from collections.abc import Sequence
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Admit,
    Adopt,
    Begin,
    Edit,
    EndPart,
    Entry,
    EpochRecord,
    Finish,
    ForestMoves,
    Founded,
    JoinGroup,
    Nothing,
    Open,
    RetireSite,
    UseBuilder,
    UseProtocol,
    Voters,
)
from ordercast.model.errors import FrameError
from ordercast.model.limits import (
    FOLDED_BYTES,
    FRAME_BYTES,
    LARGEST_NUMBER,
    LASTS,
    MEMBERS,
    PARTS,
    PIECE_BYTES,
    PIPE_BYTES,
    PIPE_WINDOW,
    PLACES,
    RECORDS,
    TEXT,
    VOTERS,
)
from ordercast.wire.codec import (
    FrameEncoder,
    FrameSplitter,
    WireFrame,
    decode_frame,
    encode_frame,
)
from ordercast.wire.dissemination import Heard, Keyed, TreePacket
from ordercast.wire.epochs import ChangeRequest, ClosedPart, Fed, Feed, InEpoch, check_change
from ordercast.wire.frames import Ack, Data
from ordercast.wire.handover import NoSnapshot, SnapshotPiece, SnapshotWanted
from ordercast.wire.pipes import PipeData, PipeEnd, PipeOffered, PipeRoom, PipeWanted
from ordercast.wire.voting import FEW_BYTES, Append, Appended, Install, Vote, Voted, fitting
from wire import samples
from wire.mutations import sealed
from wire.samples import IMPLICIT, KINDS
from wire.test_codec import shape

LONG = "n" * 64
STREAM = ("a", 1, "alpha", 1)
SUM = bytes(32)


def test_there_are_samples_of_every_kind_of_frame() -> None:
    kinds = {kind.__name__ for kind in get_args(WireFrame)}
    assert kinds == {*KINDS, "Data", "Ack", "Repair"}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.data())
def test_each_kind_comes_back_equal_and_of_the_same_types(kind: str, data: st.DataObject) -> None:
    frame = data.draw(KINDS[kind])
    assert type(frame).__name__ == kind
    back = decode_frame(encode_frame(frame))
    assert back == frame
    assert shape(back) == shape(frame)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.data())
def test_of_each_kind_every_changed_byte_is_found(kind: str, data: st.DataObject) -> None:
    whole = bytearray(encode_frame(data.draw(KINDS[kind])))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FrameError):
        decode_frame(bytes(whole))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(st.data())
def test_of_each_kind_a_changed_byte_under_a_right_checksum_gives_a_right_frame_or_the_error(
    kind: str, data: st.DataObject
) -> None:
    body = bytearray(encode_frame(data.draw(KINDS[kind]))[12:])
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    try:
        frame = decode_frame(sealed(bytes(body)))
    except FrameError as error:
        complaint = str(error)
    else:
        complaint = ""
        frame.check()
        assert decode_frame(encode_frame(frame)) == frame
    assert len(complaint) < 300
    assert complaint.isprintable()


@given(st.lists(samples.any_frames, max_size=6), st.integers(1, 50))
def test_a_stream_of_all_kinds_is_split_wherever_it_is_cut(
    frames: list[WireFrame], step: int
) -> None:
    stream = b"".join(FrameEncoder().encode(frames))
    splitter = FrameSplitter()
    cuts = range(0, len(stream), step)
    assert [f for at in cuts for f in splitter.feed(stream[at : at + step])] == frames


def test_a_frame_to_children_is_encoded_once_within_its_epoch_and_not_for_another() -> None:
    encoder = FrameEncoder()
    frame = samples.relay_frame(samples.batch())
    first = encoder.encode([InEpoch(3, frame), InEpoch(4, frame), frame])
    second = encoder.encode([InEpoch(3, frame), InEpoch(4, frame), frame])
    assert all(one is two for one, two in zip(first, second, strict=True))
    assert [decode_frame(data) for data in second] == [InEpoch(3, frame), InEpoch(4, frame), frame]
    other = samples.relay_frame(samples.batch(body=b"other"))  # of the same number
    assert decode_frame(encoder.encode([InEpoch(3, other)])[0]) == InEpoch(3, other)


# --- rules ----------------------------------------------------------------------------------------


def raw(frame: WireFrame) -> bytes:
    """As somebody sends it who does not check."""
    return sealed(msgspec.msgpack.encode(frame))


def asked(*edits: Edit) -> ChangeRequest:
    return ChangeRequest("c", edits)


def fed(record: EpochRecord) -> Feed:
    return Feed(0, (Entry(1, record),), 1, ())


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (InEpoch(0, Ack(1, 1, ())), "epoch is 0: expected `int` >= 1"),
        (InEpoch(LARGEST_NUMBER + 1, samples.relay_frame(samples.batch())), "`int` <= 46116860"),
        (InEpoch(1, Ack(0, 1, ())), "boot is 0"),
        (InEpoch(1, Data(1, 1, 0, 1, ())), "frame.items: expected `array` of length >= 1"),
        (Feed(-1, (), 0, ()), "count is -1"),
        (Feed(0, (), -1, ()), "committed is -1"),
        (Feed(0, (), 0, ("",)), "wanted: a text of 0 characters"),
        (Feed(0, (Entry(1, Nothing()),), 0, (), b"x"), "records stand beside what they fold to"),
        (Fed(-2, ()), "count is -2"),
        (Fed(0, (("é", ()),)), "is not printable ASCII"),
        (Fed(0, (("c", (("", 1, "alpha", 1),)),)), "'' is not a site's name"),
        (
            Fed(0, (("c", (("a", 0, "alpha", 1),)),)),
            r"closed\[0\]\[1\]\[0\]\[1\] is 0",
        ),
        (Fed(0, (("c", (("a", 1, "@", 1),)),)), "'@' is not a group's name"),
        (Fed(0, (("c", (("a", 1, "alpha", 0),)),)), r"closed\[0\]\[1\]\[0\]\[3\] is 0"),
        (ChangeRequest("", ()), "change: a text of 0 characters"),
        (ChangeRequest("c", ()), "change: there is no edit in it"),
        (ChangeRequest("two\nlines", ()), r"change: 'two\\nlines' is not printable"),
        (asked(JoinGroup("alpha", "")), r"edits\[0\].site: '' is not a site's name"),
        (asked(JoinGroup("", "a")), r"edits\[0\].group: '' is not a group's name"),
        (asked(JoinGroup(IMPLICIT, "a")), "is a list of sites, not a group"),
        (asked(RetireSite("a"), AddGroup("g", ("a b",))), r"edits\[1\].members: 'a b' is not"),
        (asked(AddSite("d", "h\t:1")), r"edits\[0\].address: 'h\\t:1' is not printable"),
        (asked(UseBuilder("")), "a text of 0 characters"),
        (asked(UseProtocol("ring", "-")), "'-' is not a site's name"),
        (fed(Begin("", ())), "change: a text of 0 characters"),
        (fed(Finish("", ())), r"records\[0\].change: a text of 0"),
        (fed(Finish("c", (("a", 1, "alpha", 0),))), r"records\[0\].record.lasts\[0\]\[3\] is 0"),
        (fed(Founded(())), r"records\[0\].voters has 0 entries"),
        (fed(Founded((("a", 1),), ("x" * 33,))), r"records\[0\].features: at most 64 names"),
        (fed(Adopt(("é",))), r"records\[0\].features: at most 64 names"),
        (fed(Adopt(("",))), r"records\[0\].features: at most 64 names"),
        (Fed(0, (), features=("x",) * 65), "features: at most 64 names"),
        (fed(Voters((("", 1),))), "'' is not a site's name"),
        (fed(Voters((("a", 2**63),))), r"voters\[0\]\[1\] is 9223372036854775808"),
        (fed(Admit("", 1, 1)), "'' is not a site's name"),
        (fed(Admit("a", -1, 1)), "incarnation is -1"),
        (fed(Admit("a", 1, -1)), "store is -1"),
        (Vote(-1, 0, 0, True), "term is -1"),
        (Vote(0, -1, 0, True), "last is -1"),
        (Vote(0, 0, -1, True), "last_term is -1"),
        (Voted(-1, True, True, 0), "term is -1"),
        (Voted(0, True, True, -1), "store is -1"),
        (Append(-1, 0, 0, (), 0, 0), "term is -1"),
        (Append(0, -1, 0, (), 0, 0), "before is -1"),
        (Append(0, 0, -1, (), 0, 0), "before_term is -1"),
        (Append(0, 0, 0, (), -1, 0), "committed is -1"),
        (Append(0, 0, 0, (), 0, -1), "beat is -1"),
        (Append(0, 0, 0, (Entry(0, Nothing()),), 0, 0), r"entries\[0\].term is 0"),
        (Appended(-1, True, 0, 0, 0), "term is -1"),
        (Appended(0, True, -1, 0, 0), "match is -1"),
        (Appended(0, True, 0, -1, 0), "store is -1"),
        (Appended(0, True, 0, 0, -1), "beat is -1"),
        (Install(-1, 1, 1, (("a", 1),), b"", 0), "term is -1"),
        (Install(0, 0, 1, (("a", 1),), b"", 0), "upto is 0"),
        (Install(0, 1, 0, (("a", 1),), b"", 0), "upto_term is 0"),
        (Install(0, 1, 1, (), b"", 0), "voters has 0 entries"),
        (Install(0, 1, 1, (("a", 1),), b"", -1), "beat is -1"),
        (SnapshotWanted(0, "alpha", 0), "epoch is 0"),
        (SnapshotWanted(1, IMPLICIT, 0), "is a list of sites"),
        (SnapshotWanted(1, "alpha", -1), "offset is -1"),
        (SnapshotPiece(1, "alpha", -1, 1, SUM, b"x"), "offset is -1"),
        (SnapshotPiece(1, "alpha", 0, 2**63, SUM, b"x"), "total is"),
        (SnapshotPiece(1, "alpha", 1, 1, SUM, b"x"), "data ends at 2, total is 1"),
        (SnapshotPiece(1, "alpha", 0, 1, SUM, b""), "data ends at 0, total is 1"),
        (
            SnapshotPiece(1, "alpha", 0, 1, b"short", b"x"),
            "checksum: .* of length >= 32",
        ),
        (NoSnapshot(1, "alpha", "\0"), r"why: '\\x00' is not printable"),
        (NoSnapshot(1, "", "no"), "'' is not a group's name"),
        (Keyed(1, 1, b"x" * 31, 1), "key: expected `bytes` of length >= 32"),
        (Keyed(1, 0, b"x" * 32, 1), "stream is 0"),
        (Heard(0), "stream is 0"),
        (TreePacket(1, "", 1, b""), "'' is not a site's name"),
        (TreePacket(0, "a", 1, b""), "epoch is 0"),
        (PipeWanted(0, "b"), "number is 0"),
        (PipeWanted(1, ""), "'' is not a site's name"),
        (PipeOffered(0, "a"), "number is 0"),
        (PipeOffered(1, "@"), "'@' is not a site's name"),
        (PipeData(1, b""), "data: expected `bytes` of length >= 1"),
        (PipeData(1, bytes(PIPE_BYTES + 1)), "data: expected `bytes` of length <= 32768"),
        (PipeRoom(1, 0), "count is 0"),
        (PipeRoom(1, PIPE_WINDOW + 1), "count is 262145"),
        (PipeEnd(0, ""), "number is 0"),
        (PipeEnd(1, "\n"), r"why: '\\n' is not printable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_rule_names_what_is_wrong_at_both_ends(frame: WireFrame, complaint: str) -> None:
    with pytest.raises(FrameError, match=complaint):
        decode_frame(raw(frame))
    if not isinstance(frame, InEpoch):  # of links only sizes are checked by the sender
        with pytest.raises(FrameError, match=complaint):
            encode_frame(frame)


def test_an_empty_snapshot_is_one_empty_piece() -> None:
    frame = SnapshotPiece(1, "alpha", 0, 0, SUM, b"")
    assert decode_frame(encode_frame(frame)) == frame


def test_a_change_is_judged_before_it_is_asked_for() -> None:
    check_change("c", [AddGroup("g", ("a",)), UseProtocol("ring")])
    with pytest.raises(FrameError, match=r"edits\[0\].group: 'no name' is not a group's name"):
        check_change("c", [AddGroup("no name", ("a",))])
    with pytest.raises(FrameError, match="change: there is no edit in it"):
        check_change("c", [])


def test_a_change_with_no_edit_that_stands_in_a_log_still_travels() -> None:
    """It could be asked for once; a frame that is refused would be sent again for ever."""
    begun = Begin("c", ())
    for frame in (fed(begun), Append(1, 0, 0, (Entry(1, begun),), 0, 0)):
        assert decode_frame(encode_frame(frame)) == frame


# --- limits ---------------------------------------------------------------------------------------


def lasts(count: int, width: int = 1) -> tuple[tuple[str, int, str, int], ...]:
    return (("o" * width, LARGEST_NUMBER, "g" * width, LARGEST_NUMBER),) * count


def moved(count: int) -> ForestMoves:
    return ForestMoves("greedy", (), ((LARGEST_NUMBER, LARGEST_NUMBER),) * count)


def members(count: int) -> tuple[str, ...]:
    return (LONG,) * count


NONE, TOO_MANY = Nothing(), RECORDS + 1
ENTRY = Entry(1, NONE)
AT_THE_LIMIT: dict[str, tuple[WireFrame, WireFrame]] = {
    "records": (Feed(0, (ENTRY,) * RECORDS, 0, ()), Feed(0, (ENTRY,) * TOO_MANY, 0, ())),
    "wanted": (Feed(0, (), 0, ("c" * TEXT,) * RECORDS), Feed(0, (), 0, ("c",) * TOO_MANY)),
    "folded": (
        Feed(0, (), 0, (), bytes(FOLDED_BYTES)),
        Feed(0, (), 0, (), bytes(FOLDED_BYTES + 1)),
    ),
    "closed": (Fed(0, (("c", ()),) * RECORDS), Fed(0, (("c", ()),) * TOO_MANY)),
    "streams": (
        Fed(0, (("c", lasts(LASTS, 64)),)),
        Fed(0, (("c", lasts(LASTS)), ("d", lasts(1)))),
    ),
    "forests": (
        fed(Finish("c", (), (), (moved(PLACES),))),
        fed(Finish("c", (), (), (moved(PLACES), moved(1)))),
    ),
    "lasts": (fed(Finish("c", lasts(LASTS, 64))), fed(Finish("c", lasts(LASTS + 1)))),
    "parts": (ClosedPart(1, (), PARTS - 1, PARTS), ClosedPart(1, (), 1, 1)),
    "edits": (asked(*[RetireSite(LONG)] * RECORDS), asked(*[RetireSite("a")] * TOO_MANY)),
    "members": (asked(AddGroup("g", members(MEMBERS))), asked(AddGroup("g", members(MEMBERS + 1)))),
    "members of all": (
        asked(AddGroup("g", members(MEMBERS - 1)), AddGroup("h", members(1))),
        asked(AddGroup("g", members(MEMBERS)), AddGroup("h", members(1))),
    ),
    "address": (asked(AddSite("d", "x" * TEXT)), asked(AddSite("d", "x" * (TEXT + 1)))),
    "entries": (
        Append(1, 0, 0, (ENTRY,) * RECORDS, 0, 0),
        Append(1, 0, 0, (ENTRY,) * TOO_MANY, 0, 0),
    ),
    "voters": (
        Install(1, 1, 1, ((LONG, 1),) * VOTERS, b"", 0),
        Install(1, 1, 1, ((LONG, 1),) * (VOTERS + 1), b"", 0),
    ),
    "snapshot": (
        Install(1, 1, 1, ((LONG, 1),) * VOTERS, bytes(FOLDED_BYTES), 0),
        Install(1, 1, 1, (("a", 1),), bytes(FOLDED_BYTES + 1), 0),
    ),
    "piece": (
        SnapshotPiece(1, "g", 0, PIECE_BYTES, SUM, bytes(PIECE_BYTES)),
        SnapshotPiece(1, "g", 0, PIECE_BYTES + 1, SUM, bytes(PIECE_BYTES + 1)),
    ),
    "why": (NoSnapshot(1, "g", "x" * TEXT), NoSnapshot(1, "g", "x" * (TEXT + 1))),
}


@pytest.mark.parametrize("name", AT_THE_LIMIT)
def test_what_is_at_a_limit_fits_into_a_frame_and_one_more_is_refused(name: str) -> None:
    most, more = AT_THE_LIMIT[name]
    assert decode_frame(encode_frame(most)) == most
    with pytest.raises(FrameError):
        encode_frame(more)
    with pytest.raises(FrameError):
        decode_frame(raw(more))


LARGEST_RECORDS: Sequence[EpochRecord] = [
    Begin(
        "c" * TEXT,
        (AddGroup(LONG, members(MEMBERS)), *(AddSite(LONG, "x" * TEXT),) * (RECORDS - 1)),
    ),
    Finish("c" * TEXT, lasts(LASTS, 64), (), (moved(PLACES),), "r" * TEXT),
    EndPart(LARGEST_NUMBER, (), lasts(LASTS, 64)),
    Founded(((LONG, 2**63 - 1),) * VOTERS, ("f" * 32,) * 64),
]


@pytest.mark.parametrize("record", LARGEST_RECORDS, ids=lambda record: type(record).__name__)
def test_the_largest_record_of_each_kind_can_be_appended_and_fed(record: EpochRecord) -> None:
    append = Append(1, 1, 1, (Entry(LARGEST_NUMBER, record),), 1, 1)
    feed = Feed(0, (Entry(1, record),), 0, ("c" * TEXT,) * RECORDS)
    for frame in (append, feed):
        assert decode_frame(encode_frame(frame)) == frame


def test_records_that_fit_together_go_into_one_frame_and_a_large_one_goes_alone() -> None:
    large, small = LARGEST_RECORDS[1], Nothing()
    middle = Finish("c", lasts(2_000, 64))
    opened = Open(1, (), lasts(LASTS, 64))
    assert fitting([large, small]) == 1
    assert fitting([opened, opened]) == 1
    assert fitting([small, large]) == 1
    assert fitting([small] * 2_000) == RECORDS
    assert fitting([]) == 0
    count = fitting([middle] * 100)
    assert 1 < count < 100
    feed = Feed(0, (Entry(1, middle),) * count, 0, ())
    assert len(encode_frame(feed)) < FEW_BYTES < FRAME_BYTES / 8


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        Feed(0, (Entry(1, Nothing()),) * 300_000, 0, ()),
        Feed(0, (), 0, ("",) * 1_000_000),
        Fed(0, (("", ()),) * 300_000),
        Fed(0, (("c", (("", 1, "", 1),) * 200_000),)),
        ChangeRequest("c", (RetireSite(""),) * 250_000),
        ChangeRequest("c", (AddGroup("g", ("",) * 1_000_000),)),
        Append(1, 0, 0, (Entry(1, Nothing()),) * 200_000, 0, 0),
        Install(1, 1, 1, (("", 0),) * 300_000, b"", 0),
    ],
    ids=["records", "wanted", "closed", "lasts", "edits", "members", "entries", "voters"],
)
def test_too_many_small_parts_take_at_most_30_times_their_size(frame: WireFrame) -> None:
    data = raw(frame)
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match=r"of length <= \d+|not \d to"):
            decode_frame(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * len(data)


@pytest.mark.parametrize("opcode", [b"\xc6", b"\xdb", b"\xdd", b"\xdf", b"\xc9"])
@pytest.mark.parametrize("kind", ["InEpoch", "Feed", "Fed", "Append", "Install", "SnapshotPiece"])
def test_a_length_of_4_gb_takes_no_memory(kind: str, opcode: bytes) -> None:
    examples: dict[str, WireFrame] = {
        "InEpoch": InEpoch(1, samples.relay_frame(samples.batch())),
        "Feed": fed(Begin("c", (AddGroup("g", ("a",)), JoinGroup("g", "b")))),
        "Fed": Fed(0, (("c", (STREAM,)),)),
        "Append": Append(1, 0, 0, (Entry(1, Finish("c", (STREAM,))),), 0, 0),
        "Install": Install(1, 1, 1, (("a", 1),), b"layout", 0),
        "SnapshotPiece": SnapshotPiece(1, "alpha", 0, 4, SUM, b"data"),
    }
    body = encode_frame(examples[kind])[12:]
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
