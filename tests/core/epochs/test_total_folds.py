"""No record that keeps the rules of the wire stops a site: what makes no sense has no effect but an
outcome, at all sites alike; also not the manager, and not a restart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Build, Closing, Layout, first_layout
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.raft import LEADER
from ordercast.core.epochs.records import Anew, Caught, Folded, MemberRecord
from ordercast.core.epochs.voters_log import Appendix, Ballot, VotersLog
from ordercast.forest.forest import Forest
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Admit,
    Begin,
    Edit,
    Entry,
    EpochRecord,
    Finish,
    Flush,
    Founded,
    JoinGroup,
    Nothing,
    Open,
    Recovered,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    UseBuilder,
    UseProtocol,
    Voters,
)
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import GroupTable
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import MILLISECOND, SECOND, Limits, Options, Timing
from ordercast.sim.members import build_forest
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.epochs import Feed, InEpoch, SiteFrame
from support.cases.any_records import AIM, aimed, check_layout, layouts, records
from support.stores.records import open_store, write
from support.worlds.epochs import build as any_forest

NO_EDIT = "change: there is no edit in it"
BUILDS = st.sampled_from(
    [build_forest, any_forest]
)  # the second does not ask what a protocol needs
GROUPS = {"g": ("a", "b", "c"), "h": ("c", "d")}


def founded(
    groups: dict[str, tuple[str, ...]] = GROUPS,
    *,
    voters: str = "a",
    build: Build = any_forest,
    causal: bool = False,
) -> Layout:
    return first_layout(
        "abcde", voters, groups, "greedy", "propagation", build, whole=causal, causal=causal
    )


def folded(layout: Layout, *some: EpochRecord, build: Build = any_forest) -> Layout:
    for record in some:
        layout = fold(layout, aimed(record, layout), build)
        check_layout(layout, build)
    return layout


def begun(change: str, *edits: Edit) -> Begin:
    return Begin(change, edits)


# --- any records ----------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(st.data(), BUILDS)
def test_any_records_fold_to_a_layout_that_is_whole(data: st.DataObject, build: Build) -> None:
    layout = data.draw(layouts(build))
    for drawn in data.draw(st.lists(records, max_size=25)):
        record = aimed(drawn, layout)
        frame = Feed(0, (Entry(1, record),), 1, ())
        assert decode_frame(encode_frame(frame)) == frame  # it could come from a peer
        layout = fold(layout, record, build)
        check_layout(layout, build)


class Machine:
    """A member and its disk."""

    def __init__(self, name: str, first: Layout, options: Options, build: Build) -> None:
        self.name, self.first, self.options, self.build = name, first, options, build
        self.now, self.boot, self.disk = 0, 0, list[MemberRecord]()
        self.delivered: list[object] = []
        self.start()

    def start(self) -> None:
        self.boot += 1
        self.member = Member(
            self.name, self.first, self.options, self.build,
            boot=self.boot, store=1, records=list(self.disk),
        )  # fmt: skip
        self.member.manager.log_entries = 4  # so that the log is folded early
        self.member.start(self.now)

    def drain(self, *, forget: bool = True) -> list[tuple[str, SiteFrame]]:
        box = self.member.drain()
        self.disk.extend(box.persist)
        if forget and box.forget is not None:
            self.disk = [box.forget]
        self.delivered += box.deliver
        for change in self.member.layout.closing:
            self.member.manager.missing(change)
        sent = [*box.send, *box.then_send]
        for _, frame in sent:
            if not isinstance(frame, InEpoch):
                encode_frame(frame)  # which checks it
        return sent

    def step(self, what: str) -> None:
        if what == "restart":
            self.drain()
            self.start()
        elif what == "tear":  # the last of an outbox's duties is not done
            self.drain(forget=False)
            self.start()
        elif what == "kill":  # what was not drained is lost
            self.start()
        elif what == "alarm":
            self.now += 600 * MILLISECOND
            self.member.alarm(self.now)
        elif what == "drain":
            self.drain()
        else:
            try:
                self.member.submit(self.now, what, [b"payload"])
            except Error:
                return

    def lead(self) -> None:
        for _ in range(6):
            if self.member.manager.leads:
                return
            self.now += SECOND
            self.member.alarm(self.now)
            self.drain()


STEPS = st.sampled_from(["restart", "tear", "kill", "alarm", "drain", "g", "h"])
RUNS = st.lists(st.one_of(records, records, STEPS), max_size=20)
OPTIONS = st.builds(
    lambda policy, causal, deliver: Options(
        deliver=deliver, on_failure=policy, causal=causal,
        limits=Limits(checkpoint_batches=2), timing=Timing(suspect=300 * MILLISECOND),
    ),
    st.sampled_from(["wait", "exclude"]), st.booleans(), st.sampled_from(["safe", "agreed"]),
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(RUNS, OPTIONS, BUILDS, st.sampled_from("abe"), st.data())
def test_a_member_folds_any_records_it_is_fed_and_restarts_with_them(
    run: list[EpochRecord | str], options: Options, build: Build, name: str, data: st.DataObject
) -> None:
    machine = Machine(name, data.draw(layouts(build, "xyz")), options, build)
    for step in run:
        if isinstance(step, str):
            machine.step(step)
            continue
        before = machine.member.layout
        record = aimed(step, before)
        # Whoever says so: a record may have made another voter of the one that feeds.
        entry = Entry(1, record)
        machine.member._take_feed("x", Feed(before.count, (entry,), before.count + 1, ()))
        assert packed(machine) == pack_layout(Folds(build).fold(before, entry))
    machine.drain()
    last = packed(machine)
    machine.start()
    assert packed(machine) == last


@settings(max_examples=120, deadline=None)
@given(RUNS, OPTIONS, BUILDS, st.data())
def test_a_manager_works_on_after_any_record_in_its_log(
    run: list[EpochRecord | str], options: Options, build: Build, data: st.DataObject
) -> None:
    machine = Machine("a", data.draw(layouts(build, "a")), options, build)
    machine.lead()
    for step in run:
        if isinstance(step, str):
            machine.step(step)
            continue
        machine.lead()
        put(machine.member, aimed(step, machine.member.layout))
        machine.drain()
        check_layout(machine.member.layout, build)
    machine.drain()
    machine.start()
    machine.lead()


@settings(max_examples=40, deadline=None)
@given(st.lists(records, max_size=8), OPTIONS, BUILDS, st.data())
def test_three_voters_work_on_after_any_record_in_their_log(
    run: list[EpochRecord], options: Options, build: Build, data: st.DataObject
) -> None:
    first = data.draw(layouts(build))
    trio = Trio([Machine(name, first, options, build) for name in "abc"])
    trio.pass_time(4)
    assert trio.leader() is not None
    one_at_a_time = True  # otherwise two sets of voters may decide apart from each other
    for drawn in run:
        leader = trio.leader()
        if leader is not None:
            record = aimed(drawn, leader.member.layout)
            if isinstance(record, (Admit, Voters)):
                one_at_a_time &= leader.member.raft._may_change_voters(record)
            one_at_a_time &= not isinstance(record, Recovered)
            put(leader.member, record)
        trio.pass_time(2)
    machine = data.draw(st.sampled_from(trio.machines))
    machine.start()
    trio.pass_time(2)
    by_count: dict[int, bytes] = {}
    for machine in trio.machines:
        check_layout(machine.member.layout, build)
        count = machine.member.layout.count
        if one_at_a_time:
            assert by_count.setdefault(count, packed(machine)) == packed(machine)


class Trio:
    """Voters on a network that loses nothing."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = machines

    def leader(self) -> Machine | None:
        return next((m for m in self.machines if m.member.raft.role == LEADER), None)

    def pass_time(self, steps: int) -> None:
        for _ in range(steps):
            for machine in self.machines:
                machine.now += 400 * MILLISECOND
                machine.member.alarm(machine.now)
            for _ in range(12):
                self._exchange()

    def _exchange(self) -> None:
        by_name = {machine.name: machine for machine in self.machines}
        sent = [(m.name, to, frame) for m in self.machines for to, frame in m.drain()]
        for origin, to, frame in sent:
            if to in by_name:
                by_name[to].member.receive(by_name[to].now, origin, frame)


