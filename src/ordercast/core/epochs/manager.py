"""The manager ([GS] §5.1): the leader of the voters' log carries changes through.

It proposes what is asked for, tells every site what is committed (`Feed`), gathers their reports
(`Fed`), and proposes the end of a change when all have closed. Everything it knows beyond the log
is asked for again by the next manager.
"""

from itertools import chain
from typing import Protocol

from msgspec.structs import replace

from ordercast.core.detector import Detector, DetectorTimes
from ordercast.core.epochs.chain import UNKNOWN
from ordercast.core.epochs.changes import Busy, plan_change
from ordercast.core.epochs.exclusions import Exclusions
from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.grant_edits import why_not_granted
from ordercast.core.epochs.layout import Closing, Layout
from ordercast.core.epochs.raft import LEADER, Raft
from ordercast.core.epochs.silence.judgement import SilenceJudgement
from ordercast.core.epochs.streams.closings import ClosingReports
from ordercast.core.epochs.streams.parts import ReportParts, end_in_parts
from ordercast.model.epochs import (
    AddVoter,
    Admit,
    Adopt,
    Begin,
    Counts,
    Edit,
    EndPart,
    Finish,
    Included,
    RemoveVoter,
    UseGrants,
    Voters,
)
from ordercast.model.errors import ConfigError
from ordercast.model.features import GRANTS, lacking
from ordercast.model.fields import plain_text
from ordercast.model.grants import SITE, ClientSubject, subject_named
from ordercast.model.groups import Group, Pair, Site
from ordercast.model.limits import RECORDS
from ordercast.model.options import NEVER, Options
from ordercast.wire.epochs import (
    ChangeRequest,
    ClientChange,
    ClosedPart,
    Fed,
    Feed,
    LogReport,
    SiteFrame,
    Whole,
)
from ordercast.wire.voting import fitting

_RECORDS = 64  # at most, in one frame
_EARLY = 3  # the part of `suspect` after which voters are asked whether they hear a site
_LOG = 128  # entries kept before they are folded
_REPORTS = 8  # changes whose reports are kept when they are over


class _Member(Protocol):
    """The member that leads."""

    name: Site
    now: int
    options: Options
    layout: Layout
    detoured: tuple[Site, ...]
    features: tuple[str, ...]
    folds: Folds

    @property
    def flush(self) -> Flusher: ...
    @property
    def closings(self) -> ClosingReports: ...
    def fold_committed(self, raft: Raft) -> None: ...
    def say(self, peer: Site, frame: SiteFrame) -> None: ...


