"""The world in virtual time: a heap of (time, tie-breaker, call), sites, applications, faults.

Every call is an integer code with its arguments in the heap's tuple. A frame or alarm handed to a
site is an *event*; after each the site's outbox is drained and the duties are done.

Time is integer nanoseconds. Each site reads a clock of its own, which differs from the others' by a
drawn amount: no protocol may compare two sites' times.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop
from typing import Any

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import Anew, MemberBox, MemberRecord
from ordercast.core.structure import Structure
from ordercast.model.errors import CrossDomain, NotInMajority, UnknownGroup, WindowFull
from ordercast.model.groups import Site
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import MILLISECOND, NEVER, SECOND
from ordercast.sim.config import SimConfig
from ordercast.sim.dissemination import disseminated
from ordercast.sim.driver import (
    ALARM,
    ANSWER,
    ARRIVED,
    BURST,
    CALM,
    FAULT,
    FRAME,
    OFFER,
    SUBMIT,
    SYNCED,
    VOTERS_ALARM,
    VOTERS_FRAME,
    WATCH,
    Driver,
)
from ordercast.sim.faults import CHANGES, CUTS, total
from ordercast.sim.injections import Injection, draw_injections
from ordercast.sim.members import Epochs, accepted_in
from ordercast.sim.place import Place
from ordercast.sim.quiescence import all_quiet, cut_off, is_away, latest_layout
from ordercast.sim.recorder import Violation
from ordercast.sim.workload import Replies, Submission, horizon, submissions
from ordercast.wire.codec import decode_frame

_TRY_AGAIN = 20 * MILLISECOND  # after WindowFull, if no receipt says that there is room
_WATCH_EVERY = 250 * MILLISECOND  # in the liveness phase: is everything quiet?
_SOME_DOWN = 5 * SECOND  # length of the liveness phase if a site stays down for good
_CUT = 30  # times the timeout of a silent site are added to it if links are cut for good
_LOOK_OFTEN, _LOOK_SELDOM = 64, 2048  # events between two looks at some site's queues


@contextmanager
def no_collection() -> Iterator[None]:
    """There are no cycles to find, and many objects to scan for them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class World(Driver):
    __slots__ = (
        "_in_bursts", "_next", "_record_delivered", "_replies", "_suspect", "calm_at", "epochs",
        "events", "excludes", "quiet", "some_stay_down", "structure", "untaken",
    )  # fmt: skip

    def __init__(self, config: SimConfig, structure: Structure, seed: int) -> None:
        self.excludes = config.excludes
        self.epochs = Epochs(config, structure, seed)
        self._suspect = self.epochs.options.timing.suspect
        super().__init__(
            config, structure.epoch, seed, steady=self.epochs.steady,
            notice=config.notice or self._suspect,
        )  # fmt: skip
        self.structure = structure
        self.events = 0
        self._in_bursts = 0  # how many of the events came in bursts
        self.untaken = 0  # submissions that are planned and that no site has taken
        self.quiet = False  # at the end: all is delivered, and no site has anything left to do
        self.some_stay_down = total(config.faults, "crash") > total(config.faults, "restart")
        self.calm_at = horizon(config)
        self.spread = disseminated(self, config.dissemination, seed)
        for injection in draw_injections(config.faults, config.table.sites, self.calm_at, seed):
            self._push(injection.at, FAULT, injection)
        self._push(self.calm_at, CALM)
        self._next: Iterator[Submission] = submissions(config, seed)
        self._push_next_submission()
        self._replies = Replies(config, seed)
        self.epochs.on_excluded = self._excluded
        self._record_delivered = self._delivered
        if config.replies:
            self._delivered = self._deliver_and_answer

    @property
    def injected(self) -> dict[str, int]:
        return self._conditions.injected

    def start(self) -> None:
        with no_collection():
            for place in self.places.values():
                self._start(0, place)

    # --- the loop ---------------------------------------------------------------------------------

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Run until nothing is left to do, all is quiet, time is up, or there is a storm."""
        settle = self.config.settle
        given_up = self.some_stay_down and not self.excludes
        end = self.calm_at + (min(settle, _SOME_DOWN) if given_up else settle)
        with no_collection():
            self._loop(end, progress)
        self.quiet = self._all_quiet()

    def _loop(self, end: int, progress: Callable[[int, int], None] | None) -> None:
        heap, pop = self._heap, heappop
        perform, special, vote = self._perform, self._special, self._vote
        as_bytes = self._bytes
        events, now = 0, self.now
        look_at = self._next_look(events)
        try:
            while heap:
                now, _, code, place, peer, frame = pop(heap)
                if now > end:
                    break
                if now >= self._voters_at:
                    vote(now)
                if code == FRAME:
                    site = place.running
                    if site is None:
                        if place.paused:
                            place.held.append((FRAME, place, peer, frame))
                        continue
                    if as_bytes:
                        frame = decode_frame(frame)
                    site.receive(now + place.clock, peer, frame)
                elif code == ALARM:
                    site = place.running
                    if site is None or place.pushed != now or place.alarm > now:
                        self._not_yet(place, now)
                        continue
                    place.pushed = place.alarm = NEVER
                    site.alarm(now + place.clock)
                else:
                    if not special(now, code, place, peer, frame):
                        break
                    continue
                events += 1
                perform(now, place, site.drain())
                if events >= look_at:
                    look_at = self._next_look(events)
                    self._inspect(place, site)
                    if self._is_storm(now, events):
                        break
                    if progress is not None:
                        progress(events, now)
        finally:
            self.events, self.now = self._in_bursts + events, min(now, end)

    def _all_quiet(self) -> bool:
        has_majority = self.epochs.has_majority if self.excludes else None
        joined = self._conditions.joined if self.config.cuts else None
        return all_quiet(list(self.places.values()), self.untaken, has_majority, joined)

    def members(self) -> list[Member]:
        return [place.site for place in self.places.values() if place.site is not None]

    def cut_off(self) -> list[Site]:
        """The sites that are up, and cannot return because of a link that is cut for good."""
        if not (self.config.cuts and self.excludes):
            return []
        return cut_off(self.members(), self._conditions.joined)

    def apart(self) -> list[tuple[Site, Site]]:
        """The sites that are up and do not hear each other, nor through a third site."""
        up, joined = [member.name for member in self.members()], self._conditions.joined
        return [(a, b) for a in up for b in up if a < b and not joined(a, b)]

    def may_wait(self) -> bool:
        """Whether links that are cut for good may keep the run from coming to rest. Under `wait`,
        any two sites that are apart. Under `exclude`: no voter hears a majority; or a site sends to
        a domain that it is not in."""
        apart = self.apart() if self.config.cuts else []
        if not apart or not self.excludes:
            return bool(apart)
        layout, up = latest_layout(self.members()), [member.name for member in self.members()]
        heard = ([b for b in up if (min(a, b), max(a, b)) not in apart] for a in up)
        if not any(self.epochs.has_majority(sites) for sites in heard):
            return True
        there = [(a, b) for a, b in apart if a not in layout.absent and b not in layout.absent]
        return any(not _share(layout, a, b) for a, b in there)

    def _special(self, now: int, code: int, subject: Any, peer: Any, frame: Any) -> bool:
        """Make a call that is not one event. False ends the run."""
        if code == ARRIVED:
            self._arrived(now, subject, peer, frame)
        elif code == BURST:
            self._burst(now, subject)
            return not self._is_storm(now, self._in_bursts)
        elif code == SYNCED:
            place, boot = subject
            if place.paused:
                place.held.append((SYNCED, subject, None, None))
            elif place.boot == boot and place.syncing:
                self._synced(now, place)
        elif code == SUBMIT:
            self._push_next_submission()
            self._submit(now, subject)
        elif code == ANSWER:
            self._submit(now, subject)
        elif code == OFFER:
            subject.asking = False
            self._offer(now, subject)
        elif code == FAULT:
            self._inject(now, subject)
        elif code == CALM:
            self._calm(now)
        elif code == WATCH:
            if self._all_quiet():
                return False
            if now - self.calm_at > _SOME_DOWN + _CUT * self._suspect and self.may_wait():
                return False
            if self._heap:
                self._push(now + _WATCH_EVERY, WATCH)
        elif self.spread is not None:
            self.spread.happens(now, code, subject, peer, frame)
        return True

    def _arrived(self, now: int, place: Place, peer: Site, frame: Any) -> None:
        """The frame waits until the site wakes, with those that come meanwhile."""
        if place.site is None:
            return
        place.inbox.append((peer, frame))
        if len(place.inbox) == 1:
            self._push(now + self.config.wake, BURST, place)

    def _burst(self, now: int, place: Place) -> None:
        """The site takes all that has come, then is drained once, as a real driver would."""
        if place.paused:
            place.held.append((BURST, place, None, None))
            return
        site, inbox = place.running, place.inbox
        if site is None or not inbox:  # it has crashed meanwhile
            return
        place.inbox = []
        for peer, frame in inbox:
            taken: Any = decode_frame(frame) if self._bytes else frame
            site.receive(now + place.clock, peer, taken)
        self._in_bursts += len(inbox)
        self._perform(now, place, site.drain())
        self._inspect(place, site)

    # --- applications -----------------------------------------------------------------------------

    def _push_next_submission(self) -> None:
        submission = next(self._next, None)
        if submission is not None:
            self.untaken += 1
            self._push(submission.at, SUBMIT, submission)

    def _submit(self, now: int, submission: Submission) -> None:
        place = self.places[submission.origin]
        place.waiting.append(submission)
        if len(place.waiting) == 1:
            self._offer(now, place)

    def _deliver_and_answer(self, now: int, site: Site, batches: Sequence[DeliveredBatch]) -> None:
        """Record, then let the application answer deliveries that it sees for the first time."""
        seen = self.recorder.seen[site]
        before = len(seen)
        self._record_delivered(now, site, batches)
        for _ in range(len(seen) - before):
            submission = self._replies.answer(now, site)
            if submission is not None:
                self.untaken += 1
                self._push(now, ANSWER, submission)

    def _offer(self, now: int, place: Place) -> None:
        """Hand the site what its application wants to send, until it has no room."""
        site = place.running
        if site is None or not place.waiting:
            return
        local = now + place.clock
        while place.waiting:
            submission = place.waiting[0]
            group = submission.group
            payloads, extras = submission.payloads(), submission.extras()
            # Without headers no time is told: such runs have the hashes that they had before there
            # were envelopes.
            sent_ns = local if extras.headers else 0
            try:
                if submission.members:
                    members = submission.members
                    group, seq = site.submit_to(local, members, payloads, None, sent_ns, extras)
                else:
                    seq = site.submit(local, group, payloads, None, sent_ns, extras)
            except (WindowFull, NotInMajority, UnknownGroup, CrossDomain) as why:
                waits = submission.headers and not site.admission.founded
                if isinstance(why, WindowFull) or is_away(site) or waits:
                    if not place.asking:
                        place.asking = True
                        self._push(now + _TRY_AGAIN, OFFER, place)
                    break
                place.waiting.popleft()  # its group is gone, or all members are absent
                self.untaken -= 1
                continue
            place.waiting.popleft()
            self.untaken -= 1
            self.recorder.offered(now, place.name, group, seq, submission, site.incarnation)
        self._perform(now, place, site.drain())

    # --- faults -----------------------------------------------------------------------------------

    def _inject(self, now: int, injection: Injection) -> None:
        if self._log is not None:
            self._log.injected(now, injection)
        place = self.places[injection.sites[0]]
        if injection.kind == "lose":
            if place.site is not None:
                self._lose(now, place.site, place)
        elif injection.kind == "crash":
            if injection.until == NEVER and self._is_too_early(now):
                self._push(now + _TRY_AGAIN, FAULT, injection)
            elif place.site is not None:
                self._conditions.count("crash")
                self._crash(now, place)
        elif injection.kind == "restart":
            if place.site is None:
                self._conditions.count("restart")
                self._start(now, place)
        elif injection.kind == "pause":
            if place.running is not None:
                self._conditions.count("pause")
                place.running, place.paused = None, True
        elif injection.kind == "resume":
            self._resume(now, place)
        elif injection.kind in ("lag", "keep_up"):
            self._lag(now, place, injection)
        elif injection.kind in CHANGES:
            self._ask(now, place, injection.kind)
        else:
            self._conditions.inject(injection)
            self.voters.inject(injection)
            self.knocks.inject(injection)
            if injection.kind in CUTS:
                for member in self.members():
                    member.detoured = self._conditions.detoured(member.name)

    def _is_too_early(self, now: int) -> bool:
        """Whether a crash for good has to wait. A cluster that excludes begins when all its voters
        have met: without one of them nothing would ever be sent, and the run would show nothing."""
        if not self.excludes or now + _TRY_AGAIN >= self.calm_at:
            return False
        return not any(member.layout.stores for member in self.members())

    def _ask(self, now: int, place: Place, kind: str) -> None:
        """A site's operator asks for a change of groups, protocol or builder."""
        site = place.running
        if site is None:
            return
        edit = self.epochs.draw(kind, site.layout)
        if edit is not None:
            self._conditions.count(kind)
            self.epochs.asked += 1
            site.ask(now + place.clock, f"{kind} {self.epochs.asked}", (edit,))
            self._perform(now, place, site.drain())

    def _excluded(self, local: int, observer: Site, site: Site, epoch: int) -> None:
        self.recorder.excluded(local - self.places[observer].clock, site, epoch)

    def _lose(self, now: int, member: Member, place: Place) -> None:
        """The site crashes, and its disk is empty from then on."""
        incarnation = member.incarnation
        if not self.epochs.lose(place.name):
            return
        self._conditions.count("lose")
        self._crash(now, place)
        place.disk.wipe()
        self.recorder.lost(now, place.name, incarnation)

    def _start(self, now: int, place: Place) -> None:
        """Start a site, for the first time or on what its disk has kept."""
        place.boot += 1
        place.site = place.running = self._make(place, *place.disk.restore())
        place.site.detoured = self._conditions.detoured(place.name)
        if place.boot > 1:
            self.recorder.restarted(now, place.name, place.boot)
        if self.spread is not None:
            self.spread.started(now, place)
        place.site.start(now + place.clock)
        box = place.site.drain()
        self._perform(now, place, self._perform_apart(now, place, box) if self._steady else box)
        self._offer(now, place)

    def _make(self, place: Place, anew: Anew | None, records: list[MemberRecord]) -> Member:
        past = records if anew is None else [anew, *records]
        return self.epochs.make(place.name, place.boot, past)

    def _crash(self, now: int, place: Place) -> None:
        place.disk.crash()
        for record in accepted_in(*place.disk.restore()):
            self.recorder.accepted(place.name, record.batch.group, record.batch.seq)
        self.recorder.forget_offers(place.name, relayed=self.excludes)
        self.recorder.crashed(now, place.name)
        place.site = place.running = None
        place.paused = False
        place.alarm = place.voters_alarm = NEVER
        place.unsynced.clear()
        place.syncing = 0
        place.held.clear()
        place.inbox = []

    def _resume(self, now: int, place: Place) -> None:
        """End a pause. The calls that came meanwhile are made now, in their order."""
        if not place.paused:
            return
        place.paused = False
        place.running = place.site
        held, place.held = place.held, []
        for call in held:
            (self._push_apart if call[0] == VOTERS_FRAME else self._push)(now, *call)
        if place.voters_alarm != NEVER and place.voters_pushed == NEVER:
            place.voters_pushed = max(now, place.voters_alarm)
            self._push_apart(place.voters_pushed, VOTERS_ALARM, place, None, None)
        if place.alarm != NEVER:
            at = max(now, place.alarm)
            place.alarm = at
            if at < place.pushed:
                place.pushed = at
                self._push(at, ALARM, place)
        self._offer(now, place)

    def _calm(self, now: int) -> None:
        """The safety phase is over: faults stop, and all must come to rest."""
        self._calm_network()
        for place in self.places.values():
            self._resume(now, place)
        self._push(now + _WATCH_EVERY, WATCH)

    # --- judging ----------------------------------------------------------------------------------

    def _next_look(self, events: int) -> int:
        """When to look at the queues again: often at first, so that short runs are looked at."""
        most = self.config.most_events
        following = events + (_LOOK_OFTEN if events < _LOOK_SELDOM else _LOOK_SELDOM)
        return following if most is None else min(following, most)

    def _notice(self, place: Place, box: MemberBox) -> None:
        if place.site is not None:
            self.epochs.saw(place.site, box)

    def _inspect(self, place: Place, site: Member) -> None:
        for queue, value, limit in site.observations():
            if value > limit:
                self.recorder.bounds.note(f"{place.name}: {queue}", value, limit)

    def _is_storm(self, now: int, events: int) -> bool:
        most = self.config.most_events
        if most is None or events < most:
            return False
        witness = {"events": events, "at_ns": now}
        self.recorder.violations.append(Violation("storm", witness))
        return True


def _share(layout: Layout, a: Site, b: Site) -> bool:
    """Whether the two sites are in one domain."""
    return any(a in domain.sites and b in domain.sites for domain in layout.domains.values())
