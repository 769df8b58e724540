"""The driver's duties of `core.outbox`, done in virtual time: write, send, reveal, ring.

Records are written and `send` leaves at once; `then_send`, deliveries and receipts follow when the
disk has the records. Outboxes that wait for a sync keep their order: an outbox without records
waits for those before it.
"""

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any

from ordercast.core.epochs.records import REFUSED, Kept, MemberBox, Noted
from ordercast.core.outbox import Accepted
from ordercast.model.groups import Site
from ordercast.model.options import NEVER, SECOND
from ordercast.sim.chance import Chance
from ordercast.sim.conditions import Conditions
from ordercast.sim.config import SimConfig
from ordercast.sim.disk import Disk
from ordercast.sim.dissemination import SimulatedWays
from ordercast.sim.injections import Injection
from ordercast.sim.networks import build_network
from ordercast.sim.place import Place
from ordercast.sim.recorder import Recorder
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.sim.voters import VotersNetwork
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.epochs import InEpoch, Knock
from ordercast.wire.frames import CONTROL, Data
from ordercast.wire.tom import Body

FRAME, ALARM, ARRIVED, BURST, SYNCED, SUBMIT, ANSWER, OFFER, FAULT, CALM, WATCH = range(11)
VOTERS_FRAME, VOTERS_ALARM = -2, -1  # in the voters' own heap

_CLOCKS_APART = 3600 * SECOND
EPOCH_RECORDS = (Accepted, Kept, Noted)

Send = tuple[Site, Any]
Delivered = Callable[[int, Site, Sequence[Any]], None]
Calls = list[tuple[int, int, int, Any, Any, Any]]


