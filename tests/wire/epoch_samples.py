"""Frames about epochs and snapshots for the tests of the codec: strategies, and seeded ones."""

import random
from collections.abc import Callable

from hypothesis import strategies as st

from ordercast.model.epochs import (
    AddGroup,
    AddProducer,
    AddSite,
    AddVoter,
    Admit,
    Adopt,
    Begin,
    Counts,
    Edit,
    EndPart,
    Entry,
    EpochRecord,
    Finish,
    Flush,
    ForestMoves,
    Founded,
    Grant,
    Included,
    JoinGroup,
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
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import LARGEST_NUMBER, PIPE_WINDOW
from ordercast.model.messages import Key, Placed, by_id, producer_id
from ordercast.wire.client_marks import (
    ClientMarksTold,
    ClientMarksWanted,
    ListMarksTold,
    ListMarksWanted,
)
from ordercast.wire.codec import WireFrame
from ordercast.wire.copies import CopyTold, CopyWanted
from ordercast.wire.dissemination import KEY_BYTES, Heard, Keyed, TreePacket
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
from ordercast.wire.handover import CHECKSUM_BYTES, NoSnapshot, SnapshotPiece, SnapshotWanted
from ordercast.wire.lineage import Lineage, StoredRow, StorePoint, StoreStart
from ordercast.wire.pipes import PipeData, PipeEnd, PipeOffered, PipeRoom, PipeWanted
from ordercast.wire.replica_digest import DigestPoint, ReplicaDigest
from ordercast.wire.voting import Append, Appended, Install, Vote, Voted
from wire import samples
from wire.samples import COUNTS, NAMES, NUMBERS

IMPLICIT = "@0123456789abcdef"
TEXTS = st.from_regex(r"\A[ -~]{0,256}\Z")
CHANGES = st.one_of(st.just("change 1"), st.from_regex(r"\A[ -~]{1,256}\Z"))
STORES = st.integers(0, 2**63 - 1)
COPIED = st.sampled_from([b"", producer_id(7), by_id("site a", "x")])  # by these names
CRCS = st.integers(0, 2**32 - 1)
ANY_GROUPS = st.one_of(NAMES, samples.IMPLICIT)


def few(values: st.SearchStrategy[object], least: int = 0) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, min_size=least, max_size=3).map(tuple)


SUBJECTS = st.one_of(st.just("socket"), NAMES.map("client:{}".format), st.just("site:*"))
ACTS = st.one_of(st.sampled_from(["read", "send:a*b"]), NAMES.map("admin:{}".format))
edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(JoinGroup, NAMES, NAMES),
    st.builds(LeaveGroup, NAMES, NAMES),
    st.builds(AddGroup, NAMES, few(NAMES)),
    st.builds(RemoveGroup, NAMES),
    st.builds(AddSite, NAMES, TEXTS),
    st.builds(RetireSite, NAMES),
    st.builds(AddVoter, NAMES),
    st.builds(AddProducer, NAMES, NAMES),
    st.builds(RemoveProducer, NAMES, st.one_of(st.just(""), NAMES)),
    st.builds(RemoveVoter, NAMES),
    st.builds(UseBuilder, st.just("greedy"), st.one_of(st.just(""), NAMES)),
    st.builds(UseProtocol, st.just("ring"), st.one_of(st.just(""), NAMES)),
    st.builds(Grant, SUBJECTS, few(ACTS, 1)),
    st.builds(Withdraw, SUBJECTS, few(ACTS)),
    st.builds(UseGrants, few(st.tuples(SUBJECTS, few(ACTS)))),
    st.builds(RevokeCertificate, NAMES.map("client:{}".format), st.just("0f" * 32)),
)
included = few(st.tuples(NAMES, NUMBERS, ANY_GROUPS, NUMBERS))
counts = few(st.tuples(NUMBERS, ANY_GROUPS, COUNTS, few(NAMES)))
needs = few(st.tuples(NUMBERS, ANY_GROUPS, COUNTS, few(NAMES), st.one_of(st.just(""), NAMES)))
voters = few(st.tuples(NAMES, STORES), 1)
records: st.SearchStrategy[EpochRecord] = st.one_of(
    st.builds(Begin, CHANGES, few(edits)),
    st.builds(Finish, CHANGES, included, counts),
    st.builds(EndPart, NUMBERS, counts, included),
    st.builds(Stored, NAMES, STORES),
    st.builds(Flush, few(NAMES), few(st.tuples(NAMES, NUMBERS, STORES))),
    st.builds(Open, NUMBERS, counts, included),
    st.builds(Founded, voters, few(CHANGES.filter(lambda name: len(name) <= 32))),
    st.builds(Adopt, few(CHANGES.filter(lambda name: len(name) <= 32))),
    st.builds(Voters, voters),
    st.builds(Recovered, voters, voters),
    st.builds(Admit, NAMES, COUNTS, STORES),
    st.just(Nothing()),
)
entries = st.builds(Entry, NUMBERS, records)
CHAINS = st.binary(max_size=16)

