"""Room and seqs for this site's own messages: asked for once, when the application sends.

A reservation is a batch whose messages have their seqs and their room in the window. Reservations
stand in one queue, in the order in which they were made. `hand_over` accepts them in that order at
the end of the burst, and asks for neither room nor seq again (docs/core.md, "Admission").

Small messages to one group gather in one reservation of up to `BATCH_BYTES`. In causal order a
message to another group ends it: the order of sending is then the order of accepting.

A sender that finds no room may stand in line. The first in line is given room as soon as there is
enough for it, and nobody overtakes it: so a large batch does not wait for ever behind small ones.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

from ordercast.core.batches import (
    NO_EXTRAS,
    PER_MESSAGE,
    Extras,
    batch_bytes,
    packed_body,
    require_message,
    without_extras,
)
from ordercast.core.epochs.layout import Domain, Layout
from ordercast.core.epochs.streams.tickets import has_ticket, require_ticket
from ordercast.core.epochs.window import Window
from ordercast.model.envelope import HeaderRun
from ordercast.model.errors import Error, NotInMajority, WindowFull
from ordercast.model.features import HEADERS
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group
from ordercast.model.messages import Requests, is_client
from ordercast.model.options import Options

BATCH_BYTES = 65_536  # the most that a batch of gathered messages has

RequestName: TypeAlias = tuple[bytes, int]
"""A client's id and the number it gave to what it sends: the same one is taken once. Of a producer
(`producer_id`), and with an id of the sender's own (`by_id`), each copy is taken, and one of them
is delivered."""

SeqRange: TypeAlias = tuple[Group, int, int]
"""The group, first seq and count of a batch."""

AdmittedRequest: TypeAlias = tuple[bytes, int, Group, int, int]
"""A request, and the group, first seq and count that it became."""


class Reservation:
    """A batch with its seqs and its room, not accepted yet; more messages may still join it."""

    __slots__ = (
        "group", "groups", "headers", "members", "payloads", "request", "sent_ns", "seq", "size",
    )  # fmt: skip

    def __init__(
        self,
        group: Group,
        members: tuple[Site, ...],
        seq: int,
        payloads: list[bytes],
        size: int,
        sent_ns: int = 0,
        extras: Extras = NO_EXTRAS,
        request: RequestName | None = None,
    ) -> None:
        self.group = group
        self.members = members  # empty for a named group
        self.seq = seq  # the seq of the first message
        self.payloads = payloads
        self.size = size
        self.sent_ns = sent_ns  # when its first message was reserved; 0: it is not told
        self.headers = list(extras.headers)
        self.groups = extras.groups
        self.request = request

    def join(self, payload: bytes, size: int, extras: Extras) -> None:
        """One message more."""
        if extras.headers:
            place = len(self.payloads)
            self.headers += [HeaderRun(place, 1, run.items) for run in extras.headers]
        self.payloads.append(payload)
        self.size += size

    def body(self) -> bytes:
        return packed_body(self.payloads, self.sent_ns, self.headers, self.groups)

    def requests(self) -> Requests | None:
        """The client's request that this batch is, in the form that a batch carries."""
        if self.request is None:
            return None
        client, number = self.request
        return Requests(client, ((number, len(self.payloads)),))


class _Packed(Reservation):
    """A batch that nothing joins any more: its size is known exactly."""

    __slots__ = ("_body",)

    def __init__(
        self,
        group: Group,
        members: tuple[Site, ...],
        seq: int,
        payloads: list[bytes],
        sent_ns: int,
        extras: Extras,
        request: RequestName | None,
    ) -> None:
        self._body = packed_body(payloads, sent_ns, extras.headers, extras.groups)
        size = len(self._body)
        super().__init__(group, members, seq, payloads, size, sent_ns, extras, request)

    def body(self) -> bytes:
        return self._body


class PlaceInLine:
    """A place in line, with the messages and bytes that wait for room. Once `granted`, the room is
    the holder's until it leaves the line."""

    __slots__ = ("granted", "messages", "size")

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size
        self.granted = False


class _Quick:
    """While this is in force, messages join a reservation without any other check: `left` more
    bytes, up to the seq `upto`. They are counted later, all at once."""

    __slots__ = ("append", "began", "group", "left", "seq", "upto")

    def __init__(self, batch: Reservation, group: Group, left: int, seq: int, upto: int) -> None:
        self.group = group  # the very string that the caller has
        self.append: Callable[[bytes], None] = batch.payloads.append
        self.left = self.began = left
        self.seq = seq  # the seq of the last message
        self.upto = upto


