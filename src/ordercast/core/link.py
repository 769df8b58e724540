"""One site's end of the link to one peer: FIFO lanes over a network that loses, doubles, reorders.

[GS] Appendix I numbers the items that a sender sends to each receiver. Errata GS-1, 2, 4 and 6 are
mended: items are never overwritten, every item has a number, items below the expected number are
dropped, missing items are asked for, and items that are not acknowledged are sent again.

An item is `got` when the peer holds it in order, `done` when the peer has dealt with it durably:
then it is dropped here. At most `link_items` with `link_bytes` in all are under way on a lane (one
item alone may be larger), and at most `link_items` wait out of order. A receiver without room does
not acknowledge items: that holds the sender back.

Small new items on CONTROL ride in a data frame that leaves at the same moment. Items that no site
waits for linger a little until there is such a frame (docs/stability.md, "With data").
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TypeAlias, cast

from msgspec.structs import replace

from ordercast.model.groups import Site
from ordercast.model.limits import RIDERS
from ordercast.model.options import NEVER, Limits, Timing
from ordercast.wire.frames import (
    CONTROL,
    DOWN,
    LANES,
    LIGHT_ITEMS,
    UP,
    Ack,
    Acks,
    Data,
    Frame,
    Item,
    LightItem,
    Repair,
    Rider,
)
from ordercast.wire.items import total_weight

Sends: TypeAlias = list[tuple[Site, Frame]]

Take: TypeAlias = Callable[[Site, int, Item], bool]
"""Hand an item up; False: no room now, keep it and try again on `resume`."""

_LIGHT = 16_384  # a frame of more bytes takes no rider


class Outgoing:
    """The sending end of a lane: items that are queued for the peer or under way."""

    __slots__ = (
        "done", "got", "items", "last", "owed_at", "resend_at", "restored", "sent", "timed",
        "timed_at", "took", "wait", "weight",
    )  # fmt: skip

    def __init__(self, wait: int) -> None:
        self.items: deque[Item] = deque()  # numbers done+1 … last
        self.done = self.got = self.sent = self.last = 0
        self.weight = 0  # bytes sent and not done
        self.restored = 0  # how many items a restart brought back, done or not
        # Each lane has its own time: progress on one must not put off another's loss.
        self.resend_at = NEVER
        self.wait = wait  # until items are sent again; it doubles each time
        self.timed = self.timed_at = 0  # an item whose round trip is timed, and its start
        self.took = 0  # the longest round trip lately; it fades
        self.owed_at = 0  # since when the peer owes an acknowledgement, if it does

    def heard(self, now: int, timing: Timing, *, soon: bool) -> None:
        """The peer has got more than before: set the time until the next items are sent again.

        An item that was sent twice is timed from the first time: perhaps too long, but otherwise
        answers slower than `wait` would never be timed. `soon`: wait only twice as long as an
        answer takes."""
        most = timing.resend_after
        if 0 < self.timed <= self.got:
            took, faded = now - self.timed_at, self.took - self.took // 8
            if took > most:
                took = most
            if took < faded:
                took = faded
            self.took, self.timed = took, 0
        wait = most
        if soon and self.took:
            wait = 2 * self.took
            if wait < timing.repair_again:
                wait = timing.repair_again
            if wait > most:
                wait = most
        self.wait, self.resend_at, self.owed_at = wait, now + wait, now

    def owed_since(self, time: int) -> bool:
        """Whether the peer has owed an acknowledgement since before that time, without progress."""
        return self.sent > self.got and self.owed_at < time

    def weigh(self) -> None:
        """Compute `weight` anew, from the items that are sent and not done."""
        self.weight = total_weight(islice(self.items, self.sent - self.done))

    def admit(self, limits: Limits) -> int:
        """The last item that there is room for. `weight` counts the items up to it."""
        sent, limit = self.sent, self.done + limits.link_items
        if self.last < limit:
            limit = self.last
        if limit - sent > 1 or (sent < limit and self.weight):
            return self._within_bytes(sent, limit, limits.link_bytes)
        if sent < limit:  # an item alone may have any size
            self.weight = self.items[sent - self.done].weight()
        return limit

    def _within_bytes(self, sent: int, limit: int, most: int) -> int:
        weight = self.weight
        for item in islice(self.items, sent - self.done, limit - self.done):
            more = weight + item.weight()
            if weight and more > most:
                break
            weight = more
            sent += 1
        self.weight = weight
        return sent

    def cut(self, first: int, last: int, limits: Limits) -> list[tuple[int, tuple[Item, ...]]]:
        """Items first … last, with the number of the first, in pieces for one frame each."""
        pieces: list[tuple[int, tuple[Item, ...]]] = []
        items: list[Item] = []
        size, number = 0, first
        for item in islice(self.items, first - self.done - 1, last - self.done):
            weight = item.weight()
            if items and (len(items) == limits.frame_items or size + weight > limits.frame_bytes):
                pieces.append((number, tuple(items)))
                number += len(items)
                items, size = [], 0
            items.append(item)
            size += weight
        if items:
            pieces.append((number, tuple(items)))
        return pieces

    def start_at(self, number: int) -> None:
        """All items up to `number` were done before a restart. Nothing is queued yet."""
        self.done = self.got = self.sent = self.last = number


class Incoming:
    """The receiving end of a lane: items that came from the peer."""

    __slots__ = ("blocked", "done", "early", "early_bytes", "got", "repair_at", "unacknowledged")

    def __init__(self) -> None:
        self.early: dict[int, Item] = {}  # above `got`: out of order, or without room
        self.early_bytes = 0
        self.got = self.done = 0
        self.repair_at = NEVER  # when a hole may be asked for again
        self.unacknowledged = 0  # items that came or were let go since the last acknowledgement
        self.blocked = False  # the next item is here and waits for room

    def keep(self, number: int, item: Item, most: int) -> None:
        """Keep an item that cannot be handed up yet, unless it came before. An honest peer has at
        most `most` bytes under way, or one item: more is dropped, and was not acknowledged. The
        next item in order is always kept, so a lane never stands still."""
        if number not in self.early:
            size = item.weight()
            if number == self.got + 1 or not self.early or self.early_bytes + size <= most:
                self.early[number] = item
                self.early_bytes += size

    def hand_up(self, peer: Site, lane: int, take: Take) -> bool:
        """Hand up the items that are next in order. Returns whether there was no room for one."""
        early = self.early
        self.blocked = False
        while (item := early.pop(self.got + 1, None)) is not None:
            # A mistake is raised here, and the item is gone: the peer must send it again.
            self.early_bytes -= item.weight()
            if not take(peer, lane, item):
                early[self.got + 1] = item
                self.early_bytes += item.weight()
                self.blocked = True
                break
            self.got += 1
        return self.blocked


class Link:
    """`boot` is ours; the peer's is learned from its frames."""

    def __init__(
        self,
        peer: Site,
        boot: int,
        limits: Limits,
        timing: Timing,
        *,
        lasting: bool = True,
        up_early: bool = False,
    ) -> None:
        """`lasting`: the numbers of UP and DOWN go on through restarts. Otherwise these lanes begin
        anew when either site restarts; unacknowledged items go first, under new numbers.
        `up_early`: UP leaves with DOWN, and waits for no disk."""
        self.peer = peer
        self.up_early = up_early
        self.anew = CONTROL if lasting else UP  # the first lane that begins anew
        self.boot = boot
        self.peer_boot = 1
        self.limits = limits
        self.timing = timing
        self.outgoing = [Outgoing(timing.resend_after) for _ in LANES]
        self.incoming = [Incoming() for _ in LANES]
        self.blocked = False  # on some lane an item waits for room
        self.ack_at = NEVER
        self.armed = NEVER  # when the site's timer for this link goes off
        self.resend_at = NEVER  # the earliest of the lanes'
        self.repair_at = NEVER  # the earliest of the lanes'
        self._repairs: list[tuple[int, int, int]] = []  # (lane, first, last) to ask for
        self._again: list[Data] = []  # to be sent again
        self.urgent = False  # one of these two lists is not empty, or queued items have room
        self.congested = False  # the driver cannot take more for this peer now
        self._rewind = False  # the connection is new: send again what the peer lacks
        self.lost: Iterable[Item] = ()  # items on CONTROL, when the peer last restarted
        self.linger_at = NEVER  # when items that linger leave without data
        self._data_at = -NEVER  # when data last left
        self._counts = False  # an item on CONTROL, of this burst, must wait for the disk
        self.unstored = 0  # bursts that wait for the disk: nothing may overtake their CONTROL

    # --- sending ------------------------------------------------------------------------------

    def push(self, lane: int, item: Item) -> int:
        """Queue an item. Returns how many items are not done on that lane."""
        out = self.outgoing[lane]
        out.items.append(item)
        out.last += 1
        return out.last - out.done

    def control(self, item: Item) -> None:
        """Queue an item on CONTROL. It leaves when this burst is durable."""
        self.push(CONTROL, item)
        self.linger_at = NEVER
        self._counts = True

    def report(self, item: Item, now: int, until: int, *, counts: bool) -> None:
        """Queue an item of stability that may linger. `counts`: it must wait for the disk."""
        out = self.outgoing[CONTROL]
        rare = now - self._data_at >= until - now  # data is rare: it is not worth waiting for
        must_leave = rare or (out.sent < out.last and self.linger_at == NEVER)
        self.linger_at = NEVER if must_leave else min(until, self.linger_at)
        out.items.append(item)
        out.last += 1
        self._counts = self._counts or counts

    def flush(self, now: int, down: Sends, late: Sends) -> bool:
        """Send what may be sent now: DOWN, and UP if it may be early, into `down`; all else, which
        may promise something, into `late`. Returns whether this burst counts as `unstored`, until
        the caller counts down when the late frames have left."""
        before, early = len(late), len(down)
        up = down if self.up_early else late
        if self.linger_at <= now:
            self.linger_at = NEVER  # it may leave by itself now
        if self.urgent:
            for frame in self._again:
                way = down if frame.lane == DOWN else up if frame.lane == UP else late
                way.append((self.peer, frame))
            for lane, first, last in self._repairs:
                late.append((self.peer, Repair(self.boot, self.peer_boot, lane, first, last)))
            self._again, self._repairs, self.urgent = [], [], False
        if not self.congested:  # else acknowledgements only: small, and peers wait for them
            to_primary, to_child, other = self.outgoing
            if to_child.sent < to_child.last:
                self._send_new(now, DOWN, to_child, down)
            if to_primary.sent < to_primary.last:
                self._send_new(now, UP, to_primary, up)
            if other.sent < other.last:
                self._send_control(now, other, down, early, late, before)
        if self.ack_at != NEVER:
            if (
                len(late) > before
                and type(first_late := late[before][1]) is Data
                and (down is not late or first_late.lane != DOWN or self._is_light(first_late))
            ):
                late[before] = (self.peer, replace(first_late, acks=self._acks()))
            elif self.ack_at <= now:
                late.append((self.peer, Ack(self.boot, self.peer_boot, self._acks())))
        if not self._counts:
            return False
        self._counts = False
        if down is late:
            return False
        self.unstored += 1
        return True

    def _is_light(self, frame: Data) -> bool:
        """Whether acknowledgements go with this relay. A heavy relay is encoded once for all
        children; with acknowledgements it would be encoded for each."""
        under_way = self.outgoing[DOWN].weight  # this frame, and all that is not done
        return under_way <= _LIGHT or total_weight(frame.items) <= _LIGHT

    def _send_control(
        self, now: int, out: Outgoing, down: Sends, early: int, late: Sends, before: int
    ) -> None:
        """Send the new items of CONTROL: in a data frame that leaves now, if that is allowed; else
        in one that waits for the disk; else in a frame of their own. They stay while they may
        linger."""
        if out.last - out.sent == 1:  # the common case
            light = type(out.items[-1]) in LIGHT_ITEMS
        else:
            light = out.last - out.sent <= RIDERS and all(
                type(item) in LIGHT_ITEMS for item in islice(out.items, out.sent - out.done, None)
            )
        may_leave = down is late or not (self._counts or self.unstored)
        if light and may_leave and len(down) > early and self._ride(now, out, down):
            return
        if light and len(late) > before and self._ride(now, out, late):
            self._counts = True
        elif self.linger_at == NEVER:
            self._counts = True
            self._send_new(now, CONTROL, out, late)

    def _ride(self, now: int, out: Outgoing, sends: Sends) -> bool:
        """Send the new items in the last of these frames, if that is data and light. A heavy frame
        is encoded once for all children; with a rider it would be encoded for each."""
        frame = sends[-1][1]
        if type(frame) is not Data or frame.lane == CONTROL:
            return False
        weight = total_weight(frame.items)
        weight += total_weight(islice(out.items, out.sent - out.done, None))
        first = out.sent + 1
        if weight > _LIGHT or (last := out.admit(self.limits)) < first:
            return False
        items = tuple(islice(out.items, first - out.done - 1, last - out.done))
        rider = Rider(first, cast("tuple[LightItem, ...]", items))
        sends[-1] = (self.peer, replace(frame, rider=rider))
        self._under_way(now, out, last)
        self.linger_at = NEVER
        return True

    def _send_new(self, now: int, lane: int, out: Outgoing, sends: Sends) -> None:
        sent, limit, limits = out.sent, out.last, self.limits
        if limit == sent + 1 <= out.done + limits.link_items:  # the common case: one new item
            item = out.items[-1]
            weight = out.weight + item.weight()
            if out.weight and weight > limits.link_bytes:
                return
            out.weight = weight
            sends.append((self.peer, Data(self.boot, self.peer_boot, lane, limit, (item,))))
        else:
            limit = out.admit(limits)
            if sent >= limit:
                return
            for frame in self._cut(lane, sent + 1, limit):
                sends.append((self.peer, frame))
        self._under_way(now, out, limit)
        if lane != CONTROL:
            self._data_at = now

    def _under_way(self, now: int, out: Outgoing, last: int) -> None:
        if out.sent == out.got:
            out.owed_at = now
        out.sent = last
        if not out.timed:
            out.timed, out.timed_at = last, now
        if out.resend_at == NEVER:
            out.resend_at = now + out.wait
            if out.resend_at < self.resend_at:
                self.resend_at = out.resend_at

    def _cut(self, lane: int, first: int, last: int) -> list[Data]:
        """Items first … last as frames within the limits on items and bytes."""
        cut = self.outgoing[lane].cut(first, last, self.limits)
        return [Data(self.boot, self.peer_boot, lane, number, items) for number, items in cut]

    def acknowledged(self, now: int, acks: Acks) -> list[tuple[int, list[Item]]]:
        """Take the peer's acknowledgements. Returns, per lane, the items that are done now."""
        finished: list[tuple[int, list[Item]]] = []
        progress = False
        for lane, got, done in acks:
            out = self.outgoing[lane]
            # After a restart the peer may have more than we have queued again so far.
            if got > out.last:
                got, done = out.last, min(done, out.last)
            if got > out.got:
                out.got = got
                if got > out.sent:
                    out.sent = got
                    out.weigh()
                # An item on CONTROL is small, others often wait for it, and perhaps no later item
                # shows the loss.
                out.heard(now, self.timing, soon=lane == CONTROL)
                progress = True
            if done > out.done:
                popleft = out.items.popleft
                gone = [popleft()]
                if done > out.done + 1:
                    gone += [popleft() for _ in range(done - out.done - 1)]
                finished.append((lane, gone))
                out.done = done
                out.weight = out.weight - total_weight(gone) if done < out.sent else 0
                if not out.items:
                    out.resend_at = NEVER
                elif out.sent < out.last:
                    self.urgent = True  # items that waited for the window may go
                progress = True
        if progress:
            self._find_resend()
        if self._rewind:
            self._rewind = False
            for out in self.outgoing:
                out.sent = out.got
                out.weigh()
            self.urgent = True
        return finished

    def _find_resend(self) -> None:
        up, down, control = self.outgoing
        at = up.resend_at
        if down.resend_at < at:
            at = down.resend_at
        if control.resend_at < at:
            at = control.resend_at
        self.resend_at = at

    # --- receiving ----------------------------------------------------------------------------

    def heard(self, boot: int) -> bool | None:
        """Compare the boot in a frame: None for a late frame, True when the peer has restarted."""
        if boot == self.peer_boot:
            return False
        if boot < self.peer_boot:
            return None
        self.peer_boot = boot
        for lane in LANES[self.anew :]:
            before, out = self.outgoing[lane], Outgoing(self.timing.resend_after)
            if lane == CONTROL:
                self.lost = before.items
            else:
                out.items, out.last = before.items, len(before.items)
                out.restored = before.restored
            self.outgoing[lane] = out
            self.incoming[lane] = Incoming()
        self._find_resend()
        for out in self.outgoing:
            out.got = out.sent = out.done
            out.weight = 0
        self._again, self._repairs, self.urgent = [], [], False
        self.linger_at = NEVER
        return True

    def receive(self, now: int, frame: Data, take: Take) -> None:
        self._receive(now, frame, frame.lane, frame.number, frame.items, take)
        rider = frame.rider
        if rider is not None:
            self._receive(now, frame, CONTROL, rider.number, rider.items, take)

    def _receive(
        self, now: int, frame: Data, lane: int, number: int, items: tuple[Item, ...], take: Take
    ) -> None:
        if lane >= self.anew and frame.of != self.boot:
            self.ack_at = now  # the peer does not know that we have restarted
            return
        inc = self.incoming[lane]
        if number == inc.got + 1 and not inc.early:
            for item in items:
                if inc.blocked or not take(self.peer, lane, item):
                    self.blocked = inc.blocked = True
                    inc.keep(number, item, self.limits.link_bytes)
                else:
                    inc.got += 1
                number += 1
            inc.unacknowledged += len(items)
        else:
            self._receive_early(now, inc, lane, number, items, take)
        if inc.unacknowledged >= self.timing.ack_every:
            self.ack_at = now
        elif self.ack_at == NEVER:
            self.ack_at = now + self.timing.ack_delay

    def _receive_early(
        self, now: int, inc: Incoming, lane: int, number: int, items: tuple[Item, ...], take: Take
    ) -> None:
        last = number + len(items) - 1
        if last <= inc.got:
            inc.unacknowledged += 1
            self.ack_at = now  # a repeat: our acknowledgement was lost
            return
        for item in items:
            if inc.got < number <= inc.got + self.limits.link_items:
                inc.keep(number, item, self.limits.link_bytes)
            number += 1
        inc.unacknowledged += len(items)
        self.blocked = inc.hand_up(self.peer, lane, take) or self.blocked
        if inc.early and not inc.blocked:
            self._ask(now, lane, inc)

    def resume(self, now: int, take: Take) -> None:
        """There is room again: hand up the waiting items, DOWN before UP."""
        self.blocked = False
        for lane in (1, 0):
            inc = self.incoming[lane]
            if inc.early:
                self.blocked = inc.hand_up(self.peer, lane, take) or self.blocked
                inc.unacknowledged += 1
                self.ack_at = min(self.ack_at, now + self.timing.ack_delay)

    def _ask(self, now: int, lane: int, inc: Incoming) -> None:
        """Ask for the first hole of the lane, at most once in `repair_again`."""
        if inc.repair_at == NEVER or now >= inc.repair_at:
            self._repairs.append((lane, inc.got + 1, min(inc.early) - 1))
            self.urgent = True
            inc.repair_at = now + self.timing.repair_again
            self.repair_at = min(inc.repair_at, self.repair_at)

    def repair(self, now: int, frame: Repair) -> None:
        out = self.outgoing[frame.lane]
        first, last = max(frame.first, out.done + 1), min(frame.last, out.sent)
        if first <= last and len(self._again) < self.limits.link_items:  # however often it asks
            self._again.extend(self._cut(frame.lane, first, last))
            self.urgent = True
            out.resend_at = now + out.wait
            self._find_resend()

    def connected(self, now: int) -> None:
        """The connection is new, and frames of the old one may be lost: tell the peer how much we
        have, and go on after the last item that it has."""
        for inc in self.incoming:
            inc.unacknowledged += 1
        self.ack_at = now
        self._rewind = True

    def forget_early(self) -> None:
        """Drop the items that wait for earlier ones or for room. None was acknowledged."""
        for inc in self.incoming:
            inc.early, inc.early_bytes, inc.blocked = {}, 0, False
        self.blocked = False

    # --- acknowledging and time ---------------------------------------------------------------

    def _acks(self) -> Acks:
        self.ack_at = NEVER
        up, down, control = self.incoming
        acks: Acks = ()
        if up.unacknowledged:
            acks = ((UP, up.got, up.done),)
            up.unacknowledged = 0
        if down.unacknowledged:
            acks = (*acks, (DOWN, down.got, down.got))
            down.unacknowledged = 0
        if control.unacknowledged:
            acks = (*acks, (CONTROL, control.got, control.got))
            control.unacknowledged = 0
        return acks

    def alarm(self, now: int) -> None:
        if self.repair_at <= now:
            for lane, inc in enumerate(self.incoming):
                if inc.repair_at <= now:
                    inc.repair_at = NEVER
                if inc.early and not inc.blocked:
                    self._ask(now, lane, inc)
            self.repair_at = min(inc.repair_at for inc in self.incoming)
        if self.resend_at <= now:
            self._resend(now)

    def _resend(self, now: int) -> None:
        """Send again the first frame of each lane that is due; wait longer each time."""
        for lane, out in enumerate(self.outgoing):
            if out.resend_at > now:
                continue
            if out.sent == out.done:
                out.resend_at = NEVER
                continue
            first = out.got + 1 if out.got < out.sent else out.done + 1
            self._again.append(self._cut(lane, first, out.sent)[0])
            self.urgent = True
            out.wait = min(2 * out.wait, self.timing.resend_at_most)
            out.resend_at = now + out.wait
        self._find_resend()

    def idle(self, restless: tuple[type, ...] = ()) -> bool:
        """Whether nothing is under way, apart from items of these kinds."""
        return not any(inc.early for inc in self.incoming) and all(
            type(item) in restless for out in self.outgoing for item in out.items
        )


class LinkAlarms:
    """When the links of a site want to be called: one timer for all of them. Entries of the heap
    whose link has been armed anew are stale; the first entry never is."""

    def __init__(self, links: Mapping[Site, Link]) -> None:
        self._links = links
        self.heap: list[tuple[int, Site]] = []

    def arm(self, link: Link) -> None:
        """Call this when the link may want to be called earlier than before."""
        at = armed = link.armed
        if link.ack_at < at:
            at = link.ack_at
        if link.resend_at < at:
            at = link.resend_at
        if link.repair_at < at:
            at = link.repair_at
        if link.linger_at < at:
            at = link.linger_at
        if at < armed:
            link.armed = at
            heapq.heappush(self.heap, (at, link.peer))

    def due(self, now: int) -> list[Link]:
        """The links that wanted to be called by now. They are no longer armed."""
        heap, links, found = self.heap, self._links, list[Link]()
        while heap:
            at, peer = heap[0]
            link = links[peer]
            if link.armed == at:
                if at > now:
                    break
                link.armed = NEVER
                found.append(link)
            heapq.heappop(heap)
        return found