KINDS: dict[str, st.SearchStrategy[WireFrame]] = {
    "InEpoch": st.builds(InEpoch, NUMBERS, samples.frames),
    "Feed": st.one_of(
        st.builds(Feed, COUNTS, few(entries), COUNTS, few(CHANGES), chain=CHAINS),
        st.builds(Feed, COUNTS, st.just(()), COUNTS, few(CHANGES), st.binary(max_size=300)),
    ),
    "Knock": st.builds(Knock, st.booleans()),
    "Fed": st.builds(
        Fed,
        st.one_of(st.just(-1), COUNTS),
        few(st.tuples(CHANGES, included)),
        STORES,
        st.booleans(),
        COUNTS,
        counts,
    ),
    "ClosedPart": st.builds(ClosedPart, NUMBERS, included, st.integers(0, 2), st.integers(3, 9)),
    "LogReport": st.builds(
        LogReport,
        NUMBERS,
        counts,
        included,
        few(st.tuples(NUMBERS, ANY_GROUPS)),
        st.integers(0, 2),
        st.integers(3, 9),
    ),
    "PastNeeded": st.builds(PastNeeded, NUMBERS, needs, st.integers(0, 2), st.integers(3, 9)),
    "Fetch": st.builds(Fetch, NUMBERS, ANY_GROUPS, COUNTS),
    "Pages": st.builds(Pages, NUMBERS, ANY_GROUPS, COUNTS, few(samples.placed_batches)),
    "Whole": st.builds(Whole, NUMBERS),
    "ChangeRequest": st.builds(ChangeRequest, CHANGES, few(edits, 1)),
    "ClientChange": st.builds(ClientChange, CHANGES, few(edits, 1), NAMES.map("client:{}".format)),
    "Vote": st.builds(Vote, COUNTS, COUNTS, COUNTS, st.booleans()),
    "Voted": st.builds(Voted, COUNTS, st.booleans(), st.booleans(), STORES),
    "Append": st.builds(Append, COUNTS, COUNTS, COUNTS, few(entries), COUNTS, COUNTS),
    "Appended": st.builds(Appended, COUNTS, st.booleans(), COUNTS, STORES, COUNTS),
    "Install": st.builds(
        Install, COUNTS, NUMBERS, NUMBERS, voters, st.binary(max_size=300), COUNTS, CHAINS
    ),
    "SnapshotWanted": st.builds(SnapshotWanted, NUMBERS, NAMES, COUNTS),
    "SnapshotPiece": st.builds(
        lambda epoch, group, offset, rest, data: SnapshotPiece(
            epoch, group, offset, offset + len(data) + rest, bytes(CHECKSUM_BYTES), data
        ),
        NUMBERS,
        NAMES,
        st.integers(0, 10**12),
        st.integers(0, 10**12),
        st.binary(min_size=1, max_size=300),
    ),
    "NoSnapshot": st.builds(NoSnapshot, NUMBERS, NAMES, TEXTS),
    "Keyed": st.builds(
        Keyed, NUMBERS, NUMBERS, st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), NUMBERS
    ),
    "Heard": st.builds(Heard, NUMBERS),
    "TreePacket": st.builds(TreePacket, NUMBERS, NAMES, NUMBERS, st.binary(max_size=50)),
    "Lineage": st.builds(
        lambda store, boot, mark, row, heard: Lineage(
            store, (StoreStart(boot, mark, row), StoreStart(boot + 1, mark, row)), row + 1, heard
        ),
        STORES,
        st.integers(1, 10**9),
        STORES,
        st.integers(0, 10**12),
        st.none() | st.builds(StorePoint, STORES, NUMBERS, STORES, COUNTS),
    ),
    "StoredRow": st.builds(StoredRow, COUNTS),
    "ReplicaDigest": st.builds(
        lambda group, point: ReplicaDigest(group, (point,)),
        NAMES,
        st.builds(DigestPoint, NUMBERS, COUNTS, CRCS, CRCS, COUNTS, STORES),
    ),
    "ClientMarksWanted": st.builds(ClientMarksWanted, NAMES, COUNTS),
    "ClientMarksTold": st.builds(ClientMarksTold, NAMES, COUNTS, NUMBERS, COUNTS, COUNTS),
    "ListMarksWanted": st.builds(
        lambda name, question: ListMarksWanted(implicit_group([name]), question, (name,)),
        NAMES,
        COUNTS,
    ),
    "ListMarksTold": st.builds(
        lambda name, *told: ListMarksTold(implicit_group([name]), *told),
        NAMES,
        COUNTS,
        NUMBERS,
        COUNTS,
        COUNTS,
    ),
    "CopyWanted": st.builds(CopyWanted, NAMES, COUNTS, COPIED),
    "CopyTold": st.builds(CopyTold, NAMES, COUNTS, COPIED, NUMBERS, COUNTS, COUNTS),
    "PipeWanted": st.builds(PipeWanted, NUMBERS, NAMES),
    "PipeOffered": st.builds(PipeOffered, NUMBERS, NAMES),
    "PipeData": st.builds(PipeData, NUMBERS, st.binary(min_size=1, max_size=300)),
    "PipeRoom": st.builds(PipeRoom, NUMBERS, st.integers(1, PIPE_WINDOW)),
    "PipeEnd": st.builds(PipeEnd, NUMBERS, TEXTS),
}
frames: st.SearchStrategy[WireFrame] = st.one_of(*KINDS.values())
any_frames: st.SearchStrategy[WireFrame] = st.one_of(samples.frames, frames)


