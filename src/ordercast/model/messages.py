"""Messages, their ids and order keys, and what an application is given.

A batch is ordered as one: consecutive messages of one origin to one group under one key. Its
payloads are packed into `body` once, at the origin; nobody changes it on its way.
"""

from hashlib import blake2b
from itertools import repeat
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ordercast.model.envelope import Envelope, body_part, unpack_body
from ordercast.model.errors import FrameError
from ordercast.model.fields import (
    KNOWN_NAMES,
    Natural,
    Ordinal,
    Packed,
    check_destination,
    check_length,
    check_site,
)
from ordercast.model.groups import Group, Site
from ordercast.model.headers import HeaderItems
from ordercast.model.implicit import is_implicit
from ordercast.model.limits import (
    BATCH_MESSAGES,
    BODY_BYTES,
    ENVELOPE_BYTES,
    KEY_PATH,
    PRODUCER_NUMBERS,
    VECTOR_ENTRIES,
)

Vector: TypeAlias = tuple[tuple[Group, Ordinal, tuple[Site, ...]], ...]
"""Last group number per group in a message's causal past, by group name (an implicit group's with
its members, because a primary that never saw the group must know whether it passes by)."""


STAGES: Final = ("accepted", "ordered", "stable")
"""How far a message has come, as its receipt tells it."""

CLIENT_BYTES = 16
"""Of a client's id, which the client draws at random."""

PRODUCER: Final = b"producer"
"""The first half of the id under which a producer's messages travel. A client's id never begins so.
The second half is the number that the cluster gave to the producer at this group."""

BY_ID: Final = b"by-id"
"""The first bytes of the id under which a message travels that has an id of its sender's own. A
client's id never begins so. The rest is a digest of the sender's name and that id."""

ONCE: Final = b"once"
"""The first bytes of the id under which a request of a client travels that the group recognises.
A client's id never begins so. The rest is the request's stamp, and a digest of the client's id."""

MARK_BITS: Final = 40
"""The mark of a group's ids, or of its clients: the ticket of their window, and in the lowest bits
a count."""

GENERATION_BITS: Final = PRODUCER_NUMBERS.bit_length()
"""The number under which a producer's message travels: the producer's generation, and in the lowest
bits the number that the producer has given."""

_STAMP_BYTES: Final = MARK_BITS // 8
_COUNTS: Final = (1 << MARK_BITS) - 1

BATCH_WEIGHT = 192
"""Roughly the bytes of a batch without its body, its past and its members."""


class Key(NamedTuple):
    """An order key. A prefix comes first; the placing site's name decides last (docs/core.md).

    `path` holds (-level, counter) pairs, flattened, of the levels whose counter is not zero. So
    the counters 5 0 1 are (0, 5, -2, 1): a key at depth 1,000 stays short, and tuple order is the
    order of the padded counters, because a missing level counts as zero and -2 sorts before -1.
    """

    path: tuple[int, ...]
    site: Site


class MessageId(NamedTuple):
    origin: Site
    incarnation: int
    group: Group
    seq: int


def producer_id(ticket: int) -> bytes:
    """The id under which the messages of a producer to one group travel."""
    return PRODUCER + ticket.to_bytes(CLIENT_BYTES - len(PRODUCER))


def ticket_in(client: bytes) -> int:
    """The ticket of a producer; 0: it is the id of a client."""
    return int.from_bytes(client[len(PRODUCER) :]) if client.startswith(PRODUCER) else 0


def in_generation(generation: int, number: int) -> int:
    """The number under which a message of a producer of this generation travels."""
    return generation << GENERATION_BITS | number


def generation_in(number: int) -> int:
    """The generation of the producer whose message travels under this number."""
    return number >> GENERATION_BITS


def numbered(number: int) -> str:
    """A producer's number in words."""
    generation, given = generation_in(number), number & ((1 << GENERATION_BITS) - 1)
    return f"{given} of generation {generation}" if generation else f"{given}"


def by_id(sender: str, chosen: str) -> bytes:
    """The id under which a message travels whose sender has chosen this id for it."""
    named = f"{len(sender)} {sender} {chosen}".encode()
    return BY_ID + blake2b(named, digest_size=CLIENT_BYTES - len(BY_ID)).digest()


def is_by_id(client: bytes) -> bool:
    return client.startswith(BY_ID)


def once(client: bytes, number: int, stamp: int) -> tuple[bytes, int]:
    """The id and the number under which a client's request travels that was stamped with a mark of
    the group's clients. Both have a part of the mark."""
    size = CLIENT_BYTES - len(ONCE) - _STAMP_BYTES
    digest = blake2b(client, digest_size=size).digest()
    name = ONCE + (stamp & _COUNTS).to_bytes(_STAMP_BYTES) + digest
    return name, (stamp & ~_COUNTS) | number


