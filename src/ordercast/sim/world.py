"""The world in virtual time: a heap of (time, tie-breaker, call) and the driver's duties.

Every call is an integer code with its arguments in the heap's tuple. A frame or alarm handed to a
site is an *event*; after each the site's outbox is drained and the duties of `core.outbox` are
done: records are written, `send` leaves at once, and `then_send`, deliveries and receipts follow
when the disk has them. Outboxes that wait for a sync keep their order.

Time is integer nanoseconds. Each site reads a clock of its own, which differs from the others' by a
drawn amount: no protocol may compare two sites' times.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from ordercast.core.outbox import Accepted, Outbox
from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.model.errors import WindowFull
from ordercast.model.groups import Site as SiteName
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.chance import Stream
from ordercast.sim.conditions import Conditions
from ordercast.sim.config import SimConfig
from ordercast.sim.disk import Disk
from ordercast.sim.faults import total
from ordercast.sim.injections import Injection, draw_injections
from ordercast.sim.networks import build_network
from ordercast.sim.place import NEVER, MakeSite, Place, SiteLike
from ordercast.sim.recorder import Recorder, Violation
from ordercast.sim.workload import Submission, horizon, submissions
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.frames import CONTROL, Data, Frame

FRAME, ALARM, SYNCED, SUBMIT, OFFER, FAULT, CALM, WATCH = range(8)

_TRY_AGAIN = 20 * MILLISECOND  # after WindowFull, if no receipt says that there is room
_WATCH_EVERY = 250 * MILLISECOND  # in the liveness phase: is everything quiet?
_SOME_DOWN = 5 * SECOND  # the liveness phase when a site stays down: others go on as they can
_INSPECT_EVERY = 64  # events between two looks at some site's queues (a power of two)
_PROGRESS_EVERY = 1 << 16
_CLOCKS_APART = 3600 * SECOND

Send = tuple[SiteName, Frame]


class World:
    def __init__(
        self, config: SimConfig, structure: Structure, seed: int, make_site: MakeSite = Site
    ) -> None:
        sites = config.table.sites
        self.config = config
        self.structure = structure
        self.recorder = Recorder(sites, structure.epoch)
        self.now = 0
        self.events = 0
        self.data = 0
        self.control = 0
        self.lost_offers = 0
        self._make_site = make_site
        self._options = config.options
        self._heap: list[tuple[int, int, int, Any, Any, Any]] = []
        self._tick = count().__next__
        self._arrivals = build_network(config.network, sites, Stream(seed, "network")).arrivals
        self._conditions = Conditions(config.faults, seed)
        self._faulty = bool(config.faults)
        self._bytes = config.codec == "bytes"
        self.untaken = 0  # submissions that were due and that no site has taken
        clocks, disks = Stream(seed, "clocks"), Stream(seed, "disks")
        self.places = {
            name: Place(name, clocks.below(_CLOCKS_APART), Disk(config.durability, disks))
            for name in sites
        }
        self.quiet = False  # at the end: all is delivered, and no site has anything left to do
        self.some_stay_down = total(config.faults, "crash") > total(config.faults, "restart")
        self.calm_at = horizon(config)
        for injection in draw_injections(config.faults, sites, self.calm_at, seed):
            self._push(injection.at, FAULT, injection)
        self._push(self.calm_at, CALM)
        self._next: Iterator[Submission] = submissions(config, seed)
        self._push_next_submission()

    @property
    def injected(self) -> dict[str, int]:
        return self._conditions.injected

    def _push(self, at: int, code: int, a: Any = None, b: Any = None, c: Any = None) -> None:
        heappush(self._heap, (at, self._tick(), code, a, b, c))

    def start(self) -> None:
        for place in self.places.values():
            self._start(place)

    # --- the loop ---------------------------------------------------------------------------------

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Until nothing is left to do, all is quiet, the bound is reached, or it is a storm."""
        heap = self._heap
        perform, special = self._perform, self._special
        most = self.config.most_events or NEVER
        settle = self.config.settle
        end = self.calm_at + (min(settle, _SOME_DOWN) if self.some_stay_down else settle)
        collecting = gc.isenabled()
        gc.disable()  # there are no cycles to find; what lives long would be scanned for ever
        try:
            while heap:
                now, _, code, place, peer, frame = heappop(heap)
                if now > end:
                    break
                self.now = now
                if code == FRAME:
                    site = place.running
                    if site is None:
                        if place.paused:
                            place.held.append((FRAME, place, peer, frame))
                        continue
                    if self._bytes:
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
                    if not special(now, code, place):
                        break
                    continue
                self.events += 1
                perform(now, place, site.drain())
                if not self.events & (_INSPECT_EVERY - 1):
                    self._inspect(place, site)
                    if self.events >= most:
                        self._storm()
                        break
                    if progress is not None and not self.events & (_PROGRESS_EVERY - 1):
                        progress(self.events, now)
        finally:
            if collecting:
                gc.enable()
        self.quiet = self._all_quiet()

    def _special(self, now: int, code: int, subject: Any) -> bool:
        """Calls that are not events; False ends the run."""
        if code == SYNCED:
            place, boot = subject
            if place.paused:
                place.held.append((SYNCED, subject, None, None))
            elif place.boot == boot and place.syncing:
                self._synced(now, place)
        elif code == SUBMIT:
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
            if self._heap:
                self._push(now + _WATCH_EVERY, WATCH)
        return True

    # --- the driver's duties ----------------------------------------------------------------------

    def _perform(self, now: int, place: Place, box: Outbox) -> None:
        place.outboxes += 1
        alarm = box.alarm
        if alarm is None:
            place.alarm = NEVER
        else:
            at = alarm - place.clock
            if at < now:
                at = now
            place.alarm = at
            if at < place.pushed:  # a later call that is pushed already does no harm
                place.pushed = at
                heappush(self._heap, (at, self._tick(), ALARM, place, None, None))
        disk = place.disk
        if box.persist and disk.keeps:
            disk.write(place.outboxes, box.persist)
        if box.send:
            self._transmit(now, place.name, box.send)
        if disk.syncs and (box.persist or place.unsynced):
            if box.persist or box.then_send or box.deliver or box.receipts or box.forget:
                place.unsynced.append((place.outboxes, box))
                if not place.syncing:
                    self._sync(now, place)
        else:
            self._reveal(now, place, place.outboxes, box)

    def _reveal(self, now: int, place: Place, number: int, box: Outbox) -> None:
        """Duties 3 and 4: all that was to wait until the records are durable."""
        if box.then_send:
            self._transmit(now, place.name, box.then_send)
        if box.deliver:
            self.recorder.delivered(now, place.name, box.deliver)
        for receipt in box.receipts:
            if receipt.stage == "accepted":
                self.recorder.accepted(place.name, receipt.group, receipt.seq)
            elif receipt.stage == "stable" and place.waiting:  # there is room in the window
                self._push(now, OFFER, place)
        if box.forget is not None:
            place.disk.checkpoint(number, box.forget)

    def _sync(self, now: int, place: Place) -> None:
        place.syncing = len(place.unsynced)
        took = place.disk.begin_sync(self._conditions.slow.get(place.name, 0))
        self._push(now + took, SYNCED, (place, place.boot))

    def _synced(self, now: int, place: Place) -> None:
        place.disk.end_sync()
        covered, place.syncing = place.syncing, 0
        for _ in range(covered):
            self._reveal(now, place, *place.unsynced.popleft())
        while place.unsynced and not place.unsynced[0][1].persist:
            self._reveal(now, place, *place.unsynced.popleft())
        if place.unsynced:
            self._sync(now, place)

    def _transmit(self, now: int, source: SiteName, sends: Sequence[Send]) -> None:
        heap, tick, places = self._heap, self._tick, self.places
        times = self._arrivals(now, source, sends)
        for (peer, frame), at in zip(sends, times, strict=True):
            if type(frame) is Data and frame.lane != CONTROL:
                self.data += 1
            else:
                self.control += 1
            if self._bytes:
                carried: Any = encode_frame(frame)
            else:
                carried = frame
            if self._faulty:
                for late in self._conditions.fates(now, source, peer, at):
                    heappush(heap, (late, tick(), FRAME, places[peer], source, carried))
            else:
                heappush(heap, (at, tick(), FRAME, places[peer], source, carried))

    def _not_yet(self, place: Place, now: int) -> None:
        """The heap called early, twice, or a site that cannot hear."""
        if place.pushed != now:
            return
        place.pushed = NEVER
        if place.running is not None and place.alarm != NEVER:
            place.pushed = place.alarm
            self._push(place.alarm, ALARM, place)

    # --- applications -----------------------------------------------------------------------------

    def _push_next_submission(self) -> None:
        submission = next(self._next, None)
        if submission is not None:
            self.untaken += 1
            self._push(submission.at, SUBMIT, submission)

    def _submit(self, now: int, submission: Submission) -> None:
        self._push_next_submission()
        place = self.places[submission.origin]
        place.waiting.append(submission)
        if len(place.waiting) == 1:
            self._offer(now, place)

    def _offer(self, now: int, place: Place) -> None:
        """Hand the site what its application wants to send, until it has no room."""
        site = place.running
        if site is None or not place.waiting:
            return
        local = now + place.clock
        while place.waiting:
            submission = place.waiting[0]
            group = submission.group
            try:
                if submission.members:
                    group, seq = site.submit_to(local, submission.members, submission.payloads())
                else:
                    seq = site.submit(local, group, submission.payloads())
            except WindowFull:
                if not place.asking:
                    place.asking = True
                    self._push(now + _TRY_AGAIN, OFFER, place)
                break
            place.waiting.popleft()
            self.untaken -= 1
            self.recorder.offered(now, place.name, group, seq, submission)
        self._perform(now, place, site.drain())

    # --- faults -----------------------------------------------------------------------------------

    def _inject(self, now: int, injection: Injection) -> None:
        place = self.places[injection.sites[0]]
        if injection.kind == "crash":
            if place.site is not None:
                self._conditions.count("crash")
                self._crash(now, place)
        elif injection.kind == "restart":
            if place.site is None:
                self._conditions.count("restart")
                self._start(place)
        elif injection.kind == "pause":
            if place.running is not None:
                self._conditions.count("pause")
                place.running, place.paused = None, True
        elif injection.kind == "resume":
            self._resume(now, place)
        else:
            self._conditions.inject(injection)

    def _start(self, place: Place) -> None:
        """Start a site, for the first time or on what its disk has kept."""
        place.boot += 1
        checkpoint, records = place.disk.restore()
        place.site = place.running = self._make_site(
            place.name,
            self.structure,
            self._options,
            protocol=self.config.protocol,
            boot=place.boot,
            checkpoint=checkpoint,
            records=records,
        )
        if place.boot > 1:
            self.recorder.restarted(self.now, place.name, place.boot)
        place.site.start(self.now + place.clock)
        self._perform(self.now, place, place.site.drain())
        self._offer(self.now, place)

    def _crash(self, now: int, place: Place) -> None:
        place.disk.crash()
        checkpoint, records = place.disk.restore()
        for record in (*(checkpoint.records if checkpoint else ()), *records):
            if isinstance(record, Accepted):
                self.recorder.accepted(place.name, record.batch.group, record.batch.seq)
        self.lost_offers += self.recorder.forget_offers(place.name)
        self.recorder.crashed(now, place.name)
        place.site = place.running = None
        place.paused = False
        place.alarm = NEVER
        place.unsynced.clear()
        place.syncing = 0
        place.held.clear()

    def _resume(self, now: int, place: Place) -> None:
        """What came meanwhile is handed over at once, in the order in which it came."""
        if not place.paused:
            return
        place.paused = False
        place.running = place.site
        held, place.held = place.held, []
        for call in held:
            self._push(now, *call)
        if place.alarm != NEVER:
            at = max(now, place.alarm)
            place.alarm = at
            if at < place.pushed:
                place.pushed = at
                self._push(at, ALARM, place)
        self._offer(now, place)

    def _calm(self, now: int) -> None:
        """The safety phase is over: faults stop, and all must come to rest."""
        self._conditions.calm()
        self._faulty = False
        for place in self.places.values():
            self._resume(now, place)
        self._push(now + _WATCH_EVERY, WATCH)

    # --- judging ----------------------------------------------------------------------------------

    def _all_quiet(self) -> bool:
        return not self.untaken and all(
            place.site is not None and not place.unsynced and place.site.quiet()
            for place in self.places.values()
        )

    def _inspect(self, place: Place, site: SiteLike) -> None:
        note = self.recorder.bounds.note
        for queue, value, limit in site.observations():
            note(f"{place.name}: {queue}", value, limit)

    def _storm(self) -> None:
        witness = {"events": self.events, "at_ns": self.now}
        self.recorder.violations.append(Violation("storm", witness))