# --- seeded ---------------------------------------------------------------------------------------


def random_frame(rng: random.Random) -> WireFrame:
    """A right frame of any kind that is not bare, with every field now and then in use."""
    kind = rng.choice(list(_RANDOM))
    return _RANDOM[kind](rng)


def number(rng: random.Random, least: int = 0) -> int:
    return rng.choice((least, least + 1, 300, 70_000, LARGEST_NUMBER))


def several(rng: random.Random, one: Callable[[random.Random], object]) -> tuple[object, ...]:
    return tuple(one(rng) for _ in range(rng.randint(0, 3)))


def random_edit(rng: random.Random) -> Edit:
    site, group = rng.choice("abc"), rng.choice(("alpha", "beta"))
    edits: list[Edit] = [
        JoinGroup(group, site),
        LeaveGroup(group, site),
        AddGroup(group, ("a", "b", "site-3")[: rng.randint(0, 3)]),
        RemoveGroup(group),
        AddSite(site, rng.choice(("", "127.0.0.1:7104"))),
        RetireSite(site),
        AddVoter(site),
        AddProducer(f"p{site}", group),
        RemoveProducer(f"p{site}", rng.choice(("", group))),
        RemoveVoter(site),
        UseBuilder("greedy", rng.choice(("", site))),
        UseProtocol("ring", rng.choice(("", site))),
        Grant(f"client:{site}", (f"send:{group}", "read")),
        Withdraw(f"site:{site}", ("admin:*",)[: rng.randint(0, 1)]),
        UseGrants((("socket", ("admin",)),)),
        RevokeCertificate(f"client:{site}", "0f" * 32),
    ]
    return rng.choice(edits)