class Origin(Protocol):
    """The member whose messages these are."""

    name: Site
    layout: Layout
    options: Options
    window: Window

    def require_open(self) -> None:
        """Raises NotInMajority while the site may accept nothing."""

    def domain(self, group: Group, members: Sequence[Site]) -> Domain:
        """The domain of a batch. Raises an Error that says why there is none."""

    def accept(self, now: int, batch: Reservation) -> bool:
        """Make it this site's own batch. False: this site orders the group, and has no room."""


class Admission:
    """State: the queue of reservations, the last seq reserved per group, and the line."""

    def __init__(self, origin: Origin) -> None:
        options = origin.options
        limits = options.limits
        self._origin = origin
        self._window = origin.window
        self._most_messages = limits.window_messages
        self._most_bytes = limits.window_bytes
        self._message_bytes = limits.message_bytes
        self._causal = options.causal
        self.queue: deque[Reservation] = deque()  # the oldest first
        self._filling: dict[Group, Reservation] = {}  # reservations that messages may join
        self._last: dict[Group, int] = {}  # the last seq reserved, of a named group
        self._last_listed: dict[Group, int] = {}  # the same, of an implicit group
        self._lists: dict[Group, tuple[Site, ...]] = {}  # the members of implicit groups
        self.requested: dict[RequestName, SeqRange] = {}  # clients' requests in the queue
        self._messages = self._bytes = 0  # reserved and not accepted
        self._granted_messages = self._granted_bytes = 0  # room of those in line
        self._line: deque[PlaceInLine] = deque()
        self._quick: _Quick | None = None
        self._unstable = (0, 0)  # messages and bytes of the window, when room was last looked for
        self._is_quick = limits.message_bytes >= BATCH_BYTES  # else each size is checked
        self._followed = origin.layout.lasts  # those of the layout that `follow` has seen
        self._domains: Mapping[int, Domain] | None = None  # the same
        self._was_open = False  # and whether the site accepted messages then
        self._frozen: dict[Group, None] = {}  # groups whose members are all absent

    # --- reserving --------------------------------------------------------------------------------

    def join(self, group: object, payload: bytes) -> int:
        """The seq of a message that joins the reservation of the message before it, which went to
        the very same group. 0: it cannot join; use `reserve`."""
        quick = self._quick
        if quick is None or group is not quick.group or type(payload) is not bytes:
            return 0
        left, seq = quick.left - len(payload) - PER_MESSAGE, quick.seq + 1
        if left < 0 or seq > quick.upto:
            return 0
        quick.left, quick.seq = left, seq
        quick.append(payload)
        return seq

    def count_joined(self) -> None:
        """Count the messages that have joined. The next message is checked in full."""
        quick = self._quick
        if quick is not None:
            self._quick = None
            size = quick.began - quick.left
            self._filling[quick.group].size += size
            self._bytes += size
            self._messages += quick.seq - self._last[quick.group]
            self._last[quick.group] = quick.seq

    def reserve(
        self,
        group: Group,
        payload: bytes,
        sent_ns: int = 0,
        extras: Extras = NO_EXTRAS,
        *,
        in_line: PlaceInLine | None = None,
    ) -> int:
        """The seq of a message to a named group. 0: there is no room now, or others wait for room.
        `sent_ns`: the time. Messages that join a batch later have the time of its first one.
        `in_line`: the sender was granted this room in line; with 0 it goes on waiting there.
        Raises an Error if the message can go nowhere."""
        if self._quick is not None:
            self.count_joined()
        if HEADERS not in self._origin.layout.features:
            sent_ns, extras = 0, self._told(extras)
        if group not in self._last:
            self._begin(self._last, group, ())
        if type(payload) is not bytes or len(payload) > self._message_bytes:
            payload = require_message(payload, self._message_bytes)
        if group in self._frozen:
            self._origin.domain(group, ())  # raises if there is none
        size = len(payload) + PER_MESSAGE + extras.size
        if not self._admits(1, size, in_line, extras):
            return 0
        seq = self._last[group] = self._last[group] + 1
        batch = self._filling.get(group)
        if batch is None or batch.size + size > BATCH_BYTES:
            batch = Reservation(group, (), seq, [payload], size, sent_ns, extras)
            self.queue.append(batch)
            if self._causal:
                self._filling.clear()
            self._filling[group] = batch
            self._messages += 1
            self._bytes += size
            return seq
        batch.join(payload, size, extras)
        self._messages += 1
        self._bytes += size
        if self._is_quick and not self._line and in_line is None:
            self._quicken(batch, group, seq)  # one has joined: there may be many more
        return seq

    def _quicken(self, batch: Reservation, group: Group, seq: int) -> None:
        """How many messages may still join this batch. The number only shrinks when a waiting
        sender is given room, and then `count_joined` has ended this."""
        unstable, unstable_bytes = self._unstable
        messages = self._most_messages - unstable - self._granted_messages - self._messages
        size = self._most_bytes - unstable_bytes - self._granted_bytes - self._bytes
        self._quick = _Quick(batch, group, min(size, BATCH_BYTES - batch.size), seq, seq + messages)

    def reserve_batch(
        self,
        group: Group,
        payloads: list[bytes],
        request: RequestName | None = None,
        sent_ns: int = 0,
        extras: Extras = NO_EXTRAS,
        *,
        in_line: PlaceInLine | None = None,
    ) -> int:
        """The last seq of a batch that is ordered as one. In all else as `reserve`."""
        self.count_joined()
        if HEADERS not in self._origin.layout.features:
            sent_ns, extras = 0, self._told(extras)
        size = batch_bytes(payloads, self._message_bytes, extras)
        if group not in self._last:
            self._begin(self._last, group, ())
        if group in self._frozen:
            self._origin.domain(group, ())  # raises if there is none
        if request is not None:
            require_ticket(self._origin.layout, group, *request)
        batch = Reservation(group, (), 0, payloads, size, sent_ns, extras, request)
        return self._reserve(self._last, batch, in_line, extras)

    def reserve_listed(
        self,
        sites: Sequence[Site],
        payloads: list[bytes],
        request: RequestName | None = None,
        sent_ns: int = 0,
        extras: Extras = NO_EXTRAS,
        *,
        in_line: PlaceInLine | None = None,
    ) -> tuple[Group, int]:
        """As `reserve_batch`, for listed sites. Returns the name of their group, and the last
        seq."""
        self.count_joined()
        if HEADERS not in self._origin.layout.features:
            sent_ns, extras = 0, self._told(extras)
        size = batch_bytes(payloads, self._message_bytes, extras)
        members = self._origin.layout.listed(sites)
        group = implicit_group(members)
        if group not in self._last_listed:
            self._begin(self._last_listed, group, members)
            self._lists[group] = members
        else:
            self._origin.domain(group, members)  # raises if there is none
        if request is not None:
            require_ticket(self._origin.layout, group, *request)
        batch = Reservation(group, members, 0, payloads, size, sent_ns, extras, request)
        return group, self._reserve(self._last_listed, batch, in_line, extras)

    def _begin(self, last: dict[Group, int], group: Group, members: tuple[Site, ...]) -> None:
        """Look up the last seq of the group, before the first message of this run to it."""
        self._origin.domain(group, members)  # raises if there is none
        self._window.require_stream(group, members)
        last[group] = self._window.next_seq(group) - 1

    def _reserve(
        self,
        last: dict[Group, int],
        batch: Reservation,
        in_line: PlaceInLine | None,
        extras: Extras,
    ) -> int:
        count, group = len(batch.payloads), batch.group
        if not self._admits(count, batch.size, in_line, extras):
            return 0
        if self._causal:
            self._filling.clear()
        self._filling.pop(group, None)
        batch.seq = last[group] + 1
        self.queue.append(batch)
        self._messages += count
        self._bytes += batch.size
        if batch.request is not None:
            self.requested[batch.request] = (group, batch.seq, count)
        last[group] += count
        return last[group]

    def _told(self, extras: Extras) -> Extras:
        """What of the extras goes with messages, where the layout has not adopted `HEADERS`."""
        return extras if extras.headers and not self.founded else without_extras(extras)

    @property
    def founded(self) -> bool:
        """Whether it is known which features the cluster was founded with."""
        return self._origin.layout.count > 0

    def _admits(
        self, messages: int, size: int, in_line: PlaceInLine | None, extras: Extras
    ) -> bool:
        """Whether there is room and nobody in line, or the room was granted in line. No seq is
        given while the site is closed, or before `follow` has looked at a new layout; nor, with
        headers, before the cluster is founded."""
        if self._causal:
            self._window.require_past()
        current = self._followed is self._origin.layout.lasts  # as `_is_current`
        ready = current and self.open() and (not extras.headers or self.founded)
        if in_line is None:
            return ready and not self._line and self._has_room(messages, size)
        if not ready:
            self._take_back(in_line)
        return in_line.granted

    def _is_current(self) -> bool:
        """Whether `follow` has looked at this layout."""
        return self._followed is self._origin.layout.lasts

    def open(self) -> bool:
        """Whether the site accepts messages at all, as things stand."""
        try:
            self._origin.require_open()
        except NotInMajority:
            return False
        return True

    def _has_room(self, messages: int, size: int) -> bool:
        """One batch is always let in, so that a batch larger than the window can go."""
        unstable, unstable_bytes = self._unstable = self._window.unstable_both()
        under_way = unstable + self._messages + self._granted_messages
        if not under_way:
            return True
        if under_way + messages > self._most_messages:
            return False
        under_way_bytes = unstable_bytes + self._bytes + self._granted_bytes
        return under_way_bytes + size <= self._most_bytes

    def window_full(self) -> WindowFull:
        unstable, unstable_bytes = self._window.unstable_both()
        return WindowFull(
            f"{unstable + self.messages:,} messages"
            f" ({unstable_bytes + self._bytes:,} bytes) are accepted and not yet"
            f" stable; the window is {self._most_messages:,} messages or {self._most_bytes:,} bytes"
        )

    # --- the line ---------------------------------------------------------------------------------

    def stand_in_line(self, messages: int, size: int) -> PlaceInLine:
        """Wait for so much room. `grant` says when it is there."""
        self.count_joined()  # nobody overtakes it
        in_line = PlaceInLine(messages, size)
        self._line.append(in_line)
        return in_line

    def leave_line(self, in_line: PlaceInLine) -> None:
        """The room that was granted is reserved now, or not needed any more."""
        self._line.remove(in_line)
        self._take_back(in_line)

    def _take_back(self, in_line: PlaceInLine) -> None:
        if in_line.granted:
            in_line.granted = False
            self._granted_messages -= in_line.messages
            self._granted_bytes -= in_line.size

    def grant(self) -> list[PlaceInLine]:
        """Grant room to those in line, the first ones first. Returns those that get it now."""
        granted: list[PlaceInLine] = []
        if not self._line or not self._is_current() or not self.open():
            return granted
        for in_line in self._line:
            if in_line.granted:
                continue  # its sender is about to leave the line
            if not self._has_room(in_line.messages, in_line.size):
                break
            in_line.granted = True
            granted.append(in_line)
            self._granted_messages += in_line.messages
            self._granted_bytes += in_line.size
        return granted

    # --- accepting --------------------------------------------------------------------------------

    def hand_over(self, now: int) -> tuple[list[AdmittedRequest], bool]:
        """Accept the reservations. Returns the clients' requests among them, and False if this site
        has no room to order one of them (call this again soon)."""
        if self._quick is not None:
            self.count_joined()
        admitted: list[AdmittedRequest] = []
        if not self.queue:
            return admitted, True
        self._filling.clear()
        if not self._is_current() or not self.open():
            return admitted, True  # the caller asks again when that has changed
        queue = self.queue
        frozen: deque[Reservation] = deque()
        while queue:
            batch = queue[0]
            try:
                accepted = self._origin.accept(now, batch)
            except NotInMajority:  # its members are absent: it stays, and others pass it
                if self._causal:
                    return admitted, True
                frozen.append(queue.popleft())
                continue
            if not accepted:
                queue.extendleft(reversed(frozen))
                return admitted, False
            queue.popleft()
            self._let_go(batch)
            if batch.request is not None and is_client(batch.request[0]):
                admitted.append((*batch.request, batch.group, batch.seq, len(batch.payloads)))
        queue.extend(frozen)
        return admitted, True

    def _let_go(self, batch: Reservation) -> None:
        self._messages -= len(batch.payloads)
        self._bytes -= batch.size
        if batch.request is not None:
            self.requested.pop(batch.request, None)

    def submit(
        self,
        now: int,
        group: Group,
        members: tuple[Site, ...],
        payloads: list[bytes],
        request: RequestName | None = None,
        sent_ns: int = 0,
        extras: Extras = NO_EXTRAS,
    ) -> int:
        """Reserve and accept at once, for a driver that does not gather. Returns the first seq. The
        site is open, and the batch has a domain. Nothing is changed when this raises."""
        if HEADERS not in self._origin.layout.features:
            if extras.headers and not self.founded:
                raise NotInMajority("headers wait until the cluster is founded")
            sent_ns, extras = 0, without_extras(extras)
        batch_bytes(payloads, self._message_bytes, extras)
        if request is not None:
            require_ticket(self._origin.layout, group, *request)
        self._window.require_stream(group, members)
        self._window.require_past()
        seq = self._window.next_seq(group)
        batch = _Packed(group, members, seq, payloads, sent_ns, extras, request)
        if not self._has_room(len(payloads), batch.size):
            raise self.window_full()
        if not self._origin.accept(now, batch):
            raise WindowFull(
                f"{self._origin.name} has no room to place more: another site lags behind"
            )
        return batch.seq

    # --- changes of the layout --------------------------------------------------------------------

    def follow(self) -> dict[Group, int]:
        """The layout has changed. Returns the first seq that no epoch takes, for each group that is
        gone, or was gone in between. The reservations of such a group are dropped."""
        self.count_joined()
        layout = self._origin.layout
        is_open = self.open()
        if self._is_current() and self._domains is layout.domains and self._was_open is is_open:
            return {}  # the record was about something else
        self._followed, self._domains, self._was_open = layout.lasts, layout.domains, is_open
        reserved = Counter[Group]()
        apart: dict[Group, None] = {}
        for batch in self.queue:
            reserved[batch.group] += len(batch.payloads)
            goes_on = batch.group in apart or self._goes_on(batch.group, batch.members)
            if goes_on is False or not self._has_ticket(batch):
                apart[batch.group] = None
        there = layout.groups if layout.absent else ()
        self._frozen = dict.fromkeys(g for g in there if layout.domain_of([g]) is None)
        if self._frozen:
            self._filling.clear()
        groups = layout.groups if self._origin.name in layout.roster else {}
        refused = dict[Group, int]()
        for last in (self._last, self._last_listed):
            for group, seq in list(last.items()):
                if self._goes_on(group, self._lists.get(group, ())) is None:
                    continue  # the last seq that was taken is known when its past comes
                taken = self._window.next_seq(group) - 1  # the last seq that was not refused
                if group in apart or taken + reserved[group] != seq:
                    refused[group] = taken + 1
                idle = not reserved[group] and not self._window.knows(group)  # it was forgotten
                named = last is self._last
                if group in refused or (group not in groups if named else idle):
                    del last[group]
                    self._lists.pop(group, None)
        if refused:
            self._drop(refused)
        self._window.forget_skipped(self.numbers)
        return refused

    def _has_ticket(self, batch: Reservation) -> bool:
        """False: its producer, or the window of its id, was removed. An epoch that opens later
        begins without its marks, so it must not be in one."""
        return batch.request is None or has_ticket(self._origin.layout, *batch.request)

    def _goes_on(self, group: Group, members: tuple[Site, ...]) -> bool | None:
        """Whether an epoch takes messages to the group. None: not known while sites, or this one,
        are absent."""
        if self._origin.name in self._origin.layout.roster and not self.open():
            return None
        try:
            self._origin.domain(group, members)
        except NotInMajority:
            return None
        except Error:
            return False
        return True

    def _drop(self, groups: Mapping[Group, int]) -> None:
        self._filling.clear()
        kept = [batch for batch in self.queue if batch.group not in groups]
        for batch in self.queue:
            if batch.group in groups:
                self._let_go(batch)
        self.queue.clear()
        self.queue.extend(kept)

    # --- what is reserved -------------------------------------------------------------------------

    @property
    def messages(self) -> int:
        """How many messages are reserved and not accepted."""
        self.count_joined()
        return self._messages

    @property
    def bytes(self) -> int:
        if self._quick is not None:
            self.count_joined()
        return self._bytes

    def numbers(self, group: Group) -> bool:
        """Whether this run has given seqs of the group, and the group is not forgotten since."""
        return group in self._last or group in self._last_listed

    def last_seq(self, group: Group) -> int | None:
        """The seq of the last message to the group. Later ones were refused, perhaps in an earlier
        run. None: not known yet."""
        self.count_joined()
        if self._goes_on(group, self._lists.get(group, ())) is None:
            return None
        return self._last_of(group, self._last.get(group) or self._last_listed.get(group, 0))

    def last_seqs(self) -> dict[Group, int]:
        """The seq of the last message to each group that was sent to in this run."""
        self.count_joined()
        last = {**self._last, **self._last_listed}
        return {group: self._last_of(group, seq) for group, seq in last.items()}

    def _last_of(self, group: Group, reserved: int) -> int:
        """The seq of the last message. If nothing is reserved, seqs up to `reserved` may be skipped
        ones."""
        if reserved and reserved >= self._window.next_seq(group):
            return reserved
        return self._window.last_seq(group)
