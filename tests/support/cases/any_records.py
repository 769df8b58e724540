"""Records of the voters' log that keep the rules of the wire but need not make sense: strategies,
and what must be true of every layout that they fold to.

Names come from small pools, so that many records do make sense. A few are made while folding, to
fit what is under way then (`aimed`).
"""

from hypothesis import strategies as st
from msgspec.structs import replace

from ordercast.core.epochs.layout import Build, Layout, first_layout, living
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Admit,
    Adopt,
    Begin,
    Edit,
    EpochRecord,
    Finish,
    Flush,
    Founded,
    Grant,
    JoinGroup,
    Lapse,
    LeaveGroup,
    Nothing,
    Open,
    Recovered,
    RemoveGroup,
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
from ordercast.model.limits import LARGEST_NUMBER

AIM = "what is under way"

SITES = st.sampled_from(["a", "b", "c", "d", "e", "x", "A"])
GROUPS = st.sampled_from(["g", "h", "i", "G"])
STREAMS = st.sampled_from(["g", "h", "nowhere", "@0123456789abcdef"])
STORES = st.sampled_from([1, 1, 2, 0, 2**63 - 1])
NUMBERS = st.sampled_from([1, 2, 3, 7, LARGEST_NUMBER])
CHANGES = st.sampled_from([AIM, AIM, AIM, "one", "two"])
SOMEWHERE = st.one_of(st.just(""), SITES)


def few(values: st.SearchStrategy[object], least: int = 0) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, min_size=least, max_size=3).map(tuple)


SUBJECTS = st.sampled_from(["socket", "site:*", "site:a", "client:x"])
ACTS = st.sampled_from(["send:g", "read", "admin", "admin:*"])
edits: st.SearchStrategy[Edit] = st.one_of(
    st.builds(JoinGroup, GROUPS, SITES),
    st.builds(LeaveGroup, GROUPS, SITES),
    st.builds(AddGroup, GROUPS, few(SITES)),
    st.builds(RemoveGroup, GROUPS),
    st.builds(AddSite, SITES),
    st.builds(RetireSite, SITES),
    st.builds(AddVoter, SITES),
    st.builds(RemoveVoter, SITES),
    st.builds(UseBuilder, st.sampled_from(["greedy", "star", "metagroups", "none"]), SOMEWHERE),
    st.builds(UseProtocol, st.sampled_from(["tom", "ring", "metagroup", "none"]), SOMEWHERE),
    st.builds(Grant, SUBJECTS, few(ACTS, 1)),
    st.builds(Withdraw, SUBJECTS, few(ACTS)),
    st.builds(UseGrants, few(st.tuples(SUBJECTS, few(ACTS)))),
    st.builds(RevokeCertificate, st.just("client:x"), st.sampled_from(["0" * 64, "1" * 64])),
)
FEATURES = st.sampled_from(["x", "y", "z", "grants"])
lasts = few(st.tuples(SITES, NUMBERS, STREAMS, NUMBERS))
counts = few(st.tuples(NUMBERS, STREAMS, st.one_of(st.just(0), NUMBERS), few(SITES)))
voters = few(st.tuples(SITES, STORES), 1)
back = few(st.tuples(SITES, NUMBERS, STORES))
records: st.SearchStrategy[EpochRecord] = st.one_of(
    st.builds(Begin, CHANGES, few(edits)),
    st.builds(Begin, CHANGES, edits.map(lambda edit: (edit,))),
    st.builds(Finish, CHANGES, lasts, counts),
    st.builds(Finish, st.just(AIM), lasts, counts),
    st.builds(Flush, few(SITES), back),
    st.builds(Flush, st.just(("a", "b", "c", "d", "e")), st.just(())),
    st.builds(Open, NUMBERS, counts, lasts),
    st.builds(Lapse, few(SITES, 1)),
    st.builds(Stored, SITES, STORES),
    st.builds(Founded, voters, few(FEATURES)),
    st.builds(Adopt, few(FEATURES)),
    st.builds(Voters, voters),
    st.builds(Recovered, voters, voters),
    st.builds(Admit, SITES, st.one_of(st.just(0), NUMBERS), STORES),
    st.just(Nothing()),
)

TABLES: tuple[dict[str, tuple[str, ...]], ...] = (
    {"g": ("a", "b", "c"), "h": ("c", "d")},
    {"g": ("a", "b"), "h": ("c", "d")},
    {"g": ("a",)},
    {},
)


def layouts(build: Build, voters: str = "abc") -> st.SearchStrategy[Layout]:
    """To begin with: with and without causal order."""
    return st.builds(
        lambda table, protocol, causal: first_layout(
            "abcde", voters, table, "greedy", protocol, build, whole=causal, causal=causal
        ),
        st.sampled_from(TABLES),
        st.sampled_from(["propagation", "centralized", "two_phase"]),
        st.booleans(),
    )


def aimed(record: EpochRecord, layout: Layout) -> EpochRecord:
    if isinstance(record, Begin) and record.change == AIM:
        return replace(record, change=f"change {layout.count}")
    if isinstance(record, Finish) and record.change == AIM and layout.closing:
        return replace(record, change=next(iter(layout.closing)))
    if isinstance(record, Open) and record.flush < LARGEST_NUMBER and layout.flushing is not None:
        return replace(record, flush=layout.flushing.number)
    return record


def check_layout(layout: Layout, build: Build) -> None:
    """Open epochs are what the groups make of them, changes close what is open, and all of it
    survives the way through bytes, which a restart takes."""
    groups = living(layout.groups, layout.absent)
    there = [tuple(domain.structure.groups) for domain in layout.domains.values()]
    assert sorted(there) == sorted(layout.parts(groups))
    for domain in layout.domains.values():
        assert all(groups[name] == sites for name, sites in domain.structure.groups.items())
    for closing in layout.closing.values():
        assert closing.edits
        assert all(epoch in layout.domains for epoch in closing.epochs)
    assert len({site.lower() for site in layout.roster}) == len(layout.roster)
    assert layout.voters
    packed = pack_layout(layout)
    assert pack_layout(unpack_layout(packed, build)) == packed