def random_included(rng: random.Random) -> Included:
    return tuple(
        (rng.choice("abc"), 1, rng.choice(("alpha", IMPLICIT)), number(rng, 1))
        for _ in range(rng.randint(0, 4))
    )


def random_counts(rng: random.Random) -> Counts:
    return tuple(
        (number(rng, 1), rng.choice(("alpha", IMPLICIT)), number(rng), ("a",) * rng.randint(0, 1))
        for _ in range(rng.randint(0, 3))
    )


def random_stores(rng: random.Random) -> tuple[tuple[str, int], ...]:
    return tuple((site, rng.getrandbits(63)) for site in "abc"[: rng.randint(1, 3)])


def random_forests(rng: random.Random) -> tuple[ForestMoves, ...] | None:
    moves = ForestMoves("greedy", ((1, number(rng)),), ((number(rng, 1), 2),))
    return rng.choice((None, (), (moves,), (ForestMoves(""), moves)))


def random_record(rng: random.Random) -> EpochRecord:
    records: list[EpochRecord] = [
        Begin("change 1", several(rng, random_edit)),  # type: ignore[arg-type]
        Finish("change 1", random_included(rng), random_counts(rng)),
        Finish("change 1", (), (), random_forests(rng), rng.choice(("", "why"))),
        EndPart(number(rng, 1), random_counts(rng), random_included(rng)),
        Stored("a", rng.getrandbits(63)),
        Flush(("a", "b")[: rng.randint(0, 2)], (("c", 1, rng.getrandbits(63)),)),
        Open(number(rng, 1), random_counts(rng), random_included(rng), random_forests(rng)),
        Founded(random_stores(rng), ("x", "y")[: rng.randint(0, 2)]),
        Adopt(("x", "y")[: rng.randint(0, 2)]),
        Voters(random_stores(rng)),
        Recovered(random_stores(rng), random_stores(rng)),
        Admit("a", number(rng), rng.getrandbits(63)),
        Nothing(),
    ]
    return rng.choice(records)


def random_feed(rng: random.Random) -> Feed:
    wanted = ("change 1", "change 2")[: rng.randint(0, 2)]
    if rng.random() < 0.3:
        return Feed(number(rng), (), number(rng), wanted, rng.randbytes(50))
    entries = several(rng, random_entry)
    return Feed(number(rng), entries, number(rng), wanted, chain=rng.randbytes(16))  # type: ignore[arg-type]


def random_entry(rng: random.Random) -> Entry:
    return Entry(number(rng, 1), random_record(rng))


