"""The manager's part of a flush ([GS] §5.2.1): which sites go and return, and what the past is.

It proposes `Flush` when a site of a domain has been silent for too long, has restarted, asks to
return, or waits for an origin that is gone. It gathers the reports, tells each site which messages
it must have, and proposes `Open` when all have them. A site that fails meanwhile needs another
flush. The next manager asks for everything again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from ordercast.core.epochs.absence import fold_flush, longest_away
from ordercast.core.epochs.flush import Flusher
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Flushing, Layout
from ordercast.core.epochs.past import Chosen, choose, misses_deliveries
from ordercast.core.epochs.raft import Raft
from ordercast.core.epochs.silence.judgement import SilenceJudgement
from ordercast.core.epochs.silence.pauses import Pauses
from ordercast.core.epochs.streams.parts import (
    ReportParts,
    end_in_parts,
    joined_log,
    needs_in_parts,
)
from ordercast.model.epochs import EndPart, Flush, Lapse, Open, Stored
from ordercast.model.groups import Site
from ordercast.model.options import Options
from ordercast.wire.epochs import Fed, LogReport, PastNeeded, SiteFrame, Whole

Returning: TypeAlias = tuple[Site, int, int]
"""A site that returns: (site, incarnation, store)."""

_STALLED = 4  # times the timeout of a silent site, without progress
_APART = 2  # times the same, before a site that was apart, slow or stuck is let back at first
_CALM = 10  # times the same, between the first two returns of a site without its store
# The pauses after a flush that a present site has asked for: the first is the timeout divided by
# `_AGAIN_PART`, so that a few restarts at once cost little; the longest is `_AGAIN_MOST` timeouts.
_AGAIN_PART, _AGAIN_MOST = 64, 64


class _Member(Protocol):
    """The member that leads, and its own part of a flush."""

    name: Site
    options: Options
    layout: Layout
    folds: Folds

    @property
    def flush(self) -> Flusher: ...
    def say(self, peer: Site, frame: SiteFrame) -> None: ...


class Exclusions:
    def __init__(self, member: _Member, raft: Raft, silences: SilenceJudgement) -> None:
        self._member = member
        self._raft = raft
        self._silences = silences
        # The new store of each site that was let back without its store, and the calm after it.
        self._fresh: dict[Site, int] = {}
        self._calms = Pauses(_CALM * member.options.timing.suspect)
        self.reset()

    def reset(self) -> None:
        self._fed: dict[Site, Fed] = {}
        suspect = self._member.options.timing.suspect
        self._pauses = Pauses(_APART * suspect)
        # Of present sites that asked for a flush.
        self._flushed = Pauses(suspect // _AGAIN_PART, _AGAIN_MOST * suspect)
        self._awaited: dict[Site, dict[Site, int]] = {}  # origins that a site waits for, since when
        # The origins outside its domain for which a site was excluded: it does not hear them.
        self._unheard_origins: dict[Site, dict[Site, None]] = {}
        self._begin(0)

    def _begin(self, flush: int) -> None:
        self._flush = flush
        self._reports: dict[Site, LogReport] = {}
        self._whole: dict[Site, None] = {}
        self._chosen: Chosen | None = None
        self._proposed = 0  # parts of the end
        self._parts: dict[Site, ReportParts[LogReport]] = {}
        self._told_at = 0
        self._moved: dict[Site, tuple[tuple[object, ...], int]] = {}  # progress, and since when

    # --- what sites say ---------------------------------------------------------------------------

    def fed(self, peer: Site, frame: Fed) -> None:
        if self._member.flush.excludes:
            self._fed[peer] = frame

    def receive(self, peer: Site, frame: LogReport | Whole) -> None:
        flush = self._member.layout.flushing
        if flush is None or frame.flush != self._flush or peer not in flush.members:
            return
        if isinstance(frame, LogReport):
            parts = self._parts.setdefault(peer, ReportParts()).take(frame, frame.flush)
            if parts is not None:
                self._reports[peer] = joined_log(parts)
        else:
            self._whole[peer] = None

    def wanted(self, site: Site) -> tuple[str, ...]:
        flush = self._member.layout.flushing
        if flush is None or site not in flush.members or site in self._reports:
            return ()
        return (f"log {flush.number}",)

    # --- deciding ---------------------------------------------------------------------------------

    def work(self, now: int) -> None:
        member, raft = self._member, self._raft
        if not member.flush.excludes:
            return
        flush = member.layout.flushing
        if flush is not None:
            self._carry_on(now, flush)
        if raft.committed != raft.log.last or member.layout.count != raft.committed:
            return  # a record under way may say the same
        out, back = self._gone(now), self._back(now)
        if out or back:
            for site in out:
                if site not in self._silences.gone and not self._lost(site):
                    returned = site not in member.layout.absent
                    self._pauses.begin(now, site, returned=returned)
            for site, incarnation, store in back:
                if site not in member.layout.absent:
                    self._flushed.begin(now, site)
                if incarnation > member.layout.roster[site]:
                    self._fresh[site] = store
                    self._calms.begin(now, site)
            raft.propose(now, Flush(out, back))
        elif flush is not None and self._chosen is not None and self._all_whole(flush):
            self._propose_end(now, flush, self._chosen)
        elif flush is None and self._too_much() and (lapsed := longest_away(member.layout)):
            raft.propose(now, Lapse(lapsed))
        else:
            self._store(now)

    def _propose_end(self, now: int, flush: Flushing, chosen: Chosen) -> None:
        """Propose the next part of the end, or, with the last part, the end."""
        parts = end_in_parts(flush.number, chosen.counts, chosen.lasts)
        record: EndPart | Open = parts[self._proposed]
        if self._proposed == len(parts) - 1:
            end = Open(flush.number, parts[-1].counts, parts[-1].lasts)
            apart = self._silences.detoured()
            record = self._member.folds.end(self._member.layout, end, apart)
        if self._raft.propose(now, record) is not None:
            self._proposed = min(self._proposed + 1, len(parts) - 1)

    def _too_much(self) -> bool:
        """Whether some site keeps more for absent sites than it may."""
        member = self._member
        layout = member.layout
        up_to_date = (
            fed.shelved
            for site, fed in self._fed.items()
            if fed.count >= layout.count and layout.home(site) is not None
        )
        size = max(member.flush.missed.size, *up_to_date, 0)
        return bool(member.layout.absent) and size > member.options.limits.missed_bytes

    def _gone(self, now: int) -> tuple[Site, ...]:
        """The sites to exclude: silent and stalled ones, sites that restart again and again, one
        slow site, one site that does not hear another, and sites with another store."""
        layout = self._member.layout
        flush = layout.flushing
        absent = layout.absent if flush is None else flush.absent
        inside = {site: None for domain in layout.domains.values() for site in domain.sites}
        if flush is not None:
            inside |= dict.fromkeys(flush.members)
        chosen = (self._slowest() if flush is None else None, self._cut_off(now))
        return tuple(
            site
            for site in sorted(layout.roster)
            if site not in absent
            and (
                self._lost(site)
                or site in chosen
                or (site in inside and self._is_failed(now, site))
            )
        )

    def _is_failed(self, now: int, site: Site) -> bool:
        restless = self._is_stopped(site) and not self._flushed.over(now, site)
        return site in self._silences.gone or self._is_stalled(now, site) or restless

    def _is_stopped(self, site: Site) -> bool:
        """Whether the site has restarted and waits for the next epoch, outside a flush."""
        layout, fed = self._member.layout, self._fed.get(site)
        if layout.flushing is not None or fed is None or fed.count < layout.count:
            return False
        return fed.stopped

    def _cut_off(self, now: int) -> Site | None:
        """One of two sites that do not hear each other although they must. It is the site in most
        such pairs, rather no voter, and never the manager. Only one at a time: perhaps the next
        epoch needs no other."""
        layout, counts = self._member.layout, dict[Site, int]()
        origins: dict[Site, dict[Site, None]] = {}
        for (a, b), ends in self._silences.lasting(now):
            for origin, site in ((a, b), (b, a)):
                if self._is_awaited(origin, site):
                    origins.setdefault(site, {})[origin] = None
            needed = self._are_joined(a, b) or b in origins.get(a, ()) or a in origins.get(b, ())
            for site in ends if needed else ():
                if site != self._member.name and layout.home(site) is not None:
                    counts[site] = counts.get(site, 0) + 1
        voters = layout.voters
        last_first = sorted(counts, reverse=True)
        out = max(last_first, key=lambda site: (counts[site], site not in voters), default=None)
        if out is not None and out in origins:
            self._unheard_origins[out] = origins[out]
        return out

    def _are_joined(self, a: Site, b: Site) -> bool:
        """Whether these sites need each other: both take part in one epoch or one flush, or one is
        the manager and the other takes part in anything."""
        layout, name = self._member.layout, self._member.name
        parts = [domain.sites for domain in layout.domains.values()]
        if (flush := layout.flushing) is not None:
            parts = [tuple(s for s in sites if s not in flush.absent) for sites in parts]
            parts.append(tuple(flush.members))
        return any(a in sites or a == name for sites in parts if b in sites or b == name)

    def _is_awaited(self, origin: Site, site: Site) -> bool:
        """Whether the site's domain waits for the word of an origin outside it."""
        layout = self._member.layout
        home = layout.home(site)
        if home is None or origin in home.sites or origin in layout.absent:
            return False
        said = (self._fed[one].awaited for one in home.sites if one in self._fed)
        return origin in self._member.flush.slowness.awaited() or any(origin in one for one in said)

    def _slowest(self) -> Site | None:
        """The site for which most others wait. Only one at a time: two sites may name each other
        because the link between them is slow. None if two sites do not hear each other: then sites
        wait for many that are not slow."""
        layout, named, silent = self._member.layout, dict[Site, int](), self._silences.unheard
        if self._member.options.slow_member != "exclude" or self._silences.pairs():
            return None
        says = {
            site: fed.slow
            for site, fed in self._fed.items()
            if fed.count >= layout.count and site in layout.roster
        }
        says[self._member.name] = self._member.flush.slowness.named()
        for site, slow in says.items():
            for other in slow if site not in layout.absent and site not in silent else ():
                if other not in layout.absent and layout.home(other) is not None:
                    named[other] = named.get(other, 0) + 1
        return max(sorted(named), key=named.__getitem__, default=None)

    def _lost(self, site: Site) -> bool:
        """Whether the site has another store than the one that counts, or than the one it returns
        with."""
        layout, fed = self._member.layout, self._fed.get(site)
        if fed is None or site not in layout.stores:
            return False
        known = layout.stores[site]
        if layout.flushing is not None and site in layout.flushing.fresh:
            known = layout.flushing.fresh[site][1]
        return fed.store != known

    def _waits(self, now: int, site: Site, awaited: tuple[Site, ...]) -> bool:
        """Whether the site waits for an origin outside its domain that is gone or excluded. In the
        next epoch nobody waits for it; it sends again when it is back."""
        layout, since = self._member.layout, self._awaited.get(site, {})
        since = self._awaited[site] = {origin: since.get(origin, now) for origin in awaited}
        return any(
            now - begun > self._member.options.timing.suspect
            and (
                origin in self._silences.unheard
                or origin not in layout.roster
                or origin in layout.absent
                or self._lost(origin)
            )
            for origin, begun in since.items()
        )

    def _back(self, now: int) -> tuple[tuple[Site, int, int], ...]:
        """The sites that ask to return and can, that have restarted, or that wait. None during a
        flush."""
        member, layout = self._member, self._member.layout
        if layout.flushing is not None:
            return ()
        asking = []
        for site in sorted(layout.roster):
            if site == member.name:
                store, stopped = member.flush.store, member.flush.stopped()
                awaited = member.flush.slowness.awaited()
            else:
                fed = self._fed.get(site)
                if fed is None or site in self._silences.unheard or fed.count < layout.count:
                    continue
                store, stopped, awaited = fed.store, fed.stopped, fed.awaited
            if site in layout.absent and not self._pauses.over(now, site):
                continue
            if site not in layout.absent and not self._flushed.over(now, site):
                continue  # it has just asked
            if site in layout.absent or stopped or self._waits(now, site, awaited):
                lost = layout.stores.get(site, store) != store
                if lost and not self._is_calm(now, site, store):
                    continue
                asking.append((site, layout.roster[site] + lost, store))
        let_in = self._returning(asking)
        if self._silences.named():
            let_in = self._returning(self._together(asking, let_in))
        return let_in

    def _returning(self, asking: Sequence[Returning]) -> tuple[Returning, ...]:
        """Those of the asking sites that a flush lets back. One that would miss what a present site
        may have delivered comes later, when it has lapsed; but not if somebody needs it to
        return."""
        let_in, flush = self._let_in(asking)
        if flush is None or not flush.fresh:
            return let_in
        layout = self._member.layout
        later = [one for one in let_in if misses_deliveries(layout, flush, one[0])]
        if not later:
            return let_in
        without, _ = self._let_in([one for one in let_in if one not in later])
        return without if len(without) + len(later) == len(let_in) else let_in

    def _let_in(self, asking: Sequence[Returning]) -> tuple[tuple[Returning, ...], Flushing | None]:
        """Those that the records let back, and the flush."""
        layout = self._member.layout
        if not asking:
            return (), None
        trial = fold_flush(replace(layout, count=layout.count + 1), Flush((), tuple(asking)))
        flush = trial.flushing
        back = (one for one in asking if flush is not None and one[0] not in flush.absent)
        return tuple(back), flush

    def _together(
        self, asking: Sequence[Returning], let_in: Sequence[Returning]
    ) -> list[Returning]:
        """The sites that may return together, voters first. An absent site does not return if it
        does not hear the manager, another site of the flush, or an origin that it was excluded
        for: the origin would send to it again at once."""
        layout = self._member.layout
        trial = fold_flush(replace(layout, count=layout.count + 1), Flush((), tuple(let_in)))
        members = () if trial.flushing is None else trial.flushing.members
        company = {site: None for site in members if site not in layout.absent}
        company[self._member.name] = None
        found: list[Returning] = []
        for one in sorted(asking, key=lambda one: one[0] not in layout.voters):
            barred = company | self._unheard_origins.get(one[0], {})
            partners = self._silences.partners(one[0])
            if one[0] in layout.absent and any(site in barred for site in partners):
                continue
            company[one[0]] = None
            found.append(one)
        return sorted(found)

    def _is_calm(self, now: int, site: Site, store: int) -> bool:
        """Whether the site may return without its store. All domains are flushed then, so a site
        could stop them again and again. Therefore not soon after it came with another store, and
        each time later."""
        return self._fresh.get(site, store) == store or self._calms.over(now, site)

    def _store(self, now: int) -> None:
        """Propose the store of a site that comes for the first time."""
        layout = self._member.layout
        for site, fed in self._fed.items():
            if site in layout.roster and site not in layout.stores and fed.store:
                self._raft.propose(now, Stored(site, fed.store))
                return
        if self._member.name not in layout.stores and self._member.name in layout.roster:
            self._raft.propose(now, Stored(self._member.name, self._member.flush.store))

    # --- carrying a flush through -----------------------------------------------------------------

    def _carry_on(self, now: int, flush: Flushing) -> None:
        member = self._member
        if self._flush != flush.number:
            self._begin(flush.number)
        if member.name in flush.members:
            own = member.flush.report()
            if own is not None:
                self._reports[member.name] = own
        if self._chosen is None and all(site in self._reports for site in flush.members):
            self._chosen = choose(member.layout, self._reports)
            self._told_at = 0
        if self._chosen is not None and now >= self._told_at:
            self._told_at = now + self._raft.times.beat
            for site in flush.members:
                past = PastNeeded(flush.number, self._chosen.needs[site])
                if site == member.name:
                    member.flush.receive(site, past)
                elif site not in self._whole:
                    for part in needs_in_parts(past):
                        member.say(site, part)
        if member.name in flush.members and member.flush.is_whole(flush.number):
            self._whole[member.name] = None

    def _all_whole(self, flush: Flushing) -> bool:
        return all(site in self._whole for site in flush.members)

    def _is_stalled(self, now: int, site: Site) -> bool:
        """Whether the site answers, but makes no progress in the flush."""
        flush = self._member.layout.flushing
        if flush is None or site not in flush.members or site in self._whole:
            return False
        fed = self._fed.get(site)
        fetched = fed.fetched if fed is not None else self._member.flush.got
        progress = (site in self._reports, self._chosen is not None, fetched)
        known = self._moved.get(site)
        if known is None or known[0] != progress:
            self._moved[site] = (progress, now)
            return False
        if site in self._reports and self._chosen is None:
            return False  # it waits for others
        return now - known[1] > _STALLED * self._member.options.timing.suspect
