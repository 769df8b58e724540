"""One frame of each kind, one item of each kind, one record and one edit of each kind.

Their bytes are kept in `every_kind.txt`, so the wire format does not change by chance.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from ordercast.model.epochs import (
    AddGroup,
    AddProducer,
    AddSite,
    AddVoter,
    Admit,
    Adopt,
    Begin,
    Edit,
    EndPart,
    Entry,
    EpochRecord,
    Finish,
    Flush,
    ForestMoves,
    Founded,
    Grant,
    JoinGroup,
    Lapse,
    LeaveGroup,
    Nothing,
    Open,
    Recovered,
    RemoveGroup,
    RemoveProducer,
    RemoveVoter,
    RetireSite,
    RevokeCertificate,
    Stored,
    UseBuilder,
    UseGrants,
    UseProtocol,
    Voters,
    Withdraw,
)
from ordercast.model.errors import FrameError
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, Key, Placed, Requests, by_id, producer_id
from ordercast.wire.client_marks import (
    ClientMarksTold,
    ClientMarksWanted,
    ListMarksTold,
    ListMarksWanted,
)
from ordercast.wire.codec import WireFrame, decode_frame
from ordercast.wire.copies import CopyTold, CopyWanted
from ordercast.wire.dissemination import (
    Head,
    Heard,
    Keyed,
    Many,
    TreePacket,
    decode_many,
    frames_for,
)
from ordercast.wire.epochs import (
    ChangeRequest,
    ClientChange,
    ClosedPart,
    Fed,
    Feed,
    Fetch,
    InEpoch,
    Knock,
    LogReport,
    Pages,
    PastNeeded,
    Whole,
)
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    UP,
    Ack,
    Data,
    DurableCounts,
    Final,
    Item,
    Null,
    Offer,
    Proposal,
    Relay,
    Repair,
    Rider,
    Settled,
    Submit,
    Timed,
    Wanted,
)
from ordercast.wire.handover import NoSnapshot, SnapshotPiece, SnapshotWanted
from ordercast.wire.lineage import Lineage, StoredRow, StorePoint, StoreStart
from ordercast.wire.pipes import PipeData, PipeEnd, PipeOffered, PipeRoom, PipeWanted
from ordercast.wire.replica_digest import DigestPoint, ReplicaDigest
from ordercast.wire.ring import Call, Header, Numbered, Token
from ordercast.wire.stability import RoundAck, RoundAsk, RoundInfo, RoundMissing, RoundStart
from ordercast.wire.swap import (
    NOBODY,
    ChainMark,
    Count,
    Counted,
    CountValue,
    Follows,
    MarkValue,
    Reached,
    Swap,
)
from ordercast.wire.tom import Bid, Body, BodyRequest
from ordercast.wire.voting import Append, Appended, Install, Vote, Voted
from wire import mutations

IMPLICIT = "@0123456789abcdef"
NAME = ("a", 1, "alpha", 3)
PLAIN = Batch("a", 1, "alpha", 17, 1, b"opaque")
FULL = Batch(
    "a", 2, IMPLICIT, 9, 5, b"body", (("alpha", 3, ()), (IMPLICIT, 9, ("a", "b"))), ("a", "b"),
    Requests(bytes(range(16)), ((7, 2), (9, 3))),
)  # fmt: skip
CLOSE = Batch("a", 0, IMPLICIT, 1, 1, b"", (), ("a", "b"))
COUNTS = ((3, "alpha", 40, ()), (3, IMPLICIT, 0, ("a", "b")))
LASTS = (("a", 1, "alpha", 17), ("b", 2, IMPLICIT, 1))
ROUND = (("alpha", 9, 8, 2, "b"), (IMPLICIT, 0, 0, 1, "a"))

ITEMS: tuple[tuple[int, Item], ...] = (
    (UP, Submit(PLAIN)),
    (UP, Submit(FULL)),
    (UP, Submit(CLOSE)),
    (UP, Offer(PLAIN, 0)),
    (UP, Timed(PLAIN, 7)),
    (UP, Null(7)),
    (UP, Wanted(7, "d")),
    (UP, Numbered(PLAIN, 4)),
    (UP, Header(4)),
    (UP, Token(5, 4, 3, 2, 0, (("b", 2, 3),))),
    (UP, Call(0)),
    (UP, Swap(1, PLAIN, NAME, "d")),
    (UP, Count(1, 2)),
    (UP, CountValue(1, NAME, 7)),
    (UP, CountValue(1, NOBODY, 7)),
    (UP, ChainMark(1, 2)),
    (UP, MarkValue(1, 2, NAME)),
    (UP, Follows(PLAIN, NAME)),
    (UP, Follows(PLAIN, NOBODY)),
    (UP, Counted(PLAIN, 7)),
    (UP, Reached(7)),
    (DOWN, Relay(Placed(Key((0, 5, -2, 1), "d"), 99, PLAIN))),
    (DOWN, Relay(Placed(Key((0, 5), "d"), 99, FULL))),
    (DOWN, Proposal(0, "alpha", 3, 7)),
    (DOWN, Final(1, IMPLICIT, 3, 7, "d")),
    (CONTROL, DurableCounts((("alpha", 3, 2), (IMPLICIT, 0, 0)))),
    (CONTROL, Settled((("alpha", 3), (IMPLICIT, 0)))),
    (CONTROL, Body(PLAIN)),
    (CONTROL, Bid("a", 0, "alpha", 3, "d")),
    (CONTROL, BodyRequest((NAME, ("b", 0, IMPLICIT, 1)))),
    (CONTROL, RoundStart(1)),
    (CONTROL, RoundAck(1, 0, True, ROUND)),
    (CONTROL, RoundInfo(2, 1, False, ROUND)),
    (CONTROL, RoundAsk(0)),
    (CONTROL, RoundMissing(1, ("a", "b"))),
)

EDITS: tuple[Edit, ...] = (
    JoinGroup("alpha", "a"),
    LeaveGroup("alpha", "b"),
    AddGroup("beta", ("a", "b")),
    RemoveGroup("beta"),
    AddSite("e", "127.0.0.1:7001"),
    RetireSite("e"),
    UseBuilder("greedy", "a"),
    UseProtocol("ring", ""),
    AddVoter("d"),
    AddProducer("sink", "alpha"),
    RemoveProducer("sink"),
    RemoveVoter("d"),
    Grant("client:billing", ("send:sales", "read")),
    Withdraw("client:*", ("send:sales",)),
    UseGrants((("socket", ("admin:*",)), ("site:*", ()))),
    RevokeCertificate("client:billing", "0123456789abcdef" * 4),
)

FORESTS = (ForestMoves("greedy", ((1, 0), (2, 1)), ((1, 1),)), ForestMoves(""))

RECORDS: tuple[EpochRecord, ...] = (
    Begin("change 1", EDITS),
    Begin("change 1", EDITS, "no such builder"),
    Finish("change 1", LASTS, COUNTS),
    Finish("change 1", LASTS, COUNTS, FORESTS, "no such builder"),
    EndPart(4, COUNTS, LASTS),
    Founded((("a", 2**62 + 1), ("b", 0)), ("x", "y")),
    Adopt(("x",)),
    Admit("a", 0, 2**63 - 1),
    Voters((("a", 5),)),
    Recovered((("a", 5),), (("b", 7), ("c", 0))),
    Stored("a", 5),
    Flush(("d",), (("e", 1, 0),)),
    Open(4, COUNTS, LASTS),
    Open(4, COUNTS, LASTS, FORESTS),
    Lapse(("d", "e")),
    Nothing(),
)

ENTRIES = tuple(Entry(2, record) for record in RECORDS)

RIDER = Rider(6, (DurableCounts((("alpha", 3, 2),)), RoundStart(4)))
FRAMES: tuple[WireFrame, ...] = (
    *(Data(1, 0, lane, 5, (item,)) for lane, item in ITEMS),
    Data(3, 2, UP, 5, (Submit(PLAIN), Null(1)), ((0, 3, 2), (2, 9, 9)), RIDER),
    Ack(1, 0, ((0, 1, 0), (1, 7, 7))),
    Repair(1, 1, DOWN, 3, 9),
    InEpoch(3, Data(1, 1, DOWN, 42, (Relay(Placed(Key((0, 5), "d"), 99, PLAIN)),))),
    InEpoch(3, Ack(1, 1, ())),
    InEpoch(3, Repair(1, 1, CONTROL, 3, 3)),
    Feed(3, ENTRIES, 13, ("change 1", "c 2"), chain=bytes(range(16))),
    Feed(0, (), 13, (), b"folded", doubted=("b", "c")),
    Fed(-1, ()),
    Fed(
        7, (("change 1", LASTS),), 2**63 - 1, True, 9, COUNTS, ("b",), ("c",), 12, ("e",), ("f",),
        ("x",),
    ),
    ClosedPart(4, LASTS, 1, 3),
    Knock(back=True),
    ChangeRequest("change 1", EDITS),
    ClientChange("change 1", EDITS, "client:billing"),
    LogReport(4, COUNTS, LASTS, ((2, "alpha"), (3, IMPLICIT)), 0, 2),
    PastNeeded(4, ((3, "alpha", 40, (), "b"), (3, IMPLICIT, 0, ("a", "b"), "")), 1, 2),
    Fetch(3, IMPLICIT, 0),
    Pages(3, "alpha", 98, (Placed(Key((0, 5), "d"), 99, PLAIN), Placed(Key((1,), "d"), 9, FULL))),
    Whole(4),
    Vote(1, 0, 0, True),
    Voted(1, False, True, 2**63 - 1),
    Append(2, 1, 1, ENTRIES, 0, 8),
    Appended(2, True, 4, 5, 8),
    Install(2, 3, 1, (("a", 5), ("b", 0)), b"folded", 8, bytes(range(16))),
    SnapshotWanted(3, "alpha", 0),
    SnapshotPiece(3, "alpha", 4, 9, bytes(range(32)), b"piece"),
    SnapshotPiece(3, "alpha", 0, 0, bytes(range(32)), b""),
    NoSnapshot(3, "alpha", "none yet"),
    Keyed(3, 77, bytes(range(32)), 1),
    Heard(77),
    TreePacket(3, "a", 77, b"packet"),
    Lineage(2**63 - 1, (StoreStart(1, 5, 0), StoreStart(3, 7, 40)), 40, StorePoint(8, 2, 9, 12)),
    StoredRow(41),
    ReplicaDigest("alpha", (DigestPoint(2, 1_000, 7, 8, 1, 9), DigestPoint(2, 1_004, 3, 4, 0))),
    ClientMarksWanted("alpha", 2**41 + 7),
    ClientMarksTold("alpha", 2**41 + 7, 3, 5 << 40 | 17, 5 << 40),
    PipeWanted(1, "b"),
    PipeOffered(2, "a"),
    PipeData(1, b"bytes"),
    PipeRoom(1, 65_536),
    PipeEnd(1, "too many pipes here"),
    ListMarksWanted(implicit_group("ab"), 2**41 + 7, ("a", "b")),
    ListMarksTold(implicit_group("ab"), 2**41 + 7, 3, 5 << 40 | 17, 5 << 40),
    CopyWanted("alpha", 2**41 + 7, producer_id(5)),
    CopyWanted("alpha", 2**41 + 8, b""),
    CopyTold("alpha", 2**41 + 7, producer_id(5), 3, 3 << 50 | 17, 0),
    CopyTold("alpha", 2**41 + 9, by_id("site a", "x"), 3, 5 << 40 | 17, 5 << 40 | 20),
)  # fmt: skip

MANY = Many(
    3, 1, UP,
    (Head("b", 1, 5, (), ((1, 2, 2),)), Head("c", 0, 7, (1,)), Head("b", 2, 9, (0, 1))),
    (Submit(PLAIN), Null(7)),
)  # fmt: skip
"""A packet to several sites; it travels in datagrams, without a frame's header."""