_RANDOM: dict[str, Callable[[random.Random], WireFrame]] = {
    "InEpoch": lambda rng: InEpoch(number(rng, 1), samples.random_frame(rng)),
    "Feed": random_feed,
    "Fed": lambda rng: Fed(
        number(rng, -1), (("change 1", random_included(rng)),), rng.getrandbits(63), True,
        number(rng), random_counts(rng),
    ),
    "Knock": lambda rng: Knock(back=rng.random() < 0.5),
    "ClosedPart": lambda rng: ClosedPart(number(rng, 1), random_included(rng), 0, 1),
    "LogReport": lambda rng: LogReport(
        number(rng, 1), random_counts(rng), random_included(rng), ((number(rng, 1), "alpha"),)
    ),
    "PastNeeded": lambda rng: PastNeeded(
        number(rng, 1), tuple((*c, "b") for c in random_counts(rng))
    ),
    "Fetch": lambda rng: Fetch(number(rng, 1), "alpha", number(rng)),
    "Pages": lambda rng: Pages(
        number(rng, 1), "alpha", 1, (Placed(Key((0, 1), "a"), 2, samples.random_batch(rng)),)
    ),
    "Whole": lambda rng: Whole(number(rng, 1)),
    "ClientChange": lambda rng: ClientChange("change 1", (random_edit(rng),), "site:a"),
    "ChangeRequest": lambda rng: ChangeRequest(
        "change 1",
        (random_edit(rng), *several(rng, random_edit)),  # type: ignore[arg-type]
    ),
    "Vote": lambda rng: Vote(number(rng), number(rng), number(rng), rng.random() < 0.5),
    "Voted": lambda rng: Voted(number(rng), True, False, rng.getrandbits(63)),
    "Append": lambda rng: Append(
        number(rng), number(rng), number(rng), several(rng, random_entry), 1, 2  # type: ignore[arg-type]
    ),
    "Appended": lambda rng: Appended(number(rng), True, number(rng), rng.getrandbits(63), 1),
    "Install": lambda rng: Install(
        number(rng), number(rng, 1), number(rng, 1), random_stores(rng), rng.randbytes(40), 1
    ),
    "SnapshotWanted": lambda rng: SnapshotWanted(number(rng, 1), "alpha", number(rng)),
    "SnapshotPiece": lambda rng: SnapshotPiece(
        number(rng, 1), "alpha", rng.randint(0, 9), 1_000, rng.randbytes(32), rng.randbytes(100)
    ),
    "NoSnapshot": lambda rng: NoSnapshot(number(rng, 1), "alpha", "it keeps none"),
    "Keyed": lambda rng: Keyed(
        number(rng, 1), number(rng, 1), rng.randbytes(KEY_BYTES), number(rng, 1)
    ),
    "Heard": lambda rng: Heard(number(rng, 1)),
    "TreePacket": lambda rng: TreePacket(number(rng, 1), "a", number(rng, 1), rng.randbytes(9)),
    "Lineage": lambda rng: Lineage(
        rng.getrandbits(63), (StoreStart(number(rng, 1), rng.getrandbits(63), 9),), 10,
        StorePoint(rng.getrandbits(63), number(rng, 1), rng.getrandbits(63), number(rng)),
    ),
    "StoredRow": lambda rng: StoredRow(number(rng)),
    "ReplicaDigest": lambda rng: ReplicaDigest(
        "alpha", (DigestPoint(number(rng, 1), number(rng), rng.getrandbits(32), 8, number(rng)),)
    ),
    "ClientMarksWanted": lambda rng: ClientMarksWanted("alpha", number(rng)),
    "ClientMarksTold": lambda rng: ClientMarksTold(
        "alpha", number(rng), number(rng, 1), number(rng), number(rng)
    ),
    "ListMarksWanted": lambda rng: ListMarksWanted(implicit_group("ab"), number(rng), ("a", "b")),
    "ListMarksTold": lambda rng: ListMarksTold(
        implicit_group("ab"), number(rng), number(rng, 1), number(rng), number(rng)
    ),
    "CopyWanted": lambda rng: CopyWanted("alpha", number(rng), producer_id(number(rng, 1))),
    "CopyTold": lambda rng: CopyTold(
        "alpha", number(rng), b"", number(rng, 1), number(rng), number(rng)
    ),
    "PipeWanted": lambda rng: PipeWanted(number(rng, 1), "b"),
    "PipeOffered": lambda rng: PipeOffered(number(rng, 1), "a"),
    "PipeData": lambda rng: PipeData(number(rng, 1), rng.randbytes(100)),
    "PipeRoom": lambda rng: PipeRoom(number(rng, 1), rng.randint(1, PIPE_WINDOW)),
    "PipeEnd": lambda rng: PipeEnd(number(rng, 1), "it is not connected here"),
}  # fmt: skip