class Manager:
    def __init__(self, member: _Member, raft: Raft) -> None:
        self._member = member
        self._raft = raft
        self._term = 0  # the term in which the state below was learnt
        self._fed: dict[Site, int] = {}
        self._features: dict[Site, tuple[str, ...]] = {}  # that sites have and nobody uses yet
        self._reports: dict[int, dict[Site, Included]] = {}  # by the number of the change
        self._wanted: dict[str, tuple[tuple[Edit, ...], ClientSubject]] = {}
        self._proposed: dict[int, int] = {}  # parts of the end of a change, by its number
        self._ends: dict[int, list[EndPart]] = {}
        self._parts: dict[tuple[int, Site], ReportParts[ClosedPart]] = {}
        self._counts: dict[tuple[int, Group], tuple[int, tuple[Site, ...]]] = {}
        self.log_entries = _LOG
        self._told = 0  # how many records every site was fed, at least once
        self._helped: dict[Site, int] = {}  # when each site was fed, while another one led
        self._detector = Detector(0)
        self._silences = SilenceJudgement(member, raft)
        self.excluding = Exclusions(member, raft, self._silences)
        self.alarm_at = NEVER
        self.led_at = 0  # when it last worked as the manager

    @property
    def leads(self) -> bool:
        return self._raft.role == LEADER

    def ask(self, peer: Site, frame: ChangeRequest | ClientChange) -> None:
        """Take a request of a site, or of a client whose subject the site's daemon names."""
        layout = self._member.layout
        subject = ClientSubject(SITE, peer)
        if isinstance(frame, ClientChange):
            subject = subject_named(frame.subject)
        # If there is no room, sites ask again.
        room = len(self._wanted) < RECORDS or frame.change in self._wanted
        if self.leads and room and frame.change not in layout.outcomes:
            self._wanted[frame.change] = frame.edits, subject

    def fed(self, peer: Site, frame: Fed) -> None:
        layout = self._member.layout
        if (peer, frame.store) in layout.lost:
            whole = self._member.folds.pack(layout)
            self._member.say(peer, Feed(layout.count, (), layout.count, (), whole))
            return
        if not self.leads:
            now, beat = self._member.now, self._raft.times.beat
            if frame.count < layout.count and now >= self._helped.get(peer, now - beat) + beat:
                # The peer may not know the present voters, and believes only voters that it knows.
                # It answers each time, perhaps without having taken anything: not at once again.
                self._fed[peer], self._helped[peer] = frame.count, now
                self._feed(peer)
            return
        before = self._fed.get(peer)
        self._fed[peer] = frame.count
        self._features.pop(peer, None)
        if frame.features:
            self._features[peer] = frame.features
        self.excluding.fed(peer, frame)
        self._silences.fed(peer, frame.silent, frame.detoured)
        for epoch, group, number, members in frame.counts:
            if epoch in layout.domains and peer in layout.domains[epoch].sites:
                self._counts[epoch, group] = (number, members)
        self._detector.heard(self._member.now, peer)
        for change, included in frame.closed:
            closing = layout.closing.get(change)
            if closing is not None and frame.count >= closing.number:
                self._report(peer, closing, included)
        if frame.count < self._raft.committed and frame.count != before:
            # A voter takes them when its log has them: then the beat feeds it again.
            self._feed(peer)

    def closed_part(self, peer: Site, frame: ClosedPart) -> None:
        for closing in self._member.layout.closing.values():
            if self.leads and closing.number == frame.begun and self._concerns(peer, closing):
                gathered = self._parts.setdefault((frame.begun, peer), ReportParts())
                parts = gathered.take(frame, frame.begun)
                if parts is not None:
                    self._report(peer, closing, tuple(chain(*(part.included for part in parts))))

    def _concerns(self, peer: Site, closing: Closing) -> bool:
        domains = self._member.layout.domains
        return any(peer in domains[epoch].sites for epoch in closing.epochs)

    def _report(self, peer: Site, closing: Closing, included: Included) -> None:
        if self._concerns(peer, closing):
            self._reports.setdefault(closing.number, {})[peer] = included

    def reported(self, peer: Site, frame: LogReport | Whole) -> None:
        """Take a site's report on a flush."""
        self.excluding.receive(peer, frame)

    def suspects(self, now: int) -> list[Site]:
        """Sites that have been silent for longer than usual. They are shown to operators."""
        return self._detector.suspects(now) if self.leads else []

    def apart(self) -> list[Pair]:
        """Pairs of sites that do not hear each other. They are shown to operators."""
        return self._silences.named() if self.leads else []

    def lasting(self, now: int) -> list[Pair]:
        """The pairs that no third site will join, by the manager's judgement."""
        return [two for two, _ in self._silences.lasting(now)] if self.leads else []

    def missing(self, change: str) -> list[Site] | None:
        """The sites that have yet to close for a change, or to become a voter. None: this site is
        not the manager, or there is no such change."""
        layout = self._member.layout
        closing = layout.closing.get(change)
        if not self.leads or closing is None:
            return None
        if not self._chosen(closing.edits[0]):
            return [closing.edits[0].site] if isinstance(closing.edits[0], AddVoter) else []
        reports = dict.fromkeys(self._reports.get(closing.number, ()))
        if self._member.closings.has_closed(change):
            reports[self._member.name] = None
        sites = dict.fromkeys(s for epoch in closing.epochs for s in layout.domains[epoch].sites)
        return sorted(site for site in sites if site not in reports)

    def work(self, now: int) -> None:
        """Do whatever can be done now. This is called once per burst."""
        raft, member = self._raft, self._member
        if member.layout.count - raft.log.snapshot.upto > self.log_entries:
            raft.compact(member.layout.count, member.folds.pack(member.layout))
        if not self.leads:
            # Sites ask the next manager. If this site is the manager again, the outcome may be
            # forgotten, and the change would be done a second time.
            self._wanted.clear()
            self.alarm_at = NEVER
            return
        self.led_at = now
        if self._term != raft.term:
            self._term = raft.term
            self._fed, self._reports, self._proposed = {}, {}, {}
            self._features = {}
            self._ends, self._parts = {}, {}
            self._detector = self._watch(now)
            self._counts = {}
            self._silences.reset()
            self.excluding.reset()
            self.alarm_at = now
        member.fold_committed(raft)
        self._found_grants(now)
        self._begin(now)
        self._choose_voters(now)
        self._finish(now)
        self._admit(now)
        self._adopt(now)
        suspect = member.options.timing.suspect
        self._silences.look(now, self._detector.suspects(now, suspect))
        self.excluding.work(now)
        member.fold_committed(raft)  # a single voter commits at once
        if now >= self.alarm_at or member.layout.count > self._told:
            self._told = member.layout.count
            self.alarm_at = now + raft.times.beat
            self._detector.watch(now, self._peers())
            self._detector.tick(now)
            early = max(suspect // _EARLY, 2 * raft.times.beat)
            silent = self._detector.silences(now)
            self._silences.doubt(site for site, since in silent.items() if since > early)
            for site in self._audience():
                self._feed(site)

    def _peers(self) -> list[Site]:
        return [site for site in self._member.layout.roster if site != self._member.name]

    def _watch(self, now: int) -> Detector:
        """A detector for a new manager. The one before was silent already: that is why this site
        leads. More than `suspect` is not held against it, since this process may have paused."""
        raft, suspect = self._raft, self._member.options.timing.suspect
        detector = Detector(now, DetectorTimes(interval=raft.times.beat))
        detector.watch(now, self._peers())
        if raft.led_by is not None:
            detector.silent(now, raft.led_by, min(raft.silence(now), suspect))
        return detector

    def _audience(self) -> list[Site]:
        """All sites of the roster, and retired sites that do not know it yet."""
        layout = self._member.layout
        behind = [s for s, count in self._fed.items() if count < layout.count]
        return list(dict.fromkeys([*layout.roster, *behind]))

    def _feed(self, site: Site) -> None:
        raft, layout = self._raft, self._member.layout
        if site == self._member.name:
            return
        known = self._fed.get(site, layout.count)
        wanted = tuple(
            change
            for change, closing in layout.closing.items()
            if site not in self._reports.get(closing.number, {})
        )
        wanted += self.excluding.wanted(site)
        doubted = self._silences.doubted(site) if self.leads else ()
        lacks = not self.leads and raft.committed < layout.count  # the layout is ahead of the log
        if known < raft.log.snapshot.upto or lacks:
            folded = self._member.folds.pack(layout)
            feed = Feed(layout.count, (), layout.count, wanted, folded, doubted=doubted)
        else:
            # At most what the log has: another manager may have fed this site more.
            first, last = known + 1, min(layout.count, raft.committed, known + _RECORDS)
            records = [raft.log.entry(index) for index in range(first, last + 1)]
            some = tuple(records[: fitting(records)])
            chain = self._chain_at(known)
            feed = Feed(known, some, layout.count, wanted, chain=chain, doubted=doubted)
        self._member.say(site, feed)

    def _chain_at(self, count: int) -> bytes:
        """The hash of the first `count` records, if this site knows that they are committed."""
        raft, layout = self._raft, self._member.layout
        if count == layout.count:
            return layout.chain
        inside = raft.log.snapshot.upto <= count <= raft.committed
        return raft.log.chain_at(count) if inside else UNKNOWN

    def _begin(self, now: int) -> None:
        for change, (edits, subject) in list(self._wanted.items()):
            layout = self._member.layout
            if change in layout.closing or change in layout.outcomes:
                del self._wanted[change]
                continue
            try:
                plan_change(layout, edits)
            except Busy:
                continue
            except ConfigError:
                pass  # it is proposed all the same: its outcome says why not
            if self._settled():
                record = self._member.folds.begin(layout, Begin(change, edits))
                lacks = plain_text(why_not_granted(layout, subject, edits))
                self._raft.propose(now, replace(record, refused=lacks) if lacks else record)

    def _found_grants(self, now: int) -> None:
        """The grants of the cluster file become those of the log, while the log has none."""
        lines = self._member.options.grants.told()
        layout = self._member.layout
        lacks = lines is not None and layout.grants.lines is None and GRANTS in layout.features
        if lacks and lines is not None and layout.stores and self._settled():
            record = Begin(f"grants of the file, {layout.count}", (UseGrants(lines),), "")
            self._raft.propose(now, record)

    def _settled(self) -> bool:
        """Whether no record is under way. It could conflict with another one, or with the forest
        that is built for it."""
        raft = self._raft
        return raft.committed == raft.log.last == self._member.layout.count

    def _choose_voters(self, now: int) -> None:
        """Propose the voters of a change. A new voter has no store that counts; its store is
        admitted when it has the log."""
        for closing in self._member.layout.closing.values():
            stores, edit = self._raft.log.stores(), closing.edits[0]
            if isinstance(edit, AddVoter) and edit.site not in stores:
                self._raft.propose(now, Voters(tuple(sorted({**stores, edit.site: 0}.items()))))
            elif isinstance(edit, RemoveVoter) and edit.site in stores:
                left = tuple(sorted((v, s) for v, s in stores.items() if v != edit.site))
                self._raft.propose(now, Voters(left))

    def _chosen(self, edit: Edit) -> bool:
        stores = self._raft.log.stores(self._raft.committed)
        if isinstance(edit, AddVoter):
            return bool(stores.get(edit.site))
        return not isinstance(edit, RemoveVoter) or edit.site not in stores

    def _finish(self, now: int) -> None:
        layout = self._member.layout
        for change, closing in layout.closing.items():
            if not self._chosen(closing.edits[0]):
                continue
            reports = self._reports.setdefault(closing.number, {})
            name = self._member.name
            if name not in reports and self._member.closings.has_closed(change):
                reports[name] = self._member.closings.closed(change)
            sites = [s for epoch in closing.epochs for s in layout.domains[epoch].sites]
            if self._settled() and all(site in reports for site in sites):
                self._propose_end(now, change, closing)
        numbers = [closing.number for closing in layout.closing.values()]
        if len(self._reports) > _REPORTS:
            self._reports = {n: told for n, told in self._reports.items() if n in numbers}
        self._ends = {n: end for n, end in self._ends.items() if n in numbers}
        self._parts = {at: told for at, told in self._parts.items() if at[0] in numbers}
        if any(n not in numbers for n in self._proposed):  # a change is over
            self._proposed = {n: done for n, done in self._proposed.items() if n in numbers}
            self._counts = {at: n for at, n in self._counts.items() if at[0] in layout.domains}

    def _propose_end(self, now: int, change: str, closing: Closing) -> None:
        """Propose the next part of the end, or, with the last part, the end."""
        number = closing.number
        end = self._ends.get(number)
        if end is None:
            end = end_in_parts(number, self._missed(closing), self._lasts(number))
        if len(end) > 1:
            self._ends[number] = end  # parts of later turns must be of the same whole
        done = self._proposed.get(number, 0)
        if done == len(end):
            return
        record: EndPart | Finish = end[done]
        if done == len(end) - 1:
            finish = Finish(change, end[done].lasts, end[done].counts)
            apart = self._silences.detoured()
            record = self._member.folds.end(self._member.layout, finish, apart)
        if self._raft.propose(now, record) is not None:
            self._proposed[number] = done + 1

    def _lasts(self, number: int) -> Included:
        lasts: dict[tuple[Site, int, str], int] = {}
        reports = self._reports[number]
        for site in sorted(reports):
            for origin, incarnation, group, seq in reports[site]:
                stream = (origin, incarnation, group)
                lasts[stream] = max(seq, lasts.get(stream, 0))
        return tuple((*stream, lasts[stream]) for stream in sorted(lasts))

    def _missed(self, closing: Closing) -> Counts:
        """How many messages each group with absent members has in the epochs that end."""
        member, layout = self._member, self._member.layout
        if not layout.absent:
            return ()
        for epoch, group, number, members in member.flush.closing_counts():
            self._counts[epoch, group] = (number, members)
        named = [
            (epoch, group)
            for epoch in closing.epochs
            for group in layout.domains[epoch].structure.groups
            if any(site in layout.absent for site in layout.groups.get(group, ()))
        ]
        return tuple((*place, *self._counts.get(place, (0, ()))) for place in named)

    def _adopt(self, now: int) -> None:
        """Adopt the features that every site of the roster has, absent sites included: they will
        read the messages when they are back."""
        member, layout = self._member, self._member.layout
        unused = lacking(member.features, layout.features)
        if not unused:
            return
        others = [site for site in layout.roster if site != member.name]
        news = tuple(
            feature
            for feature in unused
            if all(feature in self._features.get(site, ()) for site in others)
        )
        if news and self._settled():
            self._raft.propose(now, Adopt(news))

    def _admit(self, now: int) -> None:
        """A voter that came without its store has all of the log again: give it its vote back."""
        layout = self._member.layout
        roster = layout.roster
        new = [c.edits[0].site for c in layout.closing.values() if type(c.edits[0]) is AddVoter]
        for voter, store in self._raft.waiting_for_admission():
            # Under `exclude` its return gives it the new incarnation.
            lost = bool(store) and voter not in new and not self._member.flush.excludes
            self._raft.propose(now, Admit(voter, roster.get(voter, 0) + lost, store))