KEPT = Path(__file__).with_name("every_kind.txt")


def kept() -> list[tuple[bytes, str]]:
    """Of each of `FRAMES`, then of `MANY`: its bytes, and the verdict on each of its variants, `1`
    for a right one, as the rules were written by hand once."""
    lines = KEPT.read_text(encoding="ascii").split("\n")
    return [
        (bytes.fromhex(data), f"{int(verdicts, 16):b}"[1:])
        for data, verdicts in zip(lines[::2], lines[1::2], strict=False)
    ]


def variants(body: bytes) -> Iterator[bytes]:
    """The same MessagePack with one value replaced, each by each hostile one; and with one list
    cut, doubled or made long, each in turn."""
    value = msgspec.msgpack.decode(body)
    encode = msgspec.msgpack.Encoder().encode
    for place in mutations.places(value):
        for hostile in mutations.HOSTILE:
            yield encode(mutations.with_value(value, place, hostile))
        part = mutations.at(value, place)
        if isinstance(part, list):
            for other in (part[:-1], part[1:], part * 2, part * 20):
                yield encode(mutations.with_value(value, place, other))


def is_right(body: bytes) -> bool:
    """Whether a frame of this body is accepted."""
    try:
        decode_frame(mutations.sealed(body))
    except FrameError:
        return False
    return True


def is_right_packet(packet: bytes) -> bool:
    """Whether each site that the packet names accepts it."""
    try:
        many = decode_many(packet)
        for head in many.heads:
            frames_for(many, head.site)
    except FrameError:
        return False
    return True
