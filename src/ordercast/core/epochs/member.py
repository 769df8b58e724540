"""A site through all its epochs: what a driver runs ([GS] §5.1; the argument is docs/epochs.md).

It hands each frame to the engine of its epoch, folds the records that the manager feeds it into its
layout, and goes from epoch to epoch: the root of a closing domain orders the Close, everyone
reports when that is durable, and when the change is finished old engines are dropped and new ones
made. A voter also has its part of the voters' log, and leads changes if it is the manager. The
driver's calls and duties are those of an engine.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ordercast.core.batches import NO_EXTRAS, Extras
from ordercast.core.engine import Engine
from ordercast.core.epochs.admission import Admission, RequestName, Reservation
from ordercast.core.epochs.fence import MEMBER, Fence
from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.grant_edits import EpochSenders
from ordercast.core.epochs.layout import Build, Domain, Layout, widened
from ordercast.core.epochs.log_tail import tail_of
from ordercast.core.epochs.manager import Manager
from ordercast.core.epochs.raft import Raft, VotingTimes
from ordercast.core.epochs.records import (
    Anew,
    Caught,
    Confirmed,
    EngineState,
    Filled,
    Folded,
    Kept,
    MemberBox,
    MemberRecord,
    Noted,
    Shown,
    epoch_opened,
    in_epoch,
    in_frames,
    joined,
    nothing,
)
from ordercast.core.epochs.silence.hearing import Hearing
from ordercast.core.epochs.sources import Sources
from ordercast.core.epochs.streams.closings import ClosingReports
from ordercast.core.epochs.streams.tickets import require_ticket
from ordercast.core.epochs.voters_log import Appendix, Ballot, VoterRecord
from ordercast.core.epochs.window import Window
from ordercast.core.epochs.wishes import Wishes
from ordercast.core.observation import Observation, observations
from ordercast.core.outbox import (
    Accepted,
    Checkpoint,
    EngineBox,
    Record,
    StageReached,
    opening,
)
from ordercast.core.producers import marks_among, opening_marks
from ordercast.model.epochs import (
    Edit,
    Entry,
    Finish,
    Founded,
    Open,
    Stored,
)
from ordercast.model.errors import Error, FrameError, NotInMajority, PeerMistake
from ordercast.model.features import known_features, lacking
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, is_client
from ordercast.model.options import NEVER, Options
from ordercast.wire.epochs import (
    ChangeRequest,
    ClientChange,
    ClosedPart,
    Fed,
    Feed,
    FlushFrame,
    InEpoch,
    Knock,
    SiteFrame,
    check_change,
)
from ordercast.wire.frames import Data
from ordercast.wire.items import total_weight
from ordercast.wire.voting import Install

_MOST_EARLY = 1_024  # frames of epochs that have not opened here
_EARLY_BYTES = 16_777_216  # in these frames together


class Member:
    """State: layout, engines by epoch, the last position, changes asked for here."""

    # More than thirty attributes: in a dictionary each would be slower to reach.
    __slots__ = (
        "_barred", "_congested", "_due", "_durable", "_early", "_early_bytes", "_excludes",
        "_fence", "_forget_due", "_held", "_late", "_lonely_at", "_made", "_mistakes", "_stirred",
        "_wishes", "admission", "boot", "closings", "delivering", "detoured", "engines", "features",
        "flush", "folds", "hearing", "incarnation", "into_open", "layout", "manager", "manager_at",
        "name", "now", "options", "persisting", "position", "raft", "receipts", "senders",
        "sources", "window",
    )  # fmt: skip

    def __init__(
        self,
        name: Site,
        layout: Layout,
        options: Options,
        build: Build | Folds,
        *,
        boot: int = 1,
        store: int = 1,
        times: VotingTimes | None = None,
        records: Sequence[MemberRecord] = (),
        excluding: bool = True,
        gone: Sequence[Site] = (),
        features: Sequence[str] | None = None,
        durable: bool = True,
    ) -> None:
        """`durable`: as in `Engine`. Records of no epoch are asked for in any case."""
        self.name = name
        self._durable = durable
        self.features = known_features() if features is None else tuple(sorted(features))
        self.layout = layout  # the cluster's first, before the records are replayed
        self.options = options
        self.folds = build if isinstance(build, Folds) else Folds(build)
        self.boot = boot
        self.now = 0
        self.incarnation, self.position = 1, 0
        self.engines: dict[int, Engine] = {}
        self.window = Window(self)
        self._fence = Fence()
        self.senders = EpochSenders()
        self.flush = Flusher(self, store, excludes=excluding and options.on_failure == "exclude")
        self.manager_at: Site | None = None  # the site that fed this one last
        # Frames that this site cannot take yet: of an epoch that it has not opened, or before
        # the voters know its store. They would not be sent again soon, so a few are held.
        self._early: list[tuple[Site, InEpoch]] = []
        self._early_bytes = 0
        self.into_open: dict[int, list[Batch]] = {}  # own batches for open epochs
        self.persisting: list[MemberRecord] = []
        self._late: list[tuple[Site, SiteFrame]] = []
        self.delivering: list[Shown] = []
        self.receipts: list[StageReached] = []
        self._wishes = Wishes(name)
        self._lonely_at = 0  # when to tell the voters where this site is, if nobody feeds it
        self._stirred = True  # something happened since `_manage` that belongs to no one epoch
        self._due = 0  # when `_manage` must run again in any case
        self._forget_due = self._held = False
        self._made: dict[int, Checkpoint] = {}  # checkpoints of engines, in this burst
        self._excludes = self.flush.excludes
        self._congested: dict[Site, bool] = {}
        self.detoured: tuple[Site, ...] = ()  # sites that are reached through a third one only
        self._mistakes: dict[Site, str] = {}  # peers' mistakes in this burst
        times = times or VotingTimes()
        self.hearing = Hearing(self, times.beat)
        self.closings = ClosingReports(self)
        self._barred = False  # a voter has said that this store was declared lost
        self.sources = Sources(self, gone)
        first_voters = layout.voters if layout.count >= 0 else ()
        voter = self._restore(records)
        self.flush.restarted()
        self.raft = Raft(name, first_voters, times, store, voter, self.features)
        self.manager = Manager(self, self.raft)
        self.admission = Admission(self)  # after the records, which tell the last seqs

    # --- starting ---------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        self.now = now
        for engine in self.engines.values():
            engine.start(now)
        self.raft.start(now)
        self._lonely_at = now if self.boot > 1 else now + self.raft.times.lonely

    def make(
        self, domain: Domain, checkpoint: Checkpoint, records: Sequence[Record] = ()
    ) -> Engine:
        engine = Engine(
            self.name,
            widened(domain.structure, [self.name]),
            self.options,
            protocol=domain.protocol,
            incarnation=self.incarnation,
            boot=self.boot,
            checkpoint=checkpoint,
            records=records,
            attempt=self.flush.attempt,
            remember=self.flush.missed.remembering(domain),
            frozen=self.flush.is_sealed(domain.epoch),
            inside=domain.has(self.name),
            excludes=self.flush.excludes,
            durable=self._durable,
        )
        if self.flush.excludes:  # incarnations change only with epochs
            engine.incarnation_of = self._incarnation_of
        engine.senders = self.senders.of(self.layout, domain.epoch)
        self.window.number_on(engine)
        engine.flow.held = self._held
        for peer, congested in self._congested.items():
            engine.congest(self.now, peer, congested=congested)
        self.engines[domain.epoch] = engine
        return engine

    def _incarnation_of(self, site: Site) -> int | None:
        """None: the site is retired, or this one has not heard of it yet."""
        return self.layout.roster.get(site)

    # --- the application --------------------------------------------------------------------------

    def submit(
        self, now: int, group: Group, payloads: list[bytes], request: RequestName | None = None,
        sent_ns: int = 0, extras: Extras = NO_EXTRAS,
    ) -> int:  # fmt: skip
        """Accept a batch at once. Returns its first seq. Nothing is changed when this raises."""
        self._hear(now, group, ())
        return self.admission.submit(now, group, (), payloads, request, sent_ns, extras)

    def submit_to(
        self, now: int, sites: Sequence[Site], payloads: list[bytes],
        request: RequestName | None = None, sent_ns: int = 0, extras: Extras = NO_EXTRAS,
    ) -> tuple[Group, int]:  # fmt: skip
        """As `submit`, for listed sites. Returns the name of their group, and the first seq."""
        group = implicit_group(members := self.layout.listed(sites))
        self._hear(now, group, members)
        seq = self.admission.submit(now, group, members, payloads, request, sent_ns, extras)
        return group, seq

    def _hear(self, now: int, group: Group, members: tuple[Site, ...]) -> None:
        """Tell the time to the engine that will get a batch, even if the batch is refused."""
        self.now = now
        self.require_open()
        engine = self._engine(self.domain(group, members))
        engine.now, engine.stirred = now, True

    def require_open(self) -> None:
        """Raises NotInMajority while this site may accept nothing."""
        self.flush.require_open()

    def accept(self, now: int, batch: Reservation) -> bool:
        """Take a batch whose room and seqs are reserved. False: this site orders the group, and has
        no room for that now."""
        self.now = now
        group, members = batch.group, batch.members
        engine = self._engine(self.domain(group, members))
        if not engine.may_accept(group, members):
            return False
        requests = None if batch.request is None else batch.requests()
        engine.accept(now, group, members, batch.seq, len(batch.payloads), batch.body(), requests)
        if requests is not None and is_client(requests.client):
            self._fence.up()
        return True

    def domain(self, group: Group, members: Sequence[Site]) -> Domain:
        """The domain that takes this site's messages to the group. Raises an Error if none does."""
        domain = self.layout.taking(self.name, group, members)
        senders = self.senders.of(self.layout, domain.epoch)
        if senders is not None:
            senders.require(self.name, group, members)
        return domain

    def _engine(self, domain: Domain) -> Engine:
        engine = self.engines.get(domain.epoch)
        if engine is None:  # an origin outside the domain
            engine = self.make(domain, self._first_checkpoint(domain))
            engine.start(self.now)
        return engine

    @property
    def logged(self) -> int:
        """The last position of this site's log."""
        home = self.layout.home(self.name)
        return self.position if home is None else self.engines[home.epoch].gate.logged

    @property
    def delivered(self) -> int:
        """The last position that was given to the application, or need not be any more."""
        home = self.layout.home(self.name)
        return self.flush.delivered if home is None else self.engines[home.epoch].position

    def ask(
        self, now: int, change: str, edits: tuple[Edit, ...], subject: ClientSubject | None = None
    ) -> None:
        """Ask for a change, for this site or for a client of its daemon. Its outcome comes in an
        outbox. After a restart, ask again."""
        self.now = now
        self._stirred = True
        check_change(change, edits)
        self._wishes.want(now, change, edits, subject, self.layout)

    # --- frames -----------------------------------------------------------------------------------

    def receive(self, now: int, peer: Site, frame: SiteFrame) -> None:
        """Take a frame. A mistake in it changes nothing, and is in the outbox's `mistakes`."""
        self.now = now
        if type(frame) is InEpoch:
            engine = self.engines.get(frame.epoch)
            if engine is not None and (
                not self._excludes or self.layout.stores.get(self.name) == self.flush.store
            ):
                engine.receive(now, peer, frame.frame)
            elif engine is not None or frame.epoch > self.layout.last_epoch:
                self._hold_early(peer, frame)
            return
        self._stirred = True
        try:
            self._receive(now, peer, frame)
        except (PeerMistake, FrameError) as mistake:
            self._mistakes.setdefault(peer, str(mistake))

    def _receive(self, now: int, peer: Site, frame: SiteFrame) -> None:
        if isinstance(frame, Feed):
            if self.sources.believes(peer):
                self._take_feed(peer, frame)
        elif isinstance(frame, Fed):
            self.manager.fed(peer, frame)
        elif isinstance(frame, ClosedPart):
            self.manager.closed_part(peer, frame)
        elif isinstance(frame, Knock):
            if self.hearing.receive(peer, frame) and self._excludes:
                self.closings.tell_manager()
        elif isinstance(frame, (ChangeRequest, ClientChange)):
            self.manager.ask(peer, frame)
        elif isinstance(frame, FlushFrame):
            self.flush.receive(peer, frame)
        elif not isinstance(frame, InEpoch) and self.sources.may_vote(peer):
            if isinstance(frame, Install) and frame.upto > self.raft.committed:
                self.sources.check_install(frame)
            self.raft.receive(now, peer, frame)

    def _hold_early(self, peer: Site, frame: InEpoch) -> None:
        inner = frame.frame
        size = self._early_bytes + (total_weight(inner.items) if type(inner) is Data else 0)
        if not self._early or (len(self._early) < _MOST_EARLY and size <= _EARLY_BYTES):
            self._early.append((peer, frame))
            self._early_bytes = size

    def believes(self, peer: Site) -> bool:
        return self.sources.believes(peer)

    @property
    def declared_lost(self) -> bool:
        """Whether an operator has declared this store lost (`Recovered`). It must not go on."""
        return self._barred or (self.name, self.flush.store) in self.layout.lost

    @property
    def lacks(self) -> tuple[str, ...]:
        """Features that the cluster uses and this program does not have. It must not go on."""
        return lacking(self.layout.features, self.features)

    def connected(self, now: int, peer: Site) -> None:
        self.now = now
        for engine in self.engines.values():
            engine.connected(now, peer)

    def congest(self, now: int, peer: Site, *, congested: bool) -> None:
        self.now = now
        self._congested[peer] = congested
        for engine in self.engines.values():
            engine.congest(now, peer, congested=congested)

    def hold(self, now: int, *, held: bool) -> None:
        self.now = now
        self._held = held
        for engine in self.engines.values():
            engine.hold(now, held=held)

    def alarm(self, now: int) -> None:
        for engine in self.engines.values():
            if engine.alarm_at <= now:
                engine.alarm(now)
        self.now = now
        if now >= self._due:
            self.tend(now)

    def tend(self, now: int) -> None:
        """The part of `alarm` that belongs to no epoch: changes, and the voters' log."""
        self.now = now
        self.raft.alarm(now)
        self._stirred = True

    def say(self, peer: Site, frame: SiteFrame) -> None:
        self._late.append((peer, frame))

    # --- records ----------------------------------------------------------------------------------

    def _take_feed(self, peer: Site, frame: Feed) -> None:
        self._barred |= self.sources.bars(frame, (self.name, self.flush.store))
        if self.layout.count >= 0:
            self.fold_committed(self.raft)
        caught, entries = self.sources.caught(peer, frame), self.sources.entries(peer, frame)
        self.manager_at = peer
        self._lonely_at = self.now + self.raft.times.lonely
        if caught is not None:
            self._catch_up(frame.folded, caught)
        self.hearing.doubt(frame.doubted)
        for entry in entries:
            self._fold(entry)
        withheld = frame.count + len(frame.records) > self.layout.count
        if withheld and self.raft.is_led(self.now) and self.raft.leader != peer:
            return  # its log waits for the leader: another voter would say the same again at once
        self.closings.tell(peer, frame.wanted)
        if any(wanted.startswith("log ") for wanted in frame.wanted):
            self.flush.tell_log()

    def fold_committed(self, raft: Raft) -> None:
        """A voter folds the records that its own log has committed."""
        snapshot = raft.log.snapshot
        if snapshot.upto > self.layout.count:
            self._catch_up(snapshot.data, self.folds.unpack(snapshot.data))
        while self.layout.count < raft.committed:
            self._fold(raft.log.entry(self.layout.count + 1))

    def _catch_up(self, folded: bytes, layout: Layout) -> None:
        self._end_engines(layout)
        self.persisting.append(Caught(folded))
        self._change(layout)
        self._grant()
        self.flush.tell_log()
        self._wishes.answer(self.layout)

    def _fold(self, entry: Entry) -> None:
        layout, record = self.folds.fold(self.layout, entry), entry.record
        self._end_engines(layout)
        self.persisting.append(Folded(record, entry.term))
        if isinstance(record, (Finish, Open)):
            self._change(layout)
        else:
            self.layout = layout
        if self.senders.are_new(layout):
            self._grant()
        self.flush.folded(record)
        if isinstance(record, (Founded, Stored)):
            self._look_at_early()
        self._wishes.answer(self.layout)

    def _grant(self) -> None:
        """The table of grants is another: batches that waited for a grant are tried again."""
        for epoch, engine in self.engines.items():
            engine.grant(self.now, self.senders.of(self.layout, epoch))

    def ungranted(self) -> list[tuple[Site, Group]]:
        """The origins whose batches wait here, because they may not send to a group."""
        engines = self.engines.values()
        return [pair for e in engines if e.senders is not None for pair in e.senders.waiting]

    def _end_engines(self, layout: Layout) -> None:
        """Freeze engines whose epochs end. Their duties come before the record of the change."""
        flushed = () if layout.flushing is None else layout.flushing.epochs
        for epoch, engine in self.engines.items():
            if epoch not in layout.domains or epoch in flushed:
                self.collect(epoch, engine, engine.drain())
                engine.freeze()

    def collect(self, epoch: int, engine: Engine, box: EngineBox) -> None:
        self.persisting += in_epoch(epoch, box.persist, engine.in_log)
        self.delivering += box.deliver
        self.receipts += box.receipts

    # --- from epoch to epoch ([GS] §5.1 and §5.2.1) -----------------------------------------------

    def _change(self, layout: Layout) -> None:
        for epoch, checkpoint in self._adopt(layout).items():
            self.flush.entering(layout.domains[epoch])
            self.make(layout.domains[epoch], checkpoint).start(self.now)
            if self._durable and self._excludes:  # a restart must know that it was here
                self._fence.up()
        for epoch, batches in self.into_open.items():
            for batch in batches:
                self.engines[epoch].take_over(batch)
        self._forget_due = True
        self._look_at_early()

    def _adopt(self, layout: Layout) -> dict[int, Checkpoint]:
        """End the engines of epochs that are gone. Returns what the engines of new epochs begin
        with. A restart calls this too, so nothing here may depend on more than the records."""
        before, self.layout = self.layout, layout
        mine = {
            group: seq
            for (origin, incarnation, group), seq in layout.lasts.items()
            if origin == self.name and incarnation == self.incarnation
        }
        parked, unplaced = self.flush.unpark(), list[Batch]()
        self.flush.admitted()
        for epoch in [epoch for epoch in self.engines if epoch not in layout.domains]:
            engine = self.engines.pop(epoch)
            self.window.ended(engine, mine)
            at_home = epoch in before.domains and self.name in before.domains[epoch].sites
            if at_home and self._is_left_behind(before):
                self.flush.tail, self.position = tail_of(engine, epoch), engine.gate.logged
                continue
            if at_home and self.flush.leave(epoch, engine, mine, unplaced):
                continue
            engine.end(mine)
            self.collect(epoch, engine, engine.drain())
            unplaced.extend(engine.unplaced())
            if at_home:
                self.position = engine.gate.logged
                self.flush.closed(epoch, engine)
        unplaced = self.window.without_bygone(self.flush.come_back(unplaced, parked))
        for engine in self.engines.values():
            for peer in [peer for peer in engine.links if peer not in layout.roster]:
                engine.part_from(peer)
        again = self._sort_out(unplaced)
        openings: dict[int, Checkpoint] = {}
        self.into_open = {epoch: again[epoch] for epoch in again if epoch in self.engines}
        for epoch, domain in layout.domains.items():
            if epoch in before.domains and (epoch not in again or epoch in self.engines):
                continue
            at_home = self.name in domain.sites
            if at_home and epoch not in before.domains and not self.flush.stranger():
                self.delivering.append(epoch_opened(self, before, domain))
            if at_home or epoch in again:
                openings[epoch] = self._first_checkpoint(domain, again.get(epoch, ()))
        return openings

    def _is_left_behind(self, before: Layout) -> bool:
        """A site that finds itself retired after a leap over many records does not know whether its
        epoch was closed with it. It delivers no more of its log."""
        leap = self.layout.count - before.count
        return leap > 1 and self.flush.excludes and self.name not in self.layout.roster

    def _sort_out(self, unplaced: Sequence[Batch]) -> dict[int, list[Batch]]:
        """Own batches by the epoch that will take them. Others wait for absent sites (all, if this
        site is absent), or are refused. In causal order nothing overtakes a batch that waits."""
        if self.name in self.layout.absent:
            self.flush.parked += unplaced
            return {}
        again: dict[int, list[Batch]] = {}
        for batch in unplaced:
            try:
                self.flush.require_nothing_waits()
                domain = self.domain(batch.group, batch.members)
                if (asked := batch.requests) is not None:
                    number = asked.numbers[0][0]
                    require_ticket(self.layout, batch.group, asked.client, number)
            except NotInMajority:
                self.flush.parked.append(batch)
                continue
            except Error:
                self.window.refuse(batch)
                continue
            again.setdefault(domain.epoch, []).append(replace(batch, past=()))
        return again

    def _first_checkpoint(self, domain: Domain, unplaced: Sequence[Batch] = ()) -> Checkpoint:
        """The checkpoint that begins an epoch. Own batches without a place are sent again."""
        groups, here = domain.structure.groups, (self.name, self.incarnation)
        position = self.position if domain.has(self.name) else 0
        marked = marks_among(self.layout.lasts)
        lasts = tuple(
            [
                (origin, incarnation, group, seq)
                for (origin, incarnation, group), seq in self.layout.lasts.items()
                if (group in groups or group[:1] == "@") and origin not in marked
            ]
        )
        own = {group: seq for origin, inc, group, seq in lasts if (origin, inc) == here}
        return opening(position, lasts, own, unplaced, opening_marks(self.layout.lasts, groups))

    def _look_at_early(self) -> None:
        early, self._early, self._early_bytes = self._early, [], 0
        for peer, frame in early:
            self.receive(self.now, peer, frame)

    def _close_down(self) -> None:
        """Order the Close where this site is the root of a closing domain."""
        for closing in self.layout.closing.values():
            for epoch in closing.epochs:
                domain = self.layout.domains[epoch]
                engine = self.engines.get(epoch)
                if engine is not None and domain.root == self.name:
                    engine.close(self.now, domain.sites)

    # --- the end of a burst -----------------------------------------------------------------------

    def drain(self) -> MemberBox:
        """All duties since the last drain. Most bursts are the work of one engine: there is more
        only if something stirred the member."""
        stirred = self._stirred
        if stirred:
            self._manage(self.now)
        box: MemberBox | None = None
        for epoch, engine in self.engines.items():
            more: Any = engine.drain() if engine.stirred else nothing(engine.alarm_at)
            # The box of an engine is passed on, with the epoch on everything.
            if more.persist:
                more.persist = in_epoch(epoch, more.persist, engine.in_log)
            if more.send:
                more.send = in_frames(epoch, more.send)
            if late := more.then_send:
                if len(late) == 1:  # the common case
                    ((peer, frame),) = late
                    more.then_send = [(peer, InEpoch(epoch, frame))]
                else:
                    more.then_send = in_frames(epoch, late)
            if more.counted:
                more.counted = [(epoch, peer) for peer in more.counted]
            if more.forget is not None:  # then the whole state is written
                self._made[epoch], more.forget, self._forget_due = more.forget, None, True
            box = more if box is None else joined(box, more)
        if box is None:
            box = nothing(NEVER)
        box.voters_alarm = self._due
        if stirred or self.persisting or self._late or self.delivering or self.receipts:
            self._add_beside(box)
        if self._forget_due:
            box.forget = self._whole()
        if self._fence.waits:
            self._fence.end(box)
        return box

    def _add_beside(self, box: MemberBox) -> None:
        """Add what belongs to no epoch, or to epochs that are gone. It comes first."""
        raft = self.raft
        self.closings.look()
        box.persist = [*self.persisting, *box.persist, *raft.persist]
        box.then_send = [*self._late, *box.then_send, *raft.sends]
        box.deliver = [*self.delivering, *box.deliver]
        box.receipts = [*self.receipts, *box.receipts]
        box.mistakes = tuple({**self._mistakes, **dict(box.mistakes)}.items())
        box.outcomes, self._wishes.outcomes = self._wishes.outcomes, []
        self.persisting, self._late, self.delivering, self.receipts = [], [], [], []
        self._mistakes, raft.persist, raft.sends = {}, [], []

    def stored(self, counted: Sequence[tuple[int, Site]]) -> None:
        """As `Engine.stored`; the epoch may have ended meanwhile."""
        for epoch, peer in counted:
            if (epoch, peer) == MEMBER:
                self._fence.stored()
            elif epoch in self.engines:
                self.engines[epoch].stored((peer,))

    def _manage(self, now: int) -> None:
        """Do what belongs to no epoch: changes, the voters' log, this site's part in both."""
        if self.layout.closing:
            self._close_down()
        self.manager.work(now)
        self._ask_again(now)
        self._complain(now)
        if self.hearing.work(now) and self._excludes:
            self.closings.tell_manager()
        self._due = min(
            self.raft.alarm_at, self.manager.alarm_at, self._wishes.alarm_at, self._lonely_at,
            self.hearing.alarm_at,
        )  # fmt: skip
        self._stirred = bool(self.layout.closing)  # a Close that passes is reported at once

    def _ask_again(self, now: int) -> None:
        """Tell the voters of changes that are wanted here."""
        frames = self._wishes.due(now, self.layout)
        for frame in frames:
            if self.manager.leads:
                self.manager.ask(self.name, frame)
            for voter in self.layout.voters:
                if voter != self.name:
                    self.say(voter, frame)
        if frames:
            self.manager.work(now)

    def _complain(self, now: int) -> None:
        """If nobody feeds this site, tell the voters where it is: the manager may be new."""
        if self.manager.leads:
            self._lonely_at = now + self.raft.times.lonely
        elif now >= self._lonely_at:
            self._lonely_at = now + self.raft.times.lonely
            if self.manager_at is not None:  # perhaps only this direction of the link works
                self.hearing.doubt((self.manager_at,))
            for voter in self.layout.voters:
                if voter != self.name:
                    self.closings.tell(voter, self.layout.closing)

    # --- begun again from its records -------------------------------------------------------------

    def _restore(self, records: Sequence[MemberRecord]) -> list[VoterRecord]:
        """Make the engines. Returns the voter's records. Without records, all begins. A restart
        takes the last `Anew` and the records after it, changes of epochs included."""
        past = _Past(self)
        voter: list[VoterRecord] = []
        for record in records:
            if isinstance(record, Kept):
                past.later.setdefault(record.epoch, []).append(record.passed)
            elif isinstance(record, Noted):
                past.later.setdefault(record.epoch, []).append(record.note)
            elif isinstance(record, Accepted):
                past.accepted(record)
            elif isinstance(record, Filled):
                self.flush.fill(record)
            elif isinstance(record, Confirmed):
                self.flush.confirmed = record
            elif isinstance(record, Folded):
                layout = self.folds.fold(self.layout, Entry(record.term, record.record))
                if isinstance(record.record, (Finish, Open)):
                    past.change(layout)
                else:
                    self.layout = layout
            elif isinstance(record, Caught):
                past.change(self.folds.unpack(record.layout))
            elif isinstance(record, Anew):
                past.begin(record)
                voter = list(record.voter)
            else:
                voter.append(record)
        past.make_engines()
        return voter

    def _whole(self) -> Anew:
        """The whole state as of now. It replaces all records before it."""
        made, self._made, self._forget_due = self._made, {}, False
        raft = self.raft
        log = raft.log
        voter: tuple[VoterRecord, ...] = (
            Ballot(raft.term, raft.vote),
            log.snapshot,
            Appendix(log.snapshot.upto + 1, tuple(log.entries)),
        )
        engines = tuple(
            EngineState(epoch, made.get(epoch) or engine.retention.whole())
            for epoch, engine in self.engines.items()
        )
        home = self.layout.home(self.name)
        position = self.position if home is None else self.engines[home.epoch].retention.position
        layout, aside = self.folds.pack(self.layout), self.flush.aside()
        return Anew(layout, position, self.incarnation, engines, voter, aside)

    # --- for judges and operators -----------------------------------------------------------------

    def observations(self) -> list[Observation]:
        inside = [seen for engine in self.engines.values() for seen in observations(engine)]
        return [("early frames", len(self._early), _MOST_EARLY), *inside]

    def quiet(self, apart_from: Sequence[Site] = ()) -> bool:
        """Whether nothing is left to do here, and no change is wanted that was asked for here."""
        layout, engines = self.layout, self.engines.values()
        if self.name not in layout.roster:
            # Retired: it does not hear what is stable, but all its messages are placed or refused.
            return all(engine.own.all_placed() for engine in engines) and not self.flush.waiting()
        peers = [peer for engine in engines for peer in engine.links]
        gone = [*apart_from, *(peer for peer in peers if peer not in layout.roster)]
        return (
            not (self._wishes.asked or layout.closing)
            and self.flush.quiet()
            and all(engine.quiet(gone) for engine in engines)
        )