def is_once(client: bytes) -> bool:
    return client.startswith(ONCE)


def stamp_in(client: bytes, number: int) -> int:
    """The stamp of a request that travels under these."""
    return (number & ~_COUNTS) | int.from_bytes(client[len(ONCE) : len(ONCE) + _STAMP_BYTES])


def digest_in(client: bytes) -> bytes:
    """What stands for the client in the id of its request."""
    return client[len(ONCE) + _STAMP_BYTES :]


def is_client(client: bytes) -> bool:
    """Whether it is the id of a client, and not one under which copies are known in the log."""
    return not client.startswith((PRODUCER, BY_ID, ONCE))


class Requests(Packed, frozen=True):
    """The requests of a client that a batch is made of: each request's number, and how many of the
    batch's messages it has. They stand in the order of the messages, and their numbers grow. A
    batch of a producer is one request, so that all of it is delivered, or nothing. So is a batch
    with an id of its sender's own (`by_id`); its number is the mark of the group's ids when the
    message was first sent. So is a client's request that is stamped (`once`).

    A reader may get a part of a batch (`DeliveredBatch.between`). The first request then also
    counts its messages that are before that part. So the counts say which part of its request the
    first message is: they have as many messages more than the batch."""

    client: Annotated[bytes, Meta(min_length=CLIENT_BYTES, max_length=CLIENT_BYTES)]
    numbers: Annotated[
        tuple[tuple[Ordinal, Ordinal], ...], Meta(min_length=1, max_length=BATCH_MESSAGES)
    ]

    def parts(self, messages: int) -> list[tuple[int, int]]:
        """One for each message of a batch of this many: its request's number, and its place in the
        request. Raises FrameError if no such batch has these counts."""
        if not self.numbers:
            raise FrameError(
                "the parts of its requests are not known: the daemon that cut the batch is of an"
                " earlier release; upgrade its site"
            )
        at = self._begin(messages)
        if at > 0:
            raise FrameError(
                f"its requests have {messages - at:,} messages, the batch {messages:,}"
            )
        parts = []
        for number, count in self.numbers:
            parts += [(number, part) for part in range(max(0, -at), count)]
            at += count
        return parts

    def between(self, first: int, end: int, messages: int) -> "Requests":
        """The requests of the messages from place `first` to before `end`, in a batch of
        `messages`."""
        at = self._begin(messages)
        kept = []
        for number, count in self.numbers:
            if at < end and at + count > first:
                kept.append((number, min(count, end - at)))
            at += count
        return Requests(self.client, tuple(kept))

    def _begin(self, messages: int) -> int:
        """The place of the first request's first message in a batch of this many messages: 0, or
        below 0 if the batch was cut."""
        return messages - sum(count for _, count in self.numbers)

    def check_against(self, messages: int) -> None:
        """Raise FrameError unless the numbers grow, and the counts are those of all messages."""
        before = total = 0
        for number, count in self.numbers:
            if number <= before:
                raise FrameError(f"batch.requests: {number} stands behind {before}")
            before = number
            total += count
        if total != messages:
            raise FrameError(f"batch.requests have {total:,} messages, the batch {messages:,}")
        if len(self.numbers) > 1 and not is_client(self.client):
            raise FrameError(
                f"batch.requests: {len(self.numbers)} of a producer, or with ids, in one batch"
            )
        if is_once(self.client):
            number = self.numbers[0][0]
            stamp = stamp_in(self.client, number)
            if not number >> MARK_BITS or not number & _COUNTS or stamp & _COUNTS == _COUNTS:
                raise FrameError(f"batch.requests: {number} is no number with a stamp")
        if is_by_id(self.client) and not self.numbers[0][0] >> MARK_BITS:
            raise FrameError(f"batch.requests: {self.numbers[0][0]} is no mark of ids")


