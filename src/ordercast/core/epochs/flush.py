"""A member's part of a flush and of a return ([GS] §5.2.1; the argument is in docs/epochs.md).

A site that has folded `Flush` is sealed: it does nothing more in the epochs that the flush closes.
It reports how far its log reaches, is told which messages it must have, fetches those that it
lacks, and confirms when they are durable. It delivers and logs no fetched message before `Open`.

The state of a member beside its engines is here: the log of an epoch that was closed without it,
fetched messages, messages that absent members will ask for, and own messages that wait.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ordercast.core.claims import check_whole
from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Domain, Flushing, Layout
from ordercast.core.epochs.log_tail import Tail, agree, last_number, tail_of
from ordercast.core.epochs.missed_messages import Missed, Shelf, packed
from ordercast.core.epochs.records import Aside, Confirmed, Filled, MemberRecord, Shown, unasked
from ordercast.core.epochs.slowness import Slowness
from ordercast.core.epochs.streams.parts import ReportParts, joined_needs, log_in_parts
from ordercast.core.epochs.window import Window, not_in_the_past
from ordercast.core.outbox import EngineBox, StageReached
from ordercast.model.epochs import Counts, EpochRecord, Flush, Lapse
from ordercast.model.errors import NotInMajority, PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group, is_implicit
from ordercast.model.messages import Batch, Placed
from ordercast.model.options import Options
from ordercast.wire.epochs import (
    Fetch,
    FlushFrame,
    LogReport,
    Need,
    Pages,
    PastNeeded,
    SiteFrame,
    Whole,
)

_PAGE_BYTES = 262_144
_PAGE_BATCHES = 256


class _Member(Protocol):
    """The member that takes part."""

    name: Site
    boot: int
    now: int
    incarnation: int
    position: int
    options: Options
    layout: Layout
    engines: dict[int, Engine]
    manager_at: Site | None
    persisting: list[MemberRecord]
    delivering: list[Shown]
    receipts: list[StageReached]

    @property
    def window(self) -> Window: ...
    @property
    def manager(self) -> "_Manager": ...
    def believes(self, peer: Site) -> bool: ...
    def say(self, peer: Site, frame: SiteFrame) -> None: ...
    def collect(self, epoch: int, engine: Engine, box: EngineBox) -> None: ...


class _Manager(Protocol):
    """The manager's part, if this site is the manager."""

    @property
    def leads(self) -> bool: ...
    def reported(self, peer: Site, frame: LogReport | Whole) -> None: ...