class _Past:
    """What a member finds in its store: for each open epoch, the state of its engine and the
    records since."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.states: dict[int, Checkpoint] = {}
        self.later: dict[int, list[Record]] = {}

    def begin(self, anew: Anew) -> None:
        member = self.member
        member.layout = member.folds.unpack(anew.layout)
        member.position, member.incarnation = anew.position, anew.incarnation
        member.flush.restore(anew.aside)
        self.states = {state.epoch: state.checkpoint for state in anew.engines}
        self.later = {}

    def accepted(self, record: Accepted) -> None:
        """A change of the same burst may come before this record, if it left the epoch open."""
        batch = record.batch
        try:
            epoch = self.member.domain(batch.group, batch.members).epoch
        except Error:
            self.member._sort_out([batch])
        else:
            self.later.setdefault(epoch, []).append(record)

    def make_engines(self) -> None:
        member = self.member
        home = member.layout.home(member.name)
        for epoch, domain in member.layout.domains.items():
            if epoch in self.states or epoch in self.later or domain is home:
                if epoch not in self.states:  # positions go on from where it began
                    self.states[epoch] = member._first_checkpoint(domain)
                member.make(domain, self.states[epoch], self.later.get(epoch, []))
        if home is not None:
            member.position = member.engines[home.epoch].gate.logged

    def change(self, layout: Layout) -> None:
        """The change happens again. It has the same effects, since it depends on records only."""
        self.make_engines()
        openings = self.member._adopt(layout)
        self.member.engines.clear()  # they are made again, with later records
        self.states = {e: s for e, s in self.states.items() if e in layout.domains} | openings
        self.later = {e: r for e, r in self.later.items() if e in layout.domains}
        for epoch, batches in self.member.into_open.items():
            self.later.setdefault(epoch, []).extend(Accepted(batch) for batch in batches)