class Batch(Packed, frozen=True):
    """`count` messages with seq, seq+1, …; `members` is given for an implicit group only, and
    `requests` where a daemon's client has sent it."""

    origin: Site
    incarnation: Natural  # 0 in none but the Close of an epoch, which goes to listed sites
    group: Group
    seq: Ordinal
    count: Annotated[int, Meta(ge=1, le=BATCH_MESSAGES)]
    body: Annotated[bytes, Meta(max_length=BODY_BYTES + ENVELOPE_BYTES)]
    past: Vector = ()
    members: tuple[Site, ...] = ()
    requests: Requests | None = None

    def check(self) -> None:
        if self.origin not in KNOWN_NAMES:
            check_site(self.origin, "batch.origin")
        if self.members or self.group not in KNOWN_NAMES:
            check_destination(self.group, self.members, "batch.group")
        if not (self.incarnation or self.members):
            raise FrameError("batch.incarnation is 0, and no members are listed")
        if self.past:
            self._check_past()
        if self.requests is not None:
            self.requests.check_against(self.count)
            client = self.requests.client
            if self.members and not (is_client(client) or is_once(client)):
                raise FrameError(
                    "batch.requests: a producer, or what has an id, goes to no list of sites"
                )

    def _check_past(self) -> None:
        check_length(self.past, 0, VECTOR_ENTRIES, "batch.past")
        for group, _, members in self.past:
            if members or group not in KNOWN_NAMES:
                check_destination(group, members, "batch.past")

    def weight(self) -> int:
        """Roughly the bytes of it in a frame."""
        if self.past or self.members:
            past = sum(96 + 66 * len(members) for _, _, members in self.past)
            return BATCH_WEIGHT + len(self.body) + past + 66 * len(self.members)
        return BATCH_WEIGHT + len(self.body)  # nearly all are such


def ticket_of(client: bytes, number: int) -> int:
    """The ticket of the producer that has sent a request, or of the window of its id or of its
    client; 0: it has none."""
    return number >> MARK_BITS if client.startswith((BY_ID, ONCE)) else ticket_in(client)


def may_expire(batch: Batch) -> bool:
    """Whether it may be in the log, and neither it nor a copy of it be delivered: its sender has
    chosen an id for it, it is a client's request with a stamp, or of a producer that has a later
    generation."""
    return batch.requests is not None and not is_client(batch.requests.client)