class Driver:
    """The heap, the places of the sites, and what is done with a drained outbox."""

    __slots__ = (
        "_arrive", "_bytes", "_conditions", "_delivered", "_faulty", "_heap", "_keeps", "_log",
        "_steady", "_straight", "_syncs", "_tick", "_voters_at", "_voters_heap", "arrivals",
        "config", "data", "frames", "knocks", "now", "places", "recorder", "spread", "voters",
    )  # fmt: skip

    def __init__(
        self, config: SimConfig, epoch: int, seed: int, *, steady: bool, notice: int
    ) -> None:
        """`steady`: no epoch depends on what voters say. They have a heap of their own then, and
        nothing that they do moves a message by a nanosecond. `notice`: from the cut of a link until
        its frames take another way."""
        sites = config.table.sites
        self.config = config
        self.recorder = Recorder(sites, epoch)
        self.now = 0
        self.frames = 0  # frames that were handed to the network
        self.data = 0  # those of them that carry messages or their headers
        self.voters = VotersNetwork(config, seed, notice)
        self.knocks = VotersNetwork(config, seed, notice, "knocks'")
        self._steady = steady
        self._heap: Calls = []
        self._voters_heap: Calls = []
        self._voters_at = NEVER  # when the first call of that heap is due
        self._tick = count().__next__
        self.arrivals = build_network(config.network, sites, Chance(seed, "network")).arrivals
        self.spread: SimulatedWays | None = None  # the ways to many; None: unicast
        self._conditions = Conditions(config.faults, seed, sites=sites, notice=notice)
        self._faulty = bool(config.faults)
        self._bytes = config.codec == "bytes"
        self._straight = not self._faulty and not self._bytes
        self._log: FrameLog | None = None
        self._arrive = ARRIVED if config.wake else FRAME
        self._keeps = config.durability != "memory"
        self._syncs = config.durability == "sync"
        self._delivered: Delivered = self.recorder.delivered
        clocks, disks = Chance(seed, "clocks"), Chance(seed, "disks")
        self.places = {
            name: Place(
                name,
                clocks.below(_CLOCKS_APART),
                Disk(config.durability, disks, config.longest_sync),
            )
            for name in sites
        }
        places = self.places
        self._conditions.is_up = lambda site: places[site].running is not None
        self.voters.conditions.is_up = self.knocks.conditions.is_up = self._conditions.is_up

    def follow(self, log: FrameLog) -> None:
        """Note in `log` what happens from now on."""
        self._log = log
        self._straight = False

    def push(self, at: int, code: int, place: Place, peer: Any, what: Any) -> None:
        heappush(self._heap, (at, self._tick(), code, place, peer, what))

    def fates(self, now: int, source: Site, peer: Site, at: int) -> Sequence[int]:
        return self._conditions.fates(now, source, peer, at) if self._faulty else (at,)

    def hand(self, now: int, place: Place, peer: Site, frame: Any) -> None:
        """Let the site receive a frame that a way has brought here."""
        if self._log is not None:
            self._log.handed(now, peer, place.name, frame)
        self.push(now, self._arrive, place, peer, encode_frame(frame) if self._bytes else frame)

    def perform(self, now: int, place: Place, box: MemberBox) -> None:
        self._perform(now, place, box)

    def _push(self, at: int, code: int, a: Any = None, b: Any = None, c: Any = None) -> None:
        heappush(self._heap, (at, self._tick(), code, a, b, c))

    def _lag(self, now: int, place: Place, injection: Injection) -> None:
        """The application stops taking deliveries, or has caught up. A paused site is told when it
        resumes; a lag that is over by then does not begin."""
        lags = injection.kind == "lag" and now < injection.until
        if place.paused:
            place.held.append((FAULT, injection, None, None))
        elif place.site is not None:
            if lags:
                self._conditions.count("lag")
            place.site.hold(now + place.clock, held=lags)
            self._perform(now, place, place.site.drain())

    def _perform(self, now: int, place: Place, box: MemberBox) -> None:
        if box.mistakes:  # here all sites are honest
            raise AssertionError(f"{place.name} takes a peer for a liar: {box.mistakes}")
        alarm = box.epochs_alarm
        if not self._steady:
            self._notice(place, box)
            alarm = min(alarm, box.voters_alarm)
        if alarm >= NEVER:
            place.alarm = NEVER
        else:
            alarm -= place.clock
            if alarm < now:
                alarm = now
            place.alarm = alarm
            if alarm < place.pushed:  # a call that comes too early is pushed again, in _not_yet
                place.pushed = alarm
                heappush(self._heap, (alarm, self._tick(), ALARM, place, None, None))
        if self._log is not None:
            self._log.persisted(now, place.name, box)
        if box.persist and self._keeps:
            place.outboxes += 1
            place.disk.write(place.outboxes, box.persist)
        if box.send:
            self._transmit(now, place.name, box.send)
        if not (
            box.then_send or box.persist or box.deliver or box.receipts or box.counted or box.forget
        ):
            return
        if self._syncs and (box.persist or place.unsynced):
            place.unsynced.append((place.outboxes, box))
            if not place.syncing:
                self._sync(now, place)
            return
        self._reveal(now, place, place.outboxes, box)

    def _notice(self, place: Place, box: MemberBox) -> None:
        """Note what the outbox says of epochs, in a run that is not steady."""

    def _reveal(self, now: int, place: Place, number: int, box: MemberBox) -> None:
        """Do duties 3 and 4 of an outbox."""
        if box.then_send:
            self._transmit(now, place.name, box.then_send)
        if box.counted and place.site is not None:
            place.site.stored(box.counted)
        if box.deliver:
            self._delivered(now, place.name, box.deliver)
        if box.receipts or box.forget is not None:
            self._confirm(now, place, number, box)

    def _confirm(self, now: int, place: Place, number: int, box: MemberBox) -> None:
        for receipt in box.receipts:
            if receipt.stage == "accepted":
                self.recorder.accepted(place.name, receipt.group, receipt.seq)
            elif receipt.stage == REFUSED:
                self.recorder.refused(place.name, receipt.group, receipt.seq)
                if place.site is not None:  # no runtime asks for it here, and it would grow
                    place.site.window.refused.clear()
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

    def _transmit(self, now: int, source: Site, sends: Sequence[Send]) -> None:
        if not self._steady:
            sends = self._speak(now, source, sends)
        if self.spread is not None:
            if self._log is not None:
                for _, frame in sends:
                    self._log.shared(now, frame)
            sends = self.spread.share(now, source, sends)
        times = self.arrivals(now, source, sends)
        if not self._straight:
            self._carry(now, source, sends, times)
            return
        heap, tick, places, arrive = self._heap, self._tick, self.places, self._arrive
        data = 0
        for (peer, sent), at in zip(sends, times, strict=False):
            heappush(heap, (at, tick(), arrive, places[peer], source, sent))
            frame = sent.frame
            if type(frame) is Data and (frame.lane != CONTROL or type(frame.items[0]) is Body):
                data += 1
        self.data += data
        self.frames += len(times)

    def _carry(self, now: int, source: Site, sends: Sequence[Send], times: Sequence[int]) -> None:
        """Transmit where frames are bytes, or faults may hit them."""
        for (peer, frame), at in zip(sends, times, strict=True):
            self.frames += 1
            if is_data(frame):
                self.data += 1
            carried: Any = encode_frame(frame) if self._bytes else frame
            fates = self.fates(now, source, peer, at)
            if self._log is not None:
                self._log.carried(now, source, peer, frame, fates)
            for arrival in fates:
                self._push(arrival, self._arrive, self.places[peer], source, carried)

    # --- frames and records of no epoch -----------------------------------------------------------

    def _speak(self, now: int, source: Site, sends: Sequence[Send]) -> Sequence[Send]:
        """Send the frames that belong to no epoch, as voters' frames. Returns the others. Knocks
        have a network of their own, and no site waits for others to come with them."""
        said = [send for send in sends if type(send[1]) is not InEpoch]
        if not said:
            return sends
        knocks = [send for send in said if type(send[1]) is Knock]
        if knocks:
            said = [send for send in said if type(send[1]) is not Knock]
            self._voice(now, self.knocks.carry(now, source, knocks), source, FRAME)
        self._voice(now, self.voters.carry(now, source, said), source, self._arrive)
        return [send for send in sends if type(send[1]) is InEpoch]

    def _voice(
        self, now: int, carried: Iterable[tuple[int, Site, Any]], source: Site, code: int
    ) -> None:
        for at, peer, frame in carried:
            if self._log is not None:
                self._log.carried(now, source, peer, frame, (at,))
            sent: Any = encode_frame(frame) if self._bytes else frame
            if self._steady:
                self._push_apart(at, VOTERS_FRAME, self.places[peer], source, sent)
            else:
                self._push(at, code, self.places[peer], source, sent)

    def _push_apart(self, at: int, code: int, place: Place, peer: Any, frame: Any) -> None:
        heappush(self._voters_heap, (at, self._tick(), code, place, peer, frame))
        self._voters_at = self._voters_heap[0][0]

    def _perform_apart(self, now: int, place: Place, box: MemberBox) -> MemberBox:
        """Do the duties that belong to no epoch, in a steady run. Returns what is left to do."""
        records = [record for record in box.persist if not isinstance(record, EPOCH_RECORDS)]
        if records:
            place.outboxes += 1
            place.disk.write_at_once(place.outboxes, records)
            box.persist = [record for record in box.persist if isinstance(record, EPOCH_RECORDS)]
        box.then_send = self._speak(now, place.name, box.then_send)
        alarm = max(now, box.voters_alarm - place.clock)
        place.voters_alarm = NEVER if box.voters_alarm >= NEVER else alarm
        if place.voters_alarm < place.voters_pushed:
            place.voters_pushed = place.voters_alarm
            self._push_apart(place.voters_alarm, VOTERS_ALARM, place, None, None)
        return box

    def _vote(self, now: int) -> None:
        """Make the calls of the voters' heap that are due by now."""
        heap = self._voters_heap
        while self._voters_at <= now:
            at, _, code, place, peer, frame = heappop(heap)
            self._voters_at = heap[0][0] if heap else NEVER
            member = place.running
            if code == VOTERS_ALARM:
                if place.voters_pushed != at:
                    continue
                place.voters_pushed = NEVER
                if member is None:
                    continue
                if place.voters_alarm > at:
                    if place.voters_alarm < NEVER:
                        place.voters_pushed = place.voters_alarm
                        self._push_apart(place.voters_alarm, VOTERS_ALARM, place, None, None)
                    continue
                member.tend(at + place.clock)
            elif member is None:
                if place.paused:
                    place.held.append((VOTERS_FRAME, place, peer, frame))
                continue
            else:
                member.receive(
                    at + place.clock, peer, decode_frame(frame) if self._bytes else frame
                )
            self._perform_apart(at, place, member.drain())

    def _not_yet(self, place: Place, now: int) -> None:
        """An alarm came early, twice, or to a site that does not run: push the next one."""
        if place.pushed != now:
            return
        place.pushed = NEVER
        if place.running is not None and place.alarm != NEVER:
            place.pushed = place.alarm
            self._push(place.alarm, ALARM, place)

    def _calm_network(self) -> None:
        self._conditions.calm()
        self.voters.calm()
        self.knocks.calm()
        self._faulty = self._conditions.last
        self._straight = not self._bytes and not self._faulty and self._log is None


def is_data(frame: Any) -> bool:
    """Whether the frame is on the lane UP or DOWN, or brings a body straight to a receiver."""
    if type(frame) is InEpoch:
        frame = frame.frame
    return type(frame) is Data and (frame.lane != CONTROL or type(frame.items[0]) is Body)
