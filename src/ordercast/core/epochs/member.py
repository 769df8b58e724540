"""A site through all its epochs: what a driver runs ([GS] §5.1; the argument is docs/epochs.md).

It hands each frame to the object of its epoch (`engine`), folds the records that the manager feeds
it (`layout`), and goes from epoch to epoch: the root of a closing domain orders the Close, everyone
reports when that is durable, and when the change is finished old objects are dropped and new ones
made. A voter also has its part of the voters' log (`raft`), and leads changes if it is the manager.
The driver's calls and duties are those of `core.engine` and `core.outbox`.
"""

from collections.abc import Sequence

from ordercast.core.engine import Engine
from ordercast.core.epochs.admission import Admission, RequestName, Reservation
from ordercast.core.epochs.adopting import adopt, first_checkpoint
from ordercast.core.epochs.early import Early
from ordercast.core.epochs.fence import MEMBER, Fence
from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Build, Domain, Layout, widened
from ordercast.core.epochs.manager import Manager
from ordercast.core.epochs.progress import closed, is_quiet, progress, report_closed
from ordercast.core.epochs.raft import Raft, VotingTimes
from ordercast.core.epochs.records import REFUSED as REFUSED
from ordercast.core.epochs.records import (
    Caught,
    EpochOpened,
    Folded,
    MemberBox,
    MemberRecord,
    in_epoch,
)
from ordercast.core.epochs.restoring import restore, whole
from ordercast.core.epochs.returning import Rollback
from ordercast.core.epochs.window import Window
from ordercast.core.epochs.wishes import Wishes
from ordercast.core.observation import Observation
from ordercast.core.outbox import Checkpoint, Outbox, Receipt, Record
from ordercast.model.epochs import (
    AddVoter,
    Begin,
    Edit,
    EpochRecord,
    Finish,
    Founded,
    Included,
    Open,
    Stored,
)
from ordercast.model.errors import FrameError, PeerMistake
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Batch, DeliveredBatch
from ordercast.model.options import MILLISECOND, NEVER, Options
from ordercast.wire.epochs import (
    ChangeRequest,
    Fed,
    Feed,
    FlushFrame,
    InEpoch,
    SiteFrame,
    check_change,
)
from ordercast.wire.voting import Install, Voting

_LONELY = 1_000 * MILLISECOND


