"""What a client sends: cut into numbered requests, bounded, repeated until they are accepted."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ordercast.core.batches import PER_MESSAGE, batch_bytes, extras_of, packed_body, without_extras
from ordercast.model.arguments import require_names
from ordercast.model.envelope import HeaderRuns
from ordercast.model.errors import ConfigError, Error, Expired, Fenced, UnknownGroup, WindowFull
from ordercast.model.features import HEADERS, LISTS
from ordercast.model.groups import Group, Site
from ordercast.model.headers import BatchHeaders
from ordercast.model.implicit import implicit_group, is_implicit
from ordercast.model.messages import numbered
from ordercast.net.admin.frames import (
    STABLE,
    ClientFrame,
    Produce,
    Send,
    SendById,
    SendListedOnce,
    SendOnce,
    Watch,
    Welcome,
)
from ordercast.net.admin.targets import KnownTargets
from ordercast.net.client.requests import ClientReceipt, ClientRequest

_ALONE = 2 * PER_MESSAGE  # what `batch_bytes` adds to a message that is sent alone
_BATCH_MESSAGES, _BATCH_BYTES = 4_096, 262_144  # of what is sent in one turn of the loop
_BATCH_PART = 16  # part of what may be under way that a batch may have: large ones wait longer

Target = tuple[Group, tuple[Site, ...], tuple[Group, ...]]
"""A named group, or "" and listed sites; and the groups that the sites are the members of."""


class SendLimits(NamedTuple):
    """What a daemon takes of a client. `messages`, `bytes`: what may be under way at once, so also
    the most of one batch, unless it is a single message. `headers`: whether messages may have
    any."""

    messages: int
    bytes: int
    message_bytes: int
    headers: bool


class _Quick:
    """A request that small messages of this turn may join unchecked, up to a number of messages and
    of bytes. What they take is counted when `ClientOutgoing.count_joined` ends it."""

    __slots__ = ("append", "group", "index", "last", "left", "room", "sent")

    def __init__(self, sent: ClientRequest, group: Group, messages: int, room: int) -> None:
        self.sent = sent
        self.group = group
        self.append = sent.payloads.append
        self.index = sent.count - 1  # of the last message
        self.last = self.index + messages  # the last index that there is room for
        self.left = self.room = room  # bytes


class ClientOutgoing:
    """`requests` has every number that is not yet stable or refused, in order."""

    def __init__(self, targets: KnownTargets, send: Callable[[ClientFrame], None]) -> None:
        self.targets = targets
        self.requests: dict[int, ClientRequest] = {}
        self._send = send
        self._message_bytes = 0  # these are told by the daemon, before anything is sent
        self._most = (0, 0)
        self._batch_messages = _BATCH_MESSAGES
        self._causal = False
        self._under_way = [0, 0]  # messages and bytes not yet accepted
        self._held = [0, 0]  # the same of sends that are accepted, and may have to be repeated
        self._waiting: deque[tuple[int, int, asyncio.Future[None]]] = deque()
        self._uncut: list[ClientRequest] = []  # requests of this turn
        self._filling: dict[Target, ClientRequest] = {}  # the requests of them that may grow
        self._quick: _Quick | None = None
        self._last = 0  # number
        self._answered = 0  # all up to this number are accepted or refused
        self._produces = False  # the daemon knows producers
        self.takes_ids = False  # the daemon knows ids
        self.tells_times = False  # the daemon takes `TimesRequest`
        # By producer and group: the number of its last message that was not rejected.
        self._produced: dict[tuple[str, Group], int] = {}
        self._takes_stamps = False  # the daemon knows stamps
        self.keeps_seqs = False  # nothing is stamped
        self.marks: dict[Group, int] = {}  # of groups and lists that remember clients
        # By group or list: the number of the last stamped request that was not rejected, and its
        # stamp.
        self._stamped: dict[Group, tuple[int, int]] = {}

    # --- what is to be sent -----------------------------------------------------------------------

    def target(self, group: Group | Sequence[Group]) -> Target:
        if isinstance(group, str):
            self.targets.members(group)
            return group, (), ()
        groups = tuple(dict.fromkeys(require_names(group, "group")))
        members: dict[Site, None] = {}
        for each in groups:
            members.update(dict.fromkeys(self.targets.members(each)))
        told = groups if HEADERS in self.targets.features else ()
        return "", self.targets.listed(members), told

    def listed(self, sites: Iterable[Site]) -> Target:
        return "", self.targets.listed(require_names(sites, "sites")), ()

    @property
    def limits(self) -> SendLimits:
        return SendLimits(*self._most, self._message_bytes, HEADERS in self.targets.features)

    def measure(
        self, target: Target, payloads: list[bytes], headers: BatchHeaders
    ) -> tuple[int, HeaderRuns]:
        """The bytes of a batch, and its headers; its payloads become bytes. Refuses what the site
        would refuse."""
        extras = extras_of(headers, len(payloads), target[2])
        if HEADERS not in self.targets.features:
            extras = without_extras(extras)
        return batch_bytes(payloads, self._message_bytes, extras), extras.headers

    def join(self, group: object, payload: object) -> ClientReceipt | None:
        """Send one more message to the group that the last one went to, in the same turn. None: the
        message needs a closer look."""
        quick = self._quick
        if quick is None or group is not quick.group or type(payload) is not bytes:
            return None
        left, index = quick.left - len(payload) - _ALONE, quick.index + 1
        if left < 0 or index > quick.last:
            return None
        quick.left, quick.index = left, index
        quick.append(payload)
        return ClientReceipt(quick.sent, index)

    def count_joined(self) -> None:
        """Count what has joined. Called before anything that looks at the counts."""
        quick = self._quick
        if quick is not None:
            self._quick = None
            size, sent = quick.room - quick.left, quick.sent
            self._take(quick.index + 1 - sent.count, size)
            sent.count = quick.index + 1
            sent.size += size

    def _quicken(self, sent: ClientRequest, group: Group) -> None:
        messages, room = self._left()
        messages = min(messages, self._batch_messages - sent.count)
        room = min(room, _BATCH_BYTES - sent.size)
        if messages > 0 and room > 0 and not self._waiting and self._message_bytes >= _BATCH_BYTES:
            self._quick = _Quick(sent, group, messages, room)

    def add(
        self,
        target: Target,
        payloads: Sequence[bytes],
        size: int,
        headers: HeaderRuns,
        *,
        whole: bool = False,
    ) -> ClientReceipt:
        """The caller has taken the room. Payloads of one turn to one target go together; with
        causal order only while nothing is sent to another target in between."""
        self.count_joined()
        sent = None if whole else self._filling.get(target)
        if sent is None or sent.count >= self._batch_messages or sent.size + size > _BATCH_BYTES:
            sent = self._begin(target)
            self._stamp(sent)
            if target[1]:  # the same sites as another target: nothing overtakes it there
                self._filling = {t: s for t, s in self._filling.items() if t[1] != target[1]}
            if whole:
                self._filling.pop(target, None)
            else:
                self._filling[target] = sent
        receipt = ClientReceipt(sent, sent.add(payloads, size, headers))
        if not (whole or target[1]):
            self._quicken(sent, target[0])
        return receipt

    def _stamp(self, sent: ClientRequest) -> None:
        """Stamp the request if its group remembers clients: then it can be sent again anywhere.
        Stamps never go back, though a daemon may lag behind the daemon before it."""
        if sent.sites and LISTS in self.targets.features:
            sent.stream = implicit_group(sent.sites)
        mark = 0 if self.keeps_seqs else self.marks.get(sent.stream, 0)
        if mark:
            sent.after, stamp = self._stamped.get(sent.stream, (0, 0))
            sent.stamp = max(mark, stamp)
            self._stamped[sent.stream] = sent.number, sent.stamp

    def take_marks(self, told: Iterable[tuple[Group, int]]) -> None:
        """The marks that a daemon tells. If it has not heard of a list yet, the mark that the
        previous daemon told of that list stays valid."""
        lists = {group: mark for group, mark in self.marks.items() if is_implicit(group)}
        self.marks = {**lists, **dict(told)}

    def produce(
        self,
        target: Target,
        payloads: Sequence[bytes],
        size: int,
        headers: HeaderRuns,
        name: tuple[str, int],
    ) -> ClientReceipt:
        """As `add`, a batch of a producer. `name`: the producer, and its number."""
        (producer, at), group = name, target[0]
        self.require_above(producer, at, group)
        sent = self._begin(target)
        self._filling.pop(target, None)
        sent.producer, sent.at = producer, at
        sent.after = self._produced.get((producer, group), 0)
        self._produced[producer, group] = at
        return ClientReceipt(sent, sent.add(payloads, size, headers))

    def send_by_id(
        self,
        target: Target,
        payloads: Sequence[bytes],
        size: int,
        headers: HeaderRuns,
        name: tuple[str, int],
    ) -> ClientReceipt:
        """As `add`, a batch with an id. `name`: the id, and the mark when it was first sent."""
        sent = self._begin(target)
        self._filling.pop(target, None)
        sent.chosen, sent.since = name
        return ClientReceipt(sent, sent.add(payloads, size, headers))

    def require_above(self, producer: str, at: int, group: Group) -> None:
        """Raise ConfigError unless the number is above the last one that was not rejected."""
        last = self._produced.get((producer, group), 0)
        if at <= last:
            raise ConfigError(
                f"number: {numbered(at)} of producer {producer!r} is not above {numbered(last)},"
                f" its last one to group {group!r}"
            )

    def _begin(self, target: Target) -> ClientRequest:
        self.count_joined()
        if not self._uncut:
            asyncio.get_running_loop().call_soon(self._cut)
        if self._causal:
            self._filling.clear()
        self._last += 1
        sent = self.requests[self._last] = ClientRequest(self._last, *target)
        self._uncut.append(sent)
        return sent

    def _cut(self) -> None:
        self.count_joined()
        uncut, self._uncut = self._uncut, []
        self._filling.clear()
        for sent in uncut:
            self._write(sent)

    def _write(self, sent: ClientRequest) -> None:
        if sent.error is not None or sent.is_handed_over:
            return
        if sent.producer and not self._produces:
            self.rejected(sent.number, Error("the daemon's program does not know producers"))
            return
        if sent.chosen and not self.takes_ids:
            self.rejected(sent.number, Error("the daemon's program does not know ids"))
            return
        if sent.stamp and not self._takes_stamps:
            self.rejected(sent.number, Error("the daemon's program does not know stamps"))
            return
        body = packed_body(sent.payloads, 0, sent.headers, sent.groups)
        if sent.stamp:
            fields = (sent.number, sent.stream, sent.count, body, sent.stamp, sent.after)
            if sent.sites:
                self._send(SendListedOnce(*fields, sent.sites, sent.again))
            else:
                self._send(SendOnce(*fields))
            sent.again, sent.repeated = True, sent.again
            return
        if sent.producer:
            self._send(
                Produce(
                    sent.number, sent.target, sent.count, body, sent.producer, sent.at, sent.after
                )
            )
            return
        if sent.chosen:
            self._send(
                SendById(sent.number, sent.target, sent.count, body, sent.chosen, sent.since)
            )
            return
        self._send(
            Send(sent.number, sent.target, sent.sites, sent.count, body, sent.again, self._answered)
        )
        sent.again = True

    # --- room -------------------------------------------------------------------------------------

    def _left(self) -> tuple[int, int]:
        """Messages and bytes that there is room for. On a new connection all that is held is under
        way again."""
        (messages, taken), (held, held_bytes) = self._under_way, self._held
        most_messages, most_bytes = self._most
        return (
            min(most_messages, 2 * most_messages - held) - messages,
            min(most_bytes, most_bytes + most_bytes * 7 // 8 - held_bytes) - taken,
        )

    def _fits(self, count: int, size: int) -> bool:
        self.count_joined()
        if not self._under_way[0]:
            return True
        messages, room = self._left()
        return count <= messages and size <= room

    def require_room(self, count: int, size: int) -> None:
        if self._waiting or not self._fits(count, size):
            raise WindowFull(
                f"{self._under_way[0]:,} messages, {self._under_way[1]:,} bytes are not yet"
                f" accepted; the limits are {self._most[0]:,} and {self._most[1]:,}"
            )
        self._take(count, size)

    async def room(self, count: int, size: int) -> None:
        """Wait for room, in turn, and take it. Cancelled: nothing is taken, nothing is sent."""
        if not self._waiting and self._fits(count, size):
            self._take(count, size)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((count, size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self._release(count, size)
            raise

    def give_back(self, count: int, size: int) -> None:
        """Room that was taken, and not used."""
        self._release(count, size)

    def _take(self, count: int, size: int) -> None:
        self._under_way[0] += count
        self._under_way[1] += size

    def _release(self, count: int, size: int) -> None:
        self._under_way[0] -= count
        self._under_way[1] -= size
        self._wake()

    def _hold(self, sent: ClientRequest, sign: int) -> None:
        self._held[0] += sign * sent.count
        self._held[1] += sign * sent.size
        if sign < 0:
            self._wake()

    def _let_go(self, sent: ClientRequest) -> None:
        """Give back the room of a request that is rejected."""
        if sent.is_under_way:
            self._release(sent.count, sent.size)
        elif sent.stamp:
            self._hold(sent, -1)

    def _wake(self) -> None:
        while self._waiting:
            count, size, future = self._waiting[0]
            if future.done():  # cancelled
                self._waiting.popleft()
            elif self._fits(count, size):
                self._waiting.popleft()
                self._take(count, size)
                future.set_result(None)
            else:
                return

    # --- what becomes of it -----------------------------------------------------------------------

    def reached(self, number: int, stage: int, group: Group, seq: int) -> None:
        sent = self.requests.get(number)
        if sent is None:
            return
        was_under_way = sent.is_under_way
        sent.reached(stage, group, seq)
        if sent.stamp and was_under_way:
            self._hold(sent, 1)
        if was_under_way and not sent.is_under_way:
            self._release(sent.count, sent.size)
        if sent.stamp and stage == STABLE:
            self._hold(sent, -1)
        if stage == STABLE:
            del self.requests[number]
        self._count_answered()

    def rejected(self, number: int, error: Exception) -> None:
        self.count_joined()
        sent = self.requests.pop(number, None)
        if sent is not None:
            self._let_go(sent)
            told = isinstance(error, Error) and not isinstance(error, Expired)
            if sent.repeated and told:  # what another daemon has done with it is not known
                assert isinstance(error, Error)
                error = _unknown(error)
            sent.failed(error)
            if sent.producer:
                self._produced[sent.producer, sent.target] = sent.after
                name = f"message {numbered(sent.at)} of producer {sent.producer!r}"
                kind = Fenced if isinstance(error, Fenced) else Error
                self._reject_later(sent, kind(f"{name} before it failed: {error}"))
            elif sent.stamp and not isinstance(error, Expired):
                self._stamped[sent.stream] = sent.after, 0
                name = f"a message to {sent.target or ','.join(sent.sites)} before it failed"
                kind = UnknownGroup if isinstance(error, UnknownGroup) else Error
                self._reject_later(sent, _unknown(kind(f"{name}: {error}")))
            if sent.sites and type(error) is Error:  # a daemon that does not know the list
                self.marks.pop(sent.stream, None)
            self._count_answered()

    def _reject_later(self, first: ClientRequest, why: Error) -> None:
        """Later messages of the same producer, or of the client itself, to the group must not be
        delivered before a rejected message: they would make it a copy."""
        later = [
            sent.number
            for sent in self.requests.values()
            if sent.number > first.number
            and (sent.producer, sent.stream) == (first.producer, first.stream)
            and bool(sent.stamp) == bool(first.stamp)
        ]
        for number in later:
            sent = self.requests.pop(number)
            self._let_go(sent)
            sent.failed(why)

    def _count_answered(self) -> None:
        number = self._answered + 1
        while number <= self._last:
            sent = self.requests.get(number)
            if sent is not None and not sent.stage:
                break
            number += 1
        self._answered = number - 1

    async def flush(self, stage: int) -> None:
        for sent in list(self.requests.values()):
            await sent.wait(stage)

    def unaccepted(self) -> str:
        """How many messages are not accepted, per target."""
        self.count_joined()
        left: dict[str, int] = {}
        for sent in self.requests.values():
            if not sent.stage:
                name = sent.target or ",".join(sent.sites)
                left[name] = left.get(name, 0) + sent.count
        return ", ".join(f"{count:,} to {name}" for name, count in left.items())

    # --- connections ------------------------------------------------------------------------------

    def resume(self, welcome: Welcome) -> None:
        """A daemon is there (again): repeat what it has not accepted, and ask about the rest."""
        self._most = (welcome.messages, welcome.bytes)
        self._batch_messages = max(1, min(_BATCH_MESSAGES, welcome.messages // _BATCH_PART))
        self._message_bytes = welcome.served.message_bytes
        self._causal = welcome.served.causal
        self._produces, self.takes_ids = welcome.produces, welcome.takes_ids
        self.count_joined()
        self.tells_times = welcome.tells_times
        self._takes_stamps = welcome.takes_stamps
        self.take_marks(welcome.marks)
        self._uncut = []
        self._filling.clear()
        for sent in list(self.requests.values()):
            if sent.is_handed_over:
                self._send(Watch(sent.number, sent.group, sent.seq, sent.count))
            else:
                self._write(sent)

    @property
    def unanswered(self) -> bool:
        """Whether something was handed over that may be accepted or not, and cannot be repeated
        anywhere."""
        return any(
            sent.again and not sent.stage and not sent.may_repeat for sent in self.requests.values()
        )

    def moved(self, error: Error) -> None:
        """Another site answers. What was handed over to the one before is not heard of any more."""
        accepted = type(error)(f"{error}; this message was accepted there, and may be on its way")
        for sent in list(self.requests.values()):
            if sent.may_repeat:
                continue  # it is sent again
            if sent.stage:
                self.rejected(sent.number, accepted)
            elif sent.again:
                self.rejected(sent.number, _unknown(error))

    def doubtful(self, error: Error) -> None:
        """The site has lost its store: requests that were handed over and not accepted may have
        been sent, or not."""
        for sent in list(self.requests.values()):
            if (sent.again or sent.stage) and not sent.may_repeat:
                self.rejected(sent.number, error)

    def fail(self, error: Error, *, for_good: bool) -> None:
        """Nobody answers. What is not accepted is given up; the rest may still be heard of."""
        self.count_joined()
        for sent in list(self.requests.values()):
            if not sent.stage:
                self.rejected(sent.number, _unknown(error))
            elif for_good:
                self.rejected(sent.number, error)
            else:
                sent.interrupt(error)
        waiting, self._waiting = self._waiting, deque()
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)


def _unknown(error: Error) -> Error:
    return type(error)(f"{error}; it is not known whether this message was accepted")