class Placed(Packed, frozen=True):
    """A batch in its place: its messages are the group's number, number+1, … of this epoch."""

    key: Key
    number: Ordinal
    batch: Batch

    def check(self) -> None:
        path, site = self.key
        if not 0 < len(path) <= KEY_PATH:
            check_length(path, 1, KEY_PATH, "key.path")
        if site not in KNOWN_NAMES:
            check_site(site, "key.site")
        self.batch.check()


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message handed to the application: the public face of a delivery. A struct, because a named
    tuple takes twice as long to make and gives the garbage collector work.

    `sent_ns` is the clock of the origin when it took the message, in nanoseconds since 1970 (0: not
    known). It is another machine's word: nothing is ordered by it."""

    position: int
    epoch: int
    group: Group
    origin: Site
    incarnation: int
    seq: int
    payload: bytes
    attempt: int
    key: Key
    sent_ns: int = 0
    header_items: HeaderItems = ()
    addressed: tuple[Group, ...] = ()

    @property
    def id(self) -> MessageId:
        """Names the message: origin, incarnation, group and seq."""
        return MessageId(self.origin, self.incarnation, self.group, self.seq)

    @property
    def headers(self) -> dict[str, bytes]:
        """The headers by name, in a new dictionary; empty when there are none."""
        return dict(self.header_items)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that the message was addressed to. Empty: it was sent to listed sites, or to
        several groups by a site of an older release."""
        return self.addressed or _named(self.group)


class DeliveredBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch handed to the application; its first message is at `position`."""

    position: int
    epoch: int
    placed: Placed
    attempt: int = 1

    @property
    def group(self) -> Group:
        """The group that all messages of the batch were sent to."""
        return self.placed.batch.group

    @property
    def origin(self) -> Site:
        """The site that sent it."""
        return self.placed.batch.origin

    @property
    def incarnation(self) -> int:
        """The incarnation of the origin."""
        return self.placed.batch.incarnation

    @property
    def seq(self) -> int:
        """The seq of the first message."""
        return self.placed.batch.seq

    @property
    def count(self) -> int:
        """How many messages it has."""
        return self.placed.batch.count

    @property
    def last(self) -> int:
        """The position of the last message."""
        return self.position + self.placed.batch.count - 1

    @property
    def payloads(self) -> list[bytes]:
        """The payload of each message, in order."""
        return payloads_of(self.placed.batch)

    @property
    def sent_ns(self) -> int:
        """The clock of the origin when it took the messages; 0: not known."""
        body = body_of(self.placed.batch)
        return body.sent_ns if isinstance(body, Envelope) else 0

    @property
    def headers(self) -> list[dict[str, bytes]]:
        """The headers of each message, in order."""
        body = body_of(self.placed.batch)
        if isinstance(body, Envelope):
            return [dict(items) for items in body.items()]
        return [{} for _ in body]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups that the messages were addressed to, as `Delivery.groups`."""
        body = body_of(self.placed.batch)
        return (body.groups if isinstance(body, Envelope) else ()) or _named(self.group)

    @property
    def audience(self) -> tuple[Group, ...]:
        """The groups whose readers get it: its own and, where it was sent to several groups, each
        of them. To have a name among them takes reading the body; to be of one group does not."""
        return (self.group, *self.groups) if is_implicit(self.group) else (self.group,)

    def between(self, first: int, last: int) -> "DeliveredBatch":
        """Its messages at the positions from `first` to `last`, of which it has one at least. Every
        part of a batch that a reader gets is made here: payloads, headers, marks and outcomes are
        cut at the same places."""
        placed, skipped = self.placed, max(0, first - self.position)
        batch, end = placed.batch, min(placed.batch.count, last + 1 - self.position)
        if not skipped and end == batch.count:
            return self
        requests = batch.requests
        part = replace(
            batch,
            seq=batch.seq + skipped,
            count=end - skipped,
            body=body_part(batch.body, skipped, end),
            requests=requests and requests.between(skipped, end, batch.count),
        )
        return replace(
            self,
            position=self.position + skipped,
            placed=replace(placed, number=placed.number + skipped, batch=part),
        )

    def deliveries(self) -> list[Delivery]:
        """One for each message."""
        placed, epoch, first = self.placed, self.epoch, self.position
        key, batch = placed.key, placed.batch
        seq, count = batch.seq, batch.count
        group, origin, incarnation = batch.group, batch.origin, batch.incarnation
        body, attempt = unpack_body(batch.body), self.attempt
        sent_ns = 0
        if type(body) is list:
            payloads = body
        else:
            assert isinstance(body, Envelope)
            payloads, sent_ns = body.payloads, body.sent_ns
        if len(payloads) != count:
            body_of(batch)  # it raises
        if type(body) is Envelope and (body.headers or body.groups):
            return self._with_extras(body)
        if count == 1:
            return [
                Delivery(
                    first, epoch, group, origin, incarnation, seq, payloads[0], attempt, key,
                    sent_ns,
                )
            ]  # fmt: skip
        return list(
            map(
                Delivery, range(first, first + count), repeat(epoch), repeat(group), repeat(origin),
                repeat(incarnation), range(seq, seq + count), payloads, repeat(attempt),
                repeat(key), repeat(sent_ns),
            )
        )  # fmt: skip

    def _with_extras(self, body: Envelope) -> list[Delivery]:
        """One for each message, where there are headers or several groups."""
        batch, key = self.placed.batch, self.placed.key
        return [
            Delivery(
                self.position + place, self.epoch, batch.group, batch.origin, batch.incarnation,
                batch.seq + place, payload, self.attempt, key, body.sent_ns, items, body.groups,
            )
            for place, (payload, items) in enumerate(zip(body.payloads, body.items(), strict=True))
        ]  # fmt: skip


def _named(group: Group) -> tuple[Group, ...]:
    """A group that has a name, not a list of sites."""
    return () if is_implicit(group) else (group,)


_pack = msgspec.msgpack.Encoder().encode


def pack_payloads(payloads: list[bytes]) -> bytes:
    return _pack(payloads)


def unpack_payloads(body: bytes) -> list[bytes]:
    """The payloads of a body in either form; FrameError when the bytes are anything else."""
    found = unpack_body(body)
    return found.payloads if isinstance(found, Envelope) else found


def body_of(batch: Batch) -> list[bytes] | Envelope:
    """The payloads of the batch, or the envelope with them. FrameError where there is not one for
    each message."""
    body = unpack_body(batch.body)
    count = len(body if type(body) is list else body.payloads)  # type: ignore[union-attr]
    if count != batch.count:
        raise FrameError(
            f"body of {batch.origin}'s batch {batch.seq} to {batch.group} holds"
            f" {count:,} payloads, the batch says {batch.count:,}"
        )
    return body


def payloads_of(batch: Batch) -> list[bytes]:
    """One payload for each message of the batch; FrameError when the body holds another number."""
    body = body_of(batch)
    return body.payloads if isinstance(body, Envelope) else body


def check_body(batch: Batch) -> None:
    """Raise FrameError unless the batch can be delivered: its body has as many payloads as it says,
    and its headers and groups keep the rules."""
    body = unpack_body(batch.body)
    if len(body if type(body) is list else body.payloads) != batch.count:  # type: ignore[union-attr]
        body_of(batch)  # it raises
    if type(body) is Envelope and (body.headers or body.groups):
        body.check(listed=bool(batch.members))