class Member:
    """State: layout, engines by epoch, the last position, changes asked for here."""

    def __init__(
        self,
        name: SiteName,
        layout: Layout,
        options: Options,
        build: Build | Folds,
        *,
        boot: int = 1,
        store: int = 1,
        times: VotingTimes | None = None,
        records: Sequence[MemberRecord] = (),
        excluding: bool = True,
    ) -> None:
        self.name = name
        self.layout = layout  # the cluster's first, unless the records know better
        self.options = options
        self.folds = build if isinstance(build, Folds) else Folds(build)
        self.boot = boot
        self.now = 0
        self.incarnation, self.position = 1, 0
        self.engines: dict[int, Engine] = {}
        self.window = Window(self)
        self._fence = Fence()
        self.flush = Flusher(self, store, excludes=excluding and options.on_failure == "exclude")
        self.manager_at: SiteName | None = None  # who fed this site last
        self._early = Early()
        self.into_open: dict[int, list[Batch]] = {}  # own, to epochs that were open already
        self.persisting: list[MemberRecord] = []
        self._late: list[tuple[SiteName, SiteFrame]] = []
        self.delivering: list[DeliveredBatch | EpochOpened | Rollback] = []
        self.receipts: list[Receipt] = []
        self._wishes = Wishes()
        self._lonely_at = 0  # when to tell the voters where this site is, if nobody feeds it
        self._stirred = True  # something beside the epochs' own has happened since `_manage`
        self._due = 0  # when `_manage` is to look again in any case
        self._forget_due = self._held = False
        self._congested: dict[SiteName, bool] = {}
        self._told: dict[str, None] = {}  # changes whose closing was reported
        self._mistakes: dict[SiteName, str] = {}  # of peers, in this burst
        first_voters = layout.voters
        voter = restore(self, records)
        self.flush.restarted()
        self.raft = Raft(name, first_voters, times or VotingTimes(), store, voter)
        self.manager = Manager(self, self.raft)
        self.admission = Admission(self)  # of what was accepted before, the records tell

    # --- starting ---------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        self.now = now
        for engine in self.engines.values():
            engine.start(now)
        self.raft.start(now)
        self._lonely_at = now if self.boot > 1 else now + _LONELY

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
            inside=self.name in domain.sites,
            excludes=self.flush.excludes,
        )
        if self.flush.excludes:  # a new incarnation comes with new epochs
            engine.incarnation_of = self._incarnation_of
        self.window.number_on(engine)
        engine.flow.held = self._held
        for peer, congested in self._congested.items():
            engine.congest(self.now, peer, congested=congested)
        self.engines[domain.epoch] = engine
        return engine

    def _incarnation_of(self, site: SiteName) -> int | None:
        """None: it is retired, or was added later than this site has heard."""
        return self.layout.roster.get(site)

    # --- the application --------------------------------------------------------------------------

    def submit(
        self, now: int, group: Group, payloads: list[bytes], request: RequestName | None = None
    ) -> int:
        """Accept a batch at once; its first seq. Nothing is changed when this raises."""
        self._hear(now, group, ())
        return self.admission.submit(now, group, (), payloads, request)

    def submit_to(
        self, now: int, sites: Sequence[SiteName], payloads: list[bytes],
        request: RequestName | None = None,
    ) -> tuple[Group, int]:  # fmt: skip
        """The same for listed sites: the name of their group, and the first seq."""
        group = implicit_group(members := self.layout.listed(sites))
        self._hear(now, group, members)
        return group, self.admission.submit(now, group, members, payloads, request)

    def _hear(self, now: int, group: Group, members: tuple[SiteName, ...]) -> None:
        """Tell the engine that a batch is for what time it is, also if the batch is refused."""
        self.now = now
        self.require_open()
        engine = self._engine(self.domain(group, members))
        engine.now, engine.stirred = now, True

    def require_open(self) -> None:
        """NotInMajority while this site may accept nothing."""
        self.flush.require_open()

    def accept(self, now: int, batch: Reservation) -> bool:
        """Take a batch that has its room and its seqs. False: this site places it, and has no room
        for that now."""
        self.now = now
        group, members = batch.group, batch.members
        engine = self._engine(self.domain(group, members))
        if not engine.may_accept(group, members):
            return False
        requests = batch.requests()
        engine.accept(now, group, members, batch.seq, len(batch.payloads), batch.body(), requests)
        if requests is not None:
            self._fence.accepted()
        return True

    def domain(self, group: Group, members: Sequence[SiteName]) -> Domain:
        return self.layout.taking(self.name, group, members)

    def _engine(self, domain: Domain) -> Engine:
        engine = self.engines.get(domain.epoch)
        if engine is None:  # an origin outside the domain
            engine = self.make(domain, first_checkpoint(self, domain))
            engine.start(self.now)
        return engine

    @property
    def logged(self) -> int:
        """The last position of this site's ordered log."""
        home = self.layout.home(self.name)
        return self.position if home is None else self.engines[home.epoch].gate.logged

    @property
    def delivered(self) -> int:
        """The last position that was given to the application, or need not be any more."""
        home = self.layout.home(self.name)
        return self.flush.delivered if home is None else self.engines[home.epoch].position

    def ask(self, now: int, change: str, edits: tuple[Edit, ...]) -> None:
        """Want a change; its outcome comes in an outbox; after a restart ask again."""
        self.now = now
        self._stirred = True
        check_change(change, edits)
        self._wishes.want(now, change, edits, self.layout)

    # --- frames -----------------------------------------------------------------------------------

    def receive(self, now: int, peer: SiteName, frame: SiteFrame) -> None:
        """Take a frame. What it gets wrong is in the outbox's `mistakes`, and changes nothing."""
        self.now = now
        if isinstance(frame, InEpoch):
            self._in_epoch(now, peer, frame)
            return
        self._stirred = True
        try:
            self._receive(now, peer, frame)
        except (PeerMistake, FrameError) as mistake:
            self._mistakes.setdefault(peer, str(mistake))

    def _receive(
        self, now: int, peer: SiteName, frame: Feed | Fed | ChangeRequest | FlushFrame | Voting
    ) -> None:
        if isinstance(frame, Feed):
            if self.believes(peer) or self.name not in self.layout.roster:
                self._take_feed(peer, frame)
        elif isinstance(frame, Fed):
            self.manager.fed(peer, frame)
        elif isinstance(frame, ChangeRequest):
            self.manager.ask(frame)
        elif isinstance(frame, FlushFrame):
            self.flush.receive(peer, frame)
        elif self._may_vote(peer):
            if isinstance(frame, Install) and frame.upto > self.raft.committed:
                self._unpacked(frame.snapshot, frame.upto)
            self.raft.receive(now, peer, frame)

    def believes(self, peer: SiteName) -> bool:
        """Whether the peer may say what is committed: it is a voter, as far as is known here."""
        return peer in self.layout.voters

    def _may_vote(self, peer: SiteName) -> bool:
        """A voter, or one that is becoming one, as far as is known here; or who has this site's
        vote. Others have no part in the voters' log."""
        raft = self.raft
        if peer in self.layout.voters or peer in raft.log.voters or peer == raft.vote:
            return True
        begun = [entry.record for entry in raft.log.entries if isinstance(entry.record, Begin)]
        asked = [closing.edits for closing in self.layout.closing.values()]
        return any(AddVoter(peer) in edits for edits in (*asked, *(one.edits for one in begun)))

    def _unpacked(self, folded: bytes, count: int) -> Layout:
        """A layout that a peer has sent, of this cluster and of so many records."""
        layout = self.folds.unpack(folded)
        if layout.count != count:
            raise PeerMistake(f"a layout of {layout.count} records, not {count}")
        if self.layout.founding and layout.founding != self.layout.founding:
            raise PeerMistake("a layout of another cluster")
        return layout

    def _in_epoch(self, now: int, peer: SiteName, frame: InEpoch) -> None:
        engine = self.engines.get(frame.epoch)
        if engine is not None and self.flush.takes_part():
            engine.receive(now, peer, frame.frame)
        elif engine is not None or frame.epoch > self.layout.last_epoch:
            self._early.hold(peer, frame)

    def connected(self, now: int, peer: SiteName) -> None:
        self.now = now
        for engine in self.engines.values():
            engine.connected(now, peer)

    def congest(self, now: int, peer: SiteName, *, congested: bool) -> None:
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
        self.tend(now)

    def tend(self, now: int) -> None:
        """The part of `alarm` that is not of one epoch: changes, and the voters' log."""
        self.now = now
        self.raft.alarm(now)
        self._stirred = self._stirred or now >= self._due

    def say(self, peer: SiteName, frame: SiteFrame) -> None:
        self._late.append((peer, frame))

    # --- records ----------------------------------------------------------------------------------

    def _take_feed(self, peer: SiteName, frame: Feed) -> None:
        ahead = frame.count > self.layout.count
        caught = self._unpacked(frame.folded, frame.count) if frame.folded and ahead else None
        self.manager_at = peer
        self._lonely_at = self.now + _LONELY
        if caught is not None:
            self._catch_up(frame.folded, caught)
        elif not frame.folded and not ahead:
            for record in frame.records[self.layout.count - frame.count :]:
                self._fold(record)
        self.say(peer, progress(self))
        if any(wanted.startswith("log ") for wanted in frame.wanted):
            self.flush.tell_log()

    def fold_committed(self, raft: Raft) -> None:
        """The manager folds what it has committed itself."""
        snapshot = raft.log.snapshot
        if snapshot.upto > self.layout.count:
            self._catch_up(snapshot.data, self._unpacked(snapshot.data, snapshot.upto))
        while self.layout.count < raft.committed:
            self._fold(raft.log.entry(self.layout.count + 1).record)

    def _catch_up(self, folded: bytes, layout: Layout) -> None:
        self._end_engines(layout)
        self.persisting.append(Caught(folded))
        self._change(layout)
        self.flush.tell_log()
        self._wishes.answer(self.layout)

    def _fold(self, record: EpochRecord) -> None:
        layout = self.folds.fold(self.layout, record)
        self._end_engines(layout)
        self.persisting.append(Folded(record))
        if isinstance(record, (Finish, Open)):
            self._change(layout)
        else:
            self.layout = layout
        self.flush.folded(record)
        if isinstance(record, (Founded, Stored)):
            self._look_at_early()
        self._wishes.answer(self.layout)

    def _end_engines(self, layout: Layout) -> None:
        """What this burst has asked of epochs that are gone is in the records before the change."""
        flushed = () if layout.flushing is None else layout.flushing.epochs
        for epoch, engine in self.engines.items():
            if epoch not in layout.domains or epoch in flushed:
                self.collect(epoch, engine, engine.drain())
                engine.freeze()

    def collect(self, epoch: int, engine: Engine, box: Outbox) -> None:
        self.persisting += [in_epoch(epoch, record, engine.is_mine) for record in box.persist]
        self.delivering += box.deliver
        self.receipts += box.receipts

    def closed(self, change: str) -> Included | None:
        return closed(self, change)

    # --- from epoch to epoch ----------------------------------------------------------------------

    def _change(self, layout: Layout) -> None:
        for epoch, checkpoint in adopt(self, layout).items():
            self.flush.entering(layout.domains[epoch])
            self.make(layout.domains[epoch], checkpoint).start(self.now)
        for epoch, batches in self.into_open.items():
            for batch in batches:
                self.engines[epoch].take_over(batch)
        self._forget_due = True
        self._look_at_early()

    def _look_at_early(self) -> None:
        for peer, frame in self._early.take():
            self._in_epoch(self.now, peer, frame)

    def _close_down(self) -> None:
        """Where this site is the root of a closing domain: order the Close."""
        for closing in self.layout.closing.values():
            for epoch in closing.epochs:
                domain = self.layout.domains[epoch]
                engine = self.engines.get(epoch)
                if engine is not None and domain.root == self.name:
                    engine.close(self.now, domain.sites)

    # --- the end of a burst -----------------------------------------------------------------------

    def drain(self) -> MemberBox:
        """What a burst without news of epochs adds to its engines' work is kept small."""
        raft, now, closing = self.raft, self.now, self.layout.closing
        if self._stirred or closing or now >= self._due or raft.sends or raft.persist:
            self._manage(now)
        alarm, late = NEVER, self._late
        made: dict[int, Checkpoint] = {}
        mistakes, self._mistakes = self._mistakes, {}
        send: list[tuple[SiteName, SiteFrame]] = []
        counted: list[tuple[int, SiteName]] = []
        for epoch, engine in self.engines.items():
            if not engine.stirred:
                alarm = min(alarm, engine.alarm_at)
                continue
            box = engine.drain()
            if box.persist or box.deliver or box.receipts:
                self.collect(epoch, engine, box)
            if box.send:
                send += [(peer, InEpoch(epoch, frame)) for peer, frame in box.send]
            if box.then_send:
                late += [(peer, InEpoch(epoch, frame)) for peer, frame in box.then_send]
            if box.counted:
                counted += [(epoch, peer) for peer in box.counted]
            if box.forget is not None:
                made[epoch] = box.forget
            if box.mistakes:
                mistakes |= dict(box.mistakes)
            if box.alarm is not None and box.alarm < alarm:
                alarm = box.alarm
        if self.layout.closing or self._told:
            self._told = report_closed(self, self._told, late)
        if raft.persist or raft.sends:
            self.persisting += raft.persist
            late += raft.sends
            raft.persist, raft.sends = [], []
        persist, deliver, receipts = self.persisting, self.delivering, self.receipts
        self.persisting, self.delivering, self.receipts, self._late = [], [], [], []
        forget = whole(self, made) if made or self._forget_due else None
        outcomes, self._wishes.outcomes, self._forget_due = self._wishes.outcomes, [], False
        send, late = self._fence.end(send, late, counted)
        return MemberBox(
            persist, send, late, deliver, receipts, outcomes, forget, alarm, self._due, counted,
            tuple(mistakes.items()),
        )  # fmt: skip

    def stored(self, counted: Sequence[tuple[int, SiteName]]) -> None:
        """As of a Site; the epoch may have ended meanwhile."""
        for epoch, peer in counted:
            if (epoch, peer) == MEMBER:
                self._fence.stored()
            elif epoch in self.engines:
                self.engines[epoch].stored((peer,))

    def _manage(self, now: int) -> None:
        """What is not of one epoch: changes, the voters' log, this site's place in both."""
        self._stirred = False
        if self.layout.closing:
            self._close_down()
        self.manager.work(now)
        self._wishes.work(now, self)
        self._complain(now)
        self._due = min(
            self.raft.alarm_at, self.manager.alarm_at, self._wishes.alarm_at, self._lonely_at
        )

    def _complain(self, now: int) -> None:
        """Nobody feeds this site: the manager is new, or does not know that it is behind."""
        if self.manager.leads:
            self._lonely_at = now + _LONELY
        elif now >= self._lonely_at:
            self._lonely_at = now + _LONELY
            for voter in self.layout.voters:
                if voter != self.name:
                    self.say(voter, progress(self))

    # --- for judges and operators -----------------------------------------------------------------

    def observations(self) -> list[Observation]:
        inside = [seen for engine in self.engines.values() for seen in engine.observations()]
        return [self._early.observation(), *inside]

    def quiet(self, apart_from: Sequence[SiteName] = ()) -> bool:
        return is_quiet(self, apart_from, busy=bool(self._wishes.asked))