class Flusher:
    def __init__(self, member: _Member, store: int, *, excludes: bool) -> None:
        self._member = member
        self.store, self.excludes, self.attempt = store, excludes, 1
        self.tail: Tail | None = None  # the log of the epoch that was closed without this site
        self.left_behind: int | None = None  # that epoch, if the site is retired
        self.fetched: Shelf = {}
        self._fetched_to: dict[tuple[int, Group], int] = {}  # the last number fetched
        self.missed = Missed(member)
        self.slowness = Slowness(member, excludes=excludes)
        self.parked: list[Batch] = []  # own batches that wait for absent sites
        self.confirmed: Confirmed | None = None
        self._past: PastNeeded | None = None  # as the manager last told it
        self._lacking: dict[tuple[int, Group], Need] | None = None  # of it; None: not looked yet
        self._past_parts = ReportParts[PastNeeded]()
        # Epochs that were open before this start: the site does not go on there.
        self._renewing: dict[int, None] = {}
        self.got = 0  # how many batches were fetched since the start
        self._replaying = True
        self._consented = member.boot == 1  # True also after it has confirmed a flush

    # --- taking part, or not ----------------------------------------------------------------------

    def takes_part(self) -> bool:
        """Whether this store is the one that the voters know."""
        member = self._member
        return not self.excludes or member.layout.stores.get(member.name) == self.store

    def stranger(self) -> bool:
        """Whether the voters know this site with another store. Then this site has lost what that
        store had."""
        stores = self._member.layout.stores
        return self.excludes and stores.get(self._member.name, self.store) != self.store

    def _is_meant(self, flush: Flushing) -> bool:
        """Whether the flush counts on this store. Ignore a flush that counts on a store which is
        lost."""
        return not self.stranger() or flush.fresh.get(self._member.name, (0, 0))[1] == self.store

    def stopped(self) -> bool:
        """Whether this site has restarted in its epoch. It does not go on there: it may have
        relayed messages that it has not stored."""
        if not self._renewing:
            return False
        home = self._member.layout.home(self._member.name)
        return home is not None and home.epoch in self._renewing

    def require_open(self) -> None:
        member = self._member
        if not self.takes_part():
            raise NotInMajority(f"{member.name} is not admitted with this store yet")
        if member.name in member.layout.absent:
            raise NotInMajority(f"{member.name} is absent from its groups, and will return")
        if self._renewing and self.stopped():
            # Messages that it relayed and did not store may be in others' logs, under the seqs that
            # it would give now: the next epoch tells the last seq.
            raise NotInMajority(f"{member.name} has restarted, and waits for the next epoch")
        if member.options.causal:
            self.require_nothing_waits()

    def require_nothing_waits(self) -> None:
        """In causal order nothing overtakes a message that waits for absent sites or for the return
        of this site: raise NotInMajority if there is one."""
        if self._member.options.causal and (self.parked or self.tail is not None):
            first = self.parked[0] if self.parked else None
            to = (self._member.name,) if first is None else first.members or (first.group,)
            raise NotInMajority(f"in causal order: behind what waits for {', '.join(to)}, absent")

    def restarted(self) -> None:
        """All records are replayed: the epoch that was open before this start is known."""
        self._replaying = False
        self.missed.prune()
        if self.excludes and self._member.boot > 1:
            home = self._member.layout.home(self._member.name)
            if home is not None:
                self._renewing[home.epoch] = None

    def entering(self, domain: Domain) -> None:
        """An epoch opens here. Before this start the site may have opened it too, and relayed
        messages that it did not store; but not if it has confirmed a flush since."""
        if self.excludes and not self._consented and self._member.name in domain.sites:
            self._renewing[domain.epoch] = None

    def is_sealed(self, epoch: int) -> bool:
        member = self._member
        flush = member.layout.flushing
        if epoch in self._renewing or (flush is not None and epoch in flush.epochs):
            return True
        restarting = self._replaying and self.excludes and member.boot > 1
        domain = member.layout.domains.get(epoch)
        return restarting and domain is not None and member.name in domain.sites

    @property
    def delivered(self) -> int:
        """The last position delivered, of a site in no epoch. Its tail may have more in the log."""
        return self._member.position if self.tail is None else self.tail.delivered

    def quiet(self) -> bool:
        member = self._member
        if member.name not in member.layout.roster:
            return True
        return (
            member.layout.flushing is None
            and not self.stopped()
            and self.takes_part()
            and member.name not in member.layout.absent
        )

    # --- what is reported -------------------------------------------------------------------------

    def report(self) -> LogReport | None:
        member = self._member
        flush = member.layout.flushing
        if flush is None or member.name not in flush.members or not self._is_meant(flush):
            return None
        counts: list[tuple[int, Group, int, tuple[Site, ...]]] = []
        lasts: list[tuple[Site, int, Group, int]] = []
        for epoch in flush.epochs:
            if member.name in member.layout.domains[epoch].sites:
                engine = member.engines[epoch]
                counts += [(epoch, g, n, sites) for g, (n, sites) in engine.counts().items()]
                lasts += engine.log_seqs()
        holds = self.missed.places()
        if self.tail is not None:
            tail = self.tail
            # This site may lack some messages of that epoch.
            holds = tuple(place for place in holds if place[0] != tail.epoch)
            counts += [(tail.epoch, g, n, sites) for g, (n, sites) in tail.counts.items()]
            lasts += tail.lasts
        return LogReport(flush.number, tuple(counts), tuple(lasts), holds)

    def news(self) -> tuple[int, bool, int, Counts, tuple[Site, ...], tuple[Site, ...], int]:
        """What the manager is told at every beat (`wire.epochs.Fed`)."""
        return (
            self.store, self.stopped(), self.got, self.closing_counts(), self.slowness.named(),
            self.slowness.awaited(), self.missed.size,
        )  # fmt: skip

    def folded(self, record: EpochRecord) -> None:
        """A record that ends no epoch was folded."""
        if isinstance(record, Flush):
            self.tell_log()
        elif isinstance(record, Lapse):
            self.missed.prune()

    def tell_log(self) -> None:
        report = self.report()
        if report is not None:
            for part in log_in_parts(report):
                self._tell(part)

    def _tell(self, frame: FlushFrame) -> None:
        """Tell the manager. A manager at this site looks here itself."""
        member = self._member
        if member.manager_at is not None and not member.manager.leads:
            member.say(member.manager_at, frame)

    def closing_counts(self) -> Counts:
        """How far this site's log reaches in epochs whose Close it has passed, for groups that
        have absent members."""
        member, layout = self._member, self._member.layout
        if not layout.absent:
            return ()
        return tuple(
            (epoch, group, number, sites)
            for closing in layout.closing.values()
            for epoch in closing.epochs
            if epoch in member.engines and member.engines[epoch].epoch_state.closed
            for group, (number, sites) in member.engines[epoch].counts().items()
            if any(site in layout.absent for site in layout.groups.get(group, ()))
        )

    # --- fetching ---------------------------------------------------------------------------------

    def receive(self, peer: Site, frame: FlushFrame) -> None:
        if isinstance(frame, (LogReport, Whole)):
            self._member.manager.reported(peer, frame)
        elif isinstance(frame, Fetch):
            self._give(peer, frame)
        elif isinstance(frame, Pages):
            self._take(peer, frame)
        elif peer == self._member.name or self._member.believes(peer):
            flush = self._member.layout.flushing
            if flush is not None and flush.number == frame.flush and self._is_meant(flush):
                parts = self._past_parts.take(frame, frame.flush)
                if parts is not None:
                    self._past = joined_needs(parts)
                    self.advance()

    def advance(self, only: tuple[int, Group] | None = None) -> None:
        """Fetch missing messages (`only`: of one epoch and group). Confirm when all are here."""
        past, member = self._past, self._member
        if past is None:
            return
        if only is None:
            self._lacking = None
        lacking = self._look(past)
        if only in lacking and self._has(lacking[only]):
            del lacking[only]
        asked = lacking.values() if only is None else [lacking[only]] if only in lacking else []
        for epoch, group, _, _, holder in asked:
            if holder and holder != member.name:
                member.say(holder, Fetch(epoch, group, self._having(epoch, group)))
        if not any(need[4] for need in lacking.values()):
            self._confirm(past)

    def _look(self, past: PastNeeded) -> dict[tuple[int, Group], Need]:
        """What this site still lacks of the past. It is kept: there may be very many groups, and a
        page comes for each of them."""
        if self._lacking is None:
            self._lacking = {need[:2]: need for need in past.needs if not self._has(need)}
        return self._lacking

    def _has(self, need: Need) -> bool:
        return self._having(need[0], need[1]) >= need[2]

    def _confirm(self, past: PastNeeded) -> None:
        member = self._member
        if self.confirmed is None or self.confirmed.flush != past.flush:
            flush = member.layout.flushing
            assert flush is not None
            counts = tuple((e, g, n, m) for e, g, n, m, _ in past.needs)
            lapsed = member.name in member.layout.lapsed
            self.confirmed = Confirmed(past.flush, flush.epochs, counts, lapsed)
            self._consented = True
            member.persisting.append(self.confirmed)
        self._tell(Whole(past.flush))

    def is_whole(self, flush: int) -> bool:
        return self.confirmed is not None and self.confirmed.flush == flush

    def _having(self, epoch: int, group: Group) -> int:
        """The number up to which this site has the group's messages of the epoch."""
        member = self._member
        having = 0
        if self.tail is not None and self.tail.epoch == epoch:
            having = self.tail.counts.get(group, (0, ()))[0]
        elif epoch in member.engines:
            having = member.engines[epoch].counts().get(group, (0, ()))[0]
        return max(having, self._fetched_to.get((epoch, group), 0))

    def _give(self, peer: Site, frame: Fetch) -> None:
        found = self._shelved(frame.epoch, frame.group)
        batches: list[Placed] = []
        size = 0
        for number in sorted(number for number in found if number > frame.after):
            if batches and (size > _PAGE_BYTES or len(batches) >= _PAGE_BATCHES):
                break
            batches.append(found[number])
            size += len(found[number].batch.body) + 256
        if batches:
            pages = Pages(frame.epoch, frame.group, frame.after, tuple(batches))
            self._member.say(peer, pages)

    def _shelved(self, epoch: int, group: Group) -> dict[int, Placed]:
        found = dict(self.missed.of(epoch, group))
        if self.tail is not None and self.tail.epoch == epoch:
            log: Iterable[Placed] = self.tail.log
        elif epoch in self._member.engines and self.is_sealed(epoch):
            log = self._member.engines[epoch].log()
        else:
            log = ()
        found.update({one.number: one for one in log if one.batch.group == group})
        return found

    def _take(self, peer: Site, frame: Pages) -> None:
        flush = self._member.layout.flushing
        upto = self._asked_of(peer, frame.epoch, frame.group)
        if flush is None or self._member.name not in flush.members or not upto:
            return
        for placed in frame.batches:
            self._check_page(frame.group, placed)
        before = having = self._having(frame.epoch, frame.group)
        for placed in frame.batches:
            if placed.number == having + 1 and last_number(placed) <= upto:
                filled = Filled(frame.epoch, placed)
                self.fill(filled)
                self._member.persisting.append(filled)
                having = last_number(placed)
                self.got += 1
        if having > before:  # otherwise it asks again when the manager tells it again
            self.advance((frame.epoch, frame.group))

    def _asked_of(self, peer: Site, epoch: int, group: Group) -> int:
        """The last number of the group that the peer is asked for, as the manager told; 0: the peer
        is not asked, or has given it."""
        need = self._look(self._past).get((epoch, group)) if self._past is not None else None
        return need[2] if need is not None and need[4] == peer else 0

    def _check_page(self, group: Group, placed: Placed) -> None:
        batch = placed.batch
        listed = implicit_group(batch.members) if batch.members else batch.group
        if not batch.group == group == listed or is_implicit(group) != bool(batch.members):
            raise PeerMistake(f"a batch to {batch.group!r} in a page of {group!r}")
        check_whole(batch)

    def fill(self, filled: Filled) -> None:
        epoch, placed = filled.epoch, filled.placed
        group = placed.batch.group
        self.fetched.setdefault(epoch, {}).setdefault(group, {})[placed.number] = placed
        last = max(last_number(placed), self._fetched_to.get((epoch, group), 0))
        self._fetched_to[epoch, group] = last

    # --- opening ----------------------------------------------------------------------------------

    def admitted(self) -> None:
        """If the voters have let this site in as a new incarnation, it begins without a past."""
        member = self._member
        incarnation = member.layout.roster.get(member.name, member.incarnation)
        if self.excludes and incarnation != member.incarnation and self.takes_part():
            member.incarnation = incarnation
            self.tail, self.confirmed, member.window.given = None, None, {}
            self.fetched, self._fetched_to, self._lacking = {}, {}, None

    def leave(
        self, epoch: int, engine: Engine, mine: Mapping[Group, int], unplaced: list[Batch]
    ) -> bool:
        """This site's epoch is gone. False: it was closed in the planned way. If it was closed
        without this site, its log is kept for the return; otherwise the past is delivered."""
        member = self._member
        if self.stranger():
            return True
        if member.layout.absent.get(member.name) == epoch:
            self.tail = tail_of(engine, epoch)
            member.position = engine.gate.logged
            return True
        if self.confirmed is None or epoch not in self.confirmed.epochs:
            return False
        for group, seq in mine.items():
            engine.own.included(group, seq)
        member.collect(epoch, engine, engine.drain())
        self._agree(tail_of(engine, epoch))
        unplaced.extend(engine.unplaced())
        return True

    def closed(self, epoch: int, engine: Engine) -> None:
        """An epoch of this site ended in the planned way."""
        if self._member.layout.absent:
            groups = engine.structure.groups_at(self._member.name)
            log = [(epoch, placed) for placed in engine.log()]
            self.missed.keep([(epoch, group) for group in groups], log)

    def come_back(self, unplaced: list[Batch], parked: Sequence[Batch]) -> list[Batch]:
        """All old engines are gone. If an epoch was opened for this site again, deliver what it
        missed. Returns the own batches that must be placed now, in the order of accepting."""
        member, tail = self._member, self.tail
        if member.name in member.layout.roster:
            self.left_behind = None
        away_since = member.layout.absent.get(member.name)
        if self.stranger():
            self.tail = None
            return [*unplaced, *parked]
        if tail is not None and member.name not in member.layout.roster:
            self.tail, self.left_behind = None, tail.epoch  # retired while it was absent
            unplaced += not_in_the_past(member, tail.kept)
        elif tail is not None and away_since != tail.epoch:
            self.tail = None
            self._agree(tail)
            unplaced += not_in_the_past(member, tail.kept)
        unplaced += parked
        if away_since and self.tail is None:
            # The epoch opened for this site, and was closed without it, before it heard of either.
            position = member.position
            marks = member.layout.opening_marks.get(away_since, ())
            self.tail = Tail(away_since, position, position, (), {}, (), tuple(unplaced), marks)
            unplaced = []
        self.missed.prune()
        return unplaced

    def unpark(self) -> list[Batch]:
        """The batches that waited for absent sites, without batches that the past has by now."""
        waited, self.parked = self.parked, []
        return not_in_the_past(self._member, waited)

    def _agree(self, tail: Tail) -> None:
        member, confirmed = self._member, self.confirmed or unasked(tail)
        counts = {(epoch, group): number for epoch, group, number, _ in confirmed.counts}
        fetched = {
            epoch: [placed for batches in groups.values() for placed in batches.values()]
            for epoch, groups in self.fetched.items()
        }
        agreed = agree(tail, counts, fetched, self.attempt)
        member.position, self.attempt = agreed.position, agreed.attempt
        member.delivering.extend(agreed.items)
        if confirmed.lapsed:
            self.missed.drop(tail.epoch)
        else:
            self.missed.keep_past(tail, counts, agreed.log)
        self.confirmed, self._past = None, None
        self.fetched, self._fetched_to, self._lacking = {}, {}, None

    # --- what must be durable ---------------------------------------------------------------------

    def waiting(self) -> list[Batch]:
        """Own batches that are in no epoch now."""
        if self.tail is None:
            return self.parked
        return [*self.parked, *self.tail.kept]

    def aside(self) -> Aside:
        return Aside(
            self.attempt, self.tail, packed(self.fetched), packed(self.missed.shelf),
            self.missed.places(),
            tuple(self.parked), self.confirmed, dict(self._member.window.given),
        )  # fmt: skip

    def restore(self, aside: Aside) -> None:
        self.attempt, self.tail = aside.attempt, aside.tail
        self.parked, self.confirmed = list(aside.parked), aside.confirmed
        self._member.window.given = dict(aside.given)
        self.fetched, self._fetched_to, self._lacking = {}, {}, None
        for filled in aside.fetched:
            self.fill(filled)
        self.missed.restore(aside.holds, aside.history)