def put(member: Member, record: EpochRecord) -> None:
    """Into the log of a leader as it is, whatever a leader of ours would say of it."""
    raft = member.raft
    if raft.role == LEADER:
        raft._write(raft.log.last + 1, [Entry(raft.term, record)])
        raft._advance()


def packed(machine: Machine) -> bytes:
    return pack_layout(machine.member.layout)


# --- a change with no edit ------------------------------------------------------------------------


def test_a_change_with_no_edit_is_refused_by_the_records() -> None:
    layout = folded(founded(), Begin("c", ()))
    assert layout.outcomes == {"c": NO_EDIT}
    assert not layout.closing


def old_layout(first: Layout) -> Layout:
    """As it was folded once: a change with no edit is under way, and closes nothing."""
    closing = {"c": Closing((), (), frozenset(), 2)}
    return replace(first, count=2, stores={"a": 1}, closing=closing)


def test_in_a_layout_that_was_packed_once_it_is_refused() -> None:
    layout = unpack_layout(pack_layout(old_layout(founded())), any_forest)
    assert layout.outcomes == {"c": NO_EDIT}
    check_layout(layout, any_forest)


OLD_ENTRIES = (Entry(1, Founded((("a", 1),))), Entry(1, Begin("c", ())))


def of_old_log(_: Layout) -> list[MemberRecord]:
    return [Ballot(1, "a"), Appendix(1, OLD_ENTRIES)]


