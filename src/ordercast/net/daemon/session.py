"""What one client has sent through a daemon: it is sent once, in order, and the client gets its
receipts."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.core.batches import NO_EXTRAS, Extras
from ordercast.model.envelope import Envelope, unpack_body
from ordercast.model.errors import Error, Expired, UnknownGroup
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group
from ordercast.net.admin.frames import (
    ACCEPTED,
    ORDERED,
    STABLE,
    Produce,
    Rejected,
    Send,
    SendById,
    SendListedOnce,
    SendOnce,
    StagesReached,
    Watch,
    Wire,
    kind_of,
    reason_of,
)
from ordercast.net.daemon.places import MadeByClients
from ordercast.net.daemon.shares import SubjectShare
from ordercast.net.daemon.subscription import Subscription
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.running_site import RunningSite

PARKED_S = 10.0  # how long a reader without a connection is kept, if nothing is stored
_SLACK = 2  # times what a client may have under way: it may have given up some of that
# Refusals, in the same measure: sends that are accepted and not stable may be refused, too.
_REFUSED = _SLACK + 1
# Sends that are followed, in the same measure: a window that is not accepted, a window that is not
# stable, and sends of which the client has not heard that they are stable. Some more, because the
# window may have been larger before a restart.
_FOLLOWED, _FOLLOWED_MORE = 4, 16_384

ClientBatch: TypeAlias = Send | Produce | SendById | SendOnce
Numbered: TypeAlias = Produce | SendOnce
"""Messages with numbers. A later one must not overtake: the earlier one would count as a copy."""

_Refused: TypeAlias = dict[tuple[str, Group], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """How much a client may have under way that is not yet accepted."""

    messages: int
    bytes: int


class ClientSession:
    """A session outlives connections: a client that comes back finds what it had under way.

    `_reached` has an entry for every number that is queued or followed. A number at or below
    `highest` without an entry was finished before: the store knows which batch it became.
    `_refused` has the refused numbers. If a group was removed, another message may have their seqs
    by now. It holds more numbers than a client can have under way, so no refusal is forgotten
    before the client hears it.
    """

    def __init__(
        self,
        site: RunningSite,
        client: bytes,
        limits: ClientLimits,
        subject: ClientSubject,
        share: SubjectShare,
        made: MadeByClients,
    ) -> None:
        self.site = site
        self.client = client
        self.limits = limits
        self.subject = subject
        self.share = share
        self.made = made
        self.wire: Wire | None = None
        self.highest = 0
        self._answered = 0
        self._connections = 0  # how many the session has had
        self._came: dict[int, int] = {}  # by number in the queue: on which connection it came last
        self._queue: deque[ClientBatch] = deque()
        self._waiting = [0, 0]  # messages and bytes not yet accepted
        self._reached: dict[int, tuple[int, Group, int]] = {}
        self._refused: dict[int, Rejected] = {}
        self._finished: dict[int, tuple[int, Group, int]] = {}  # the last stamped requests
        self._news: list[tuple[int, int, Group, int]] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._sending = False
        self._open: dict[int, ClientBatch] = {}  # given to the site, not yet accepted
        # By producer ("": the client itself) and group: a number that was refused, and on which
        # connection. First the numbers that were refused when they came, then those in their turn.
        self._not_granted: _Refused = {}
        self._broken: _Refused = {}
        self._parked: dict[int, tuple[Subscription, asyncio.TimerHandle]] = {}

    @property
    def idle(self) -> bool:
        """Whether the client is away and nothing is under way."""
        under_way = self._queue or self._tasks or self._parked or self._refused
        return self.wire is None and not under_way

    @property
    def empty(self) -> bool:
        """Whether a client that comes back would find nothing here."""
        return self.idle and not self._finished

    def attach(self, wire: Wire) -> None:
        if self.wire is not None and self.wire is not wire:
            self.wire.close()
        self.wire = wire
        self._connections += 1
        self._news = []
        self._not_granted.clear()  # the client sends all again
        of_queue = dict.fromkeys(self._came.values())
        self._broken = {pair: why for pair, why in self._broken.items() if why[1] in of_queue}

    def detach(self, wire: Wire) -> None:
        if self.wire is wire:
            self.wire = None

    def close(self) -> None:
        self.share.waits(-self._waiting[1])
        self._waiting = [0, 0]
        self._queue.clear()
        for task in list(self._tasks):
            task.cancel()
        for number in list(self._parked):
            self._end_parked(number)

    # --- what the client reads --------------------------------------------------------------------

    def park(self, subscription: Subscription) -> None:
        """Keep the subscription for a while after its connection broke."""
        subscription.park()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(PARKED_S, self._end_parked, subscription.number)
        self._parked[subscription.number] = (subscription, timer)

    def parked(self, number: int) -> Subscription | None:
        found = self._parked.pop(number, None)
        if found is None:
            return None
        found[1].cancel()
        return found[0]

    def _end_parked(self, number: int) -> None:
        subscription = self.parked(number)
        if subscription is not None:
            subscription.close()

    # --- what the client sends --------------------------------------------------------------------

    def send(self, frame: Send) -> None:
        if frame.answered > self._answered:
            self._answered = frame.answered
            self.site.answered(self.client, frame.answered)
        number = frame.number
        self.site.repeats.begin(frame.group, frame.sites)
        if number in self._reached:  # it is still under way, from an earlier connection
            self._tell(number)
            return
        if number in self._refused:
            self._say(self._refused[number])
            return
        if frame.again or number <= self.highest:
            found = self.site.requested(self.client, number)
            if found is not None:
                self.highest = max(self.highest, number)
                self._follow_accepted(number, *found)
                return
        if number <= self.highest:
            why = f"request {number} was answered, or given up, before"
            self._say(Rejected(number, "Error", why))
            return
        self._enqueue(frame)

    def produce(self, frame: Numbered) -> None:
        """Take a message of a producer, or a stamped request of the client, as often as it is sent:
        one of its copies is delivered. If an earlier message was refused, and the client did not
        know that yet, this one is refused too: once it is delivered, the earlier message would
        count as a copy."""
        number = frame.number
        if number in self._reached:
            if number in self._came:
                self._came[number] = self._connections
            self._tell(number)
            return
        if isinstance(frame, SendOnce) and number in self._finished:
            self._news_of(number, *self._finished[number])
            return
        try:
            _require_unbroken(frame, self._connections, self._not_granted)
        except Error as error:
            self._say(Rejected(number, kind_of(error), reason_of(error)))
            return
        self._refused.pop(number, None)
        self._enqueue(frame)

    def send_by_id(self, frame: SendById) -> None:
        """Take a message with an id, as often as it is sent: one of its copies is delivered."""
        number = frame.number
        if number in self._reached:
            self._tell(number)
            return
        self._refused.pop(number, None)
        self._enqueue(frame)

    def not_granted(self, frame: Numbered) -> None:
        """A message of a producer, or a stamped request, was refused when it came."""
        self._break(self._not_granted, frame, self._connections)

    def watch(self, frame: Watch) -> None:
        if frame.number in self._reached:
            self._tell(frame.number)
        elif frame.number in self._refused:
            self._say(self._refused[frame.number])
        elif len(self._tasks) < _FOLLOWED * self.limits.messages + _FOLLOWED_MORE:
            self._follow_accepted(frame.number, frame.group, frame.seq, frame.count)
        elif self.wire is not None:
            self.wire.fail("it asks about more messages than it may have sent")

    def _enqueue(self, frame: ClientBatch) -> None:
        messages, size = self._waiting
        if messages and (
            messages + frame.count > _SLACK * self.limits.messages
            or size + len(frame.body) > _SLACK * self.limits.bytes
        ):
            if self.wire is not None:
                self.wire.fail("it sends more than it may have under way")
            return
        self.highest = max(frame.number, self.highest)
        self._waiting = [messages + frame.count, size + len(frame.body)]
        self.share.waits(len(frame.body))
        self._reached[frame.number] = (0, "", 0)
        self._came[frame.number] = self._connections
        self._queue.append(frame)
        if not self._sending:
            self._sending = True
            self._spawn(self._send_queued())

    async def _send_queued(self) -> None:
        """Send in the order of the numbers. A send waits until the one before it has its place
        among the site's own messages, however long the window stays full."""
        try:
            while self._queue:
                frame = self._queue[0]
                part = (frame.count, len(frame.body))
                try:
                    await self.share.enter(*part)
                    receipt = await self._entered(frame)
                except Error as error:
                    self._reached.pop(frame.number, None)
                    self._done(frame)
                    if isinstance(frame, Produce | SendOnce) and not isinstance(error, Expired):
                        self._break(self._broken, frame, self._came[frame.number])
                    self._refuse(frame.number, error)
                else:
                    self._open[frame.number] = frame
                    self._follow(frame.number, receipt, frame.count)
                self._queue.popleft()
                del self._came[frame.number]
        finally:
            self._sending = False

    async def _entered(self, frame: ClientBatch) -> Receipt:
        """Submit a batch that has entered the subject's share. If the site refuses it, it leaves
        the share."""
        part = (frame.count, len(frame.body))
        try:
            if isinstance(frame, Produce | SendOnce):  # in the order of the queue
                _require_unbroken(frame, self._came[frame.number], self._broken)
            receipt = await self._submit(frame)
        except BaseException:
            self.share.leave(*part)
            raise
        self.share.hold(receipt.stable, *part)
        return receipt

    async def _submit(self, frame: ClientBatch) -> Receipt:
        """The site that takes a message sets its time and the members of its groups. The client's
        word for them does not count."""
        body, extras = unpack_body(frame.body), NO_EXTRAS
        if isinstance(body, Envelope):
            body.check(listed=isinstance(frame, Send | SendListedOnce) and bool(frame.sites))
            payloads, extras = body.payloads, Extras(body.headers, body.groups)
        else:
            payloads = body
        if len(payloads) != frame.count:
            raise Error(f"request {frame.number} has not {frame.count:,} payloads")
        if isinstance(frame, Produce | SendOnce):
            return await self._submit_numbered(frame, payloads, extras)
        if isinstance(frame, SendById):
            name, ids = (frame.chosen, frame.since), self.site.ids
            return await ids.send(name, frame.group, payloads, extras, self.subject)
        sender, request = self.site.sender, (self.client, frame.number)
        if extras.groups:
            return await sender.send_to_groups(payloads, extras, request, self.subject)
        if frame.sites:
            return await sender.send_listed(frame.sites, payloads, extras, request, self.subject)
        return await sender.send_batch(frame.group, payloads, extras, request, self.subject)

    async def _submit_numbered(
        self, frame: Numbered, payloads: list[bytes], extras: Extras
    ) -> Receipt:
        if isinstance(frame, SendOnce):
            stamped = (self.client, frame.number, frame.stamp)
            repeats, group = self.site.repeats, frame.group
            if isinstance(frame, SendListedOnce):
                to = (group, frame.sites, frame.again)
                return await repeats.send_listed(stamped, to, payloads, extras, self.subject)
            return await repeats.send(stamped, group, payloads, extras, self.subject)
        name, send = (frame.producer, frame.at), self.site.producing.send
        with self.made.producers(self.subject, [(frame.producer, frame.group)]):
            return await send(name, frame.group, payloads, extras, self.subject)

    # --- what becomes of it -----------------------------------------------------------------------

    def _follow_accepted(self, number: int, group: Group, seq: int, count: int) -> None:
        """Follow a send that was accepted on an earlier connection, perhaps before a restart."""
        self._follow(number, Receipt(self.site.sender.receipts, group, seq + count - 1), count)

    def _follow(self, number: int, receipt: Receipt, count: int) -> None:
        self._reached[number] = (0, receipt.group, receipt.seq - count + 1)
        self._spawn(self._report(number, receipt))

    async def _report(self, number: int, receipt: Receipt) -> None:
        """Report the stages of a send, until it is stable, or refused because its group was
        removed, or its id came too late. If the site closes, the client asks again after the
        restart."""
        is_stamped = isinstance(self._open.get(number), SendOnce)
        try:
            for stage, reached in (
                (ACCEPTED, receipt.accepted), (ORDERED, receipt.ordered), (STABLE, receipt.stable),
            ):  # fmt: skip
                await reached()
                _, group, seq = self._reached[number]
                self._reached[number] = (stage, group, seq)
                if stage == ACCEPTED and (frame := self._open.pop(number, None)) is not None:
                    self._done(frame)
                self._tell(number)
            if is_stamped:
                self._finish(number)
        except (UnknownGroup, Expired) as error:
            if (frame := self._open.pop(number, None)) is not None:
                self._done(frame)
            self._refuse(number, error)
        except Error:
            return
        finally:
            self._reached.pop(number, None)

    def _finish(self, number: int) -> None:
        """Remember a stamped request that is stable until the client has heard of it. The log would
        recognise it too, but only by another copy."""
        self._finished[number] = self._reached[number]
        if len(self._finished) > self.limits.messages:
            del self._finished[next(iter(self._finished))]

    def _done(self, frame: ClientBatch) -> None:
        self._waiting[0] -= frame.count
        self._waiting[1] -= len(frame.body)
        self.share.waits(-len(frame.body))

    def _tell(self, number: int) -> None:
        self._news_of(number, *self._reached[number])

    def _news_of(self, number: int, stage: int, group: Group, seq: int) -> None:
        if not stage or self.wire is None:
            return
        if not self._news:
            asyncio.get_running_loop().call_soon(self._flush)
        self._news.append((number, stage, group, seq))

    def _flush(self) -> None:
        if self._news and self.wire is not None:
            self.wire.send(StagesReached(tuple(self._news)))
        self._news = []

    def _refuse(self, number: int, error: Error) -> None:
        """Keep a refusal, because a client that did not hear it asks again."""
        refusal = Rejected(number, kind_of(error), reason_of(error))
        self._refused[number] = refusal
        if len(self._refused) > _REFUSED * self.limits.messages:
            del self._refused[next(iter(self._refused))]
        self._say(refusal)

    def _break(self, refused: _Refused, frame: Numbered, connection: int) -> None:
        """Note a refusal. If there are very many, drop the connection: the client begins anew on a
        connection without refusals."""
        pair, at = _numbered(frame)
        if pair not in refused or refused[pair][1] != connection:
            refused[pair] = at, connection
        if len(refused) > _REFUSED * self.limits.messages and self.wire is not None:
            self.wire.fail("too much of what it sends is refused")

    def _say(self, refusal: Rejected) -> None:
        if self.wire is not None:
            self.wire.send(refusal)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))


def _numbered(frame: Numbered) -> tuple[tuple[str, Group], int]:
    """The producer ("": the client itself) and the group that count the messages; the number."""
    if isinstance(frame, SendOnce):
        return ("", frame.group), frame.number
    return (frame.producer, frame.group), frame.at


def _require_unbroken(frame: Numbered, connection: int, refused: _Refused) -> None:
    """Raise Error if a message before this one was refused, unless the client knows of the refusal
    or sends all again on a new connection."""
    pair, _ = _numbered(frame)
    broken, when = refused.get(pair, (0, 0))
    if broken and frame.after >= broken and when == connection:
        whose = f"message {broken} of producer {pair[0]!r}" if pair[0] else f"request {broken}"
        raise Error(f"{whose} before it was refused")
    refused.pop(pair, None)