def of_old_records(first: Layout) -> list[MemberRecord]:
    return [*of_old_log(first), *(Folded(entry.record) for entry in OLD_ENTRIES)]


def of_old_checkpoint(first: Layout) -> list[MemberRecord]:
    layout = pack_layout(old_layout(first))
    return [Anew(layout, 0, 1, (), (Ballot(1, "a"), Appendix(1, OLD_ENTRIES)))]


def of_old_feed(first: Layout) -> list[MemberRecord]:
    return [*of_old_log(first), Caught(pack_layout(old_layout(first)))]


Kept: TypeAlias = Callable[[Layout], list[MemberRecord]]


@pytest.mark.parametrize("kept", [of_old_log, of_old_records, of_old_checkpoint, of_old_feed])
def test_a_cluster_whose_store_has_one_starts_and_changes_again(kept: Kept, tmp_path: Path) -> None:
    first = founded({"g": ("a",)})
    store = open_store(tmp_path / "a.db")
    for record in kept(first):
        if isinstance(record, Anew):
            write(store, forget=record)
        else:
            write(store, record)
    store.close_sync()
    again = open_store(tmp_path / "a.db")
    machine = Machine("a", first, Options(), any_forest)
    machine.disk = again.restored()
    again.close_sync()
    machine.start()
    machine.lead()
    assert machine.member.layout.outcomes == {"c": NO_EDIT}
    machine.member.ask(machine.now, "next", (AddGroup("h", ("a",)),))
    for _ in range(6):
        machine.step("alarm")
        machine.drain()
    assert machine.member.layout.outcomes["next"] == ""


# --- changes that can no longer be done -----------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "meanwhile", "why"),
    [
        (RetireSite("b"), Voters((("b", 1),)), "site 'b' is a voter"),
        (RemoveVoter("a"), Voters((("a", 1),)), "site 'a' is the only voter"),
    ],
    ids=["retired", "removed"],
)
def test_what_has_become_impossible_is_refused_at_its_end_and_opens_again(
    edit: Edit, meanwhile: EpochRecord, why: str
) -> None:
    before = folded(founded(voters="ac"), begun("c", edit), meanwhile)
    layout = folded(before, Finish("c", (("a", 1, "g", 3),)))
    assert layout.outcomes["c"].startswith(f"refused when all had closed: {why}")
    assert layout.groups == before.groups
    assert layout.roster == before.roster
    assert not layout.closing
    assert layout.lasts == {("a", 1, "g"): 3}
    # Its epoch was sealed everywhere: nobody could go on in it.
    assert not any(epoch in layout.domains for epoch in before.closing["c"].epochs)
    assert len(layout.domains) == len(before.domains)


def test_who_went_while_it_was_joining_is_no_member_that_is_there() -> None:
    """Nobody waits for the close of a site that is in no domain."""
    join, out = begun("c", JoinGroup("g", "e")), Flush(("e",), ())
    for first, second in ((join, out), (out, join)):
        layout = folded(founded(), first, second, Finish("c", ()), Open(1, (), ()))
        assert layout.outcomes["c"].startswith("refused when all had closed: another decision")
        assert layout.groups["g"] == ("a", "b", "c")
        assert list(layout.absent) == ["e"]


def test_who_is_absent_already_is_in_no_change_s_way() -> None:
    away = folded(founded(), Flush(("c",), ()), Open(1, (), ()))
    assert folded(away, begun("c", JoinGroup("h", "a")), Finish("c", ())).outcomes["c"] == ""
    back = folded(away, begun("c", AddGroup("i", ("e",))), Flush((), (("c", 1, 1),)))
    assert folded(back, Finish("c", ()), Open(1, (), ())).outcomes["c"] == ""


def test_of_two_changes_that_open_the_one_domain_of_causal_order_the_later_is_refused() -> None:
    layout = folded(
        founded({"g": ("a",)}, causal=True),
        begun("none", RemoveGroup("g")),
        Finish("none", ()),
        begun("one", AddGroup("h", ("a",))),
        begun("two", AddGroup("i", ("b",))),
        Finish("one", ()),
        Finish("two", ()),
    )
    assert layout.outcomes["one"] == ""
    assert layout.outcomes["two"].startswith("refused when all had closed: another decision")
    assert list(layout.groups) == ["h"]


def test_nor_is_it_opened_beside_one_that_a_flush_will_open() -> None:
    layout = folded(
        founded({"g": ("a",)}, causal=True),
        Flush(("a",), ()),
        Open(1, (), ()),
        begun("one", AddGroup("h", ("b",))),
        Flush((), (("a", 1, 1),)),
        Finish("one", ()),
        Open(1, (), ()),
    )
    assert layout.outcomes["one"].startswith("refused when all had closed: another decision")
    assert list(layout.groups) == ["g"]
    assert len(layout.domains) == 1


# --- protocols that do not fit --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "why"),
    [("tom", "tom needs primaries by labels"), ("metagroup", "metagroup needs")],
)
def test_a_protocol_that_no_engine_could_run_is_refused_when_it_is_begun(
    protocol: str, why: str
) -> None:
    first = founded({"g": ("a", "b", "c", "d"), "h": ("a",), "i": ("b",)})
    layout = folded(first, begun("c", UseBuilder("star"), UseProtocol(protocol)))
    assert layout.outcomes["c"].startswith(why)


def picky(table: GroupTable, builder: str, protocol: str) -> Forest:
    if protocol == "propagation" and "b" not in table.sites:
        raise ConfigError("it does not like these")
    if protocol == "centralized":
        raise ConfigError("it does not like that one at all")
    return any_forest(table, builder, protocol)


def test_where_an_epoch_has_ended_the_next_opens_whatever_the_builder_says() -> None:
    layout = folded(
        founded({"g": ("a", "b")}, build=picky), Flush(("b",), ()), Open(1, (), ()), build=picky
    )
    (domain,) = layout.domains.values()
    assert (domain.protocol, domain.builder, domain.sites) == ("centralized", "star", ("a",))
    machine = Machine("a", layout, Options(on_failure="exclude"), picky)
    assert machine.member.engines


# --- a member -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
def test_who_is_let_back_without_its_word_keeps_what_it_has_delivered(deliver: str) -> None:
    machine = Machine(
        "a", founded({"g": ("a",)}), Options(deliver=deliver, on_failure="exclude"), any_forest
    )
    machine.lead()
    for payload in (b"one", b"two"):
        machine.member.submit(machine.now, "g", [payload])
        machine.drain()
    follower = Machine("a", founded({"g": ("a",)}, voters="x"), machine.options, any_forest)
    follower.disk = [r for r in machine.disk if not isinstance(r, (Ballot, Appendix))]
    follower.start()
    for record in (Flush(("a",), ()), Open(1, (), ()), Flush((), (("a", 1, 1),)), Open(1, (), ())):
        feed(follower, aimed(record, follower.member.layout))
        follower.drain()
    assert not any(isinstance(item, Rollback) for item in follower.delivered)
    given = [item for item in machine.delivered if isinstance(item, DeliveredBatch)]
    assert follower.member.position == follower.member.delivered == len(given) == 2


def outside() -> Machine:
    """An origin that is no member of the group it has sent to."""
    machine = Machine(
        "e", founded({"g": ("a", "b")}, voters="x"), Options(on_failure="wait"), any_forest
    )
    machine.step("g")
    assert machine.member.window.unstable == 1
    return machine


def feed(machine: Machine, *some: EpochRecord) -> None:
    for record in some:
        count = machine.member.layout.count
        entries = (Entry(1, record),)
        machine.member.receive(machine.now, "x", Feed(count, entries, count + 1, ()))


def test_what_was_sent_in_the_burst_that_retired_its_site_does_not_stop_a_restart() -> None:
    machine = outside()
    feed(machine, begun("c", RetireSite("e")), Finish("c", ()))
    machine.step("tear")
    assert "e" not in machine.member.layout.roster


def test_one_that_is_retired_starts_beside_another_whose_name_differs_by_case() -> None:
    machine = outside()
    feed(machine, begun("c", RetireSite("e")), Finish("c", ()))
    feed(machine, begun("d", AddSite("E")), Finish("d", ()))
    machine.step("restart")  # from a checkpoint: the structures are made anew
    assert sorted(machine.member.layout.roster) == ["E", "a", "b", "c", "d"]


# --- voters, stores, incarnations -----------------------------------------------------------------


def stores_after(*some: EpochRecord) -> Mapping[str, int]:
    log = VotersLog("ab")
    log.write(1, [Entry(1, record) for record in some])
    return log.stores()


def test_no_record_leaves_the_voters_without_a_store_that_counts() -> None:
    began = Founded((("a", 1), ("b", 2)))
    assert stores_after(began, Voters((("b", 0),))) == {"a": 1, "b": 2}
    gone = Admit("a", 1, 0)
    assert stores_after(began, Admit("b", 1, 0), gone) == {"a": 1, "b": 0}
    assert stores_after(began, Admit("b", 1, 0), Voters((("b", 0),))) == {"a": 1, "b": 0}
    assert folded(founded(voters="ab"), Voters((("b", 0),))).voters == ("a", "b")


def test_a_leader_does_not_propose_that_only_a_lost_store_is_left() -> None:
    machine = Machine("a", founded({"g": ("a",)}), Options(), any_forest)
    machine.lead()
    put(machine.member, Voters((("a", 1), ("b", 0))))
    machine.drain()
    last = machine.member.raft.log.last
    assert machine.member.raft.propose(machine.now, Voters((("b", 0),))) is None
    assert machine.member.raft.log.last == last


def test_a_cluster_is_founded_once() -> None:
    began, again = Founded((("a", 1), ("b", 2))), Founded((("x", 3),))
    assert stores_after(began, again) == {"a": 1, "b": 2}
    assert folded(founded(), began, again).stores == {"a": 1, "b": 2}


def test_incarnations_go_up_one_by_one() -> None:
    far = 2**62
    layout = folded(
        founded(), Admit("a", far, 1), Admit("b", 2, 1), Flush(("c",), ()), Open(1, (), ())
    )
    assert (layout.roster["a"], layout.roster["b"]) == (1, 2)
    assert folded(layout, Flush((), (("c", far, 1),))).flushing is None


def test_counts_of_epochs_that_there_never_were_are_not_kept() -> None:
    counts = ((99, "gone", 5, ()),)
    assert not folded(founded(), Flush(("c",), ()), Open(1, counts, ())).pasts
    join = (begun("c", JoinGroup("g", "d")), Finish("c", (), counts))
    assert not folded(founded(), Flush(("e",), ()), Open(1, (), ()), *join).pasts


def test_the_records_that_are_aimed_hit() -> None:
    """Else the tests above would show little."""
    layout = folded(founded(), begun(AIM, JoinGroup("h", "a")), Finish(AIM, ()), Nothing())
    assert layout.outcomes == {"change 0": ""}
