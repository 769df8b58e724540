"""What named producers send through this site (docs/producers.md).

A producer has a ticket for each group. The first message of a producer to a group asks the cluster
for it, once. Messages of producers are taken one after the other, so that none overtakes another
one that waits for its ticket or for room.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from ordercast.core.batches import Extras
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.streams.copy_marks import was_produced
from ordercast.model.arguments import require_producer
from ordercast.model.epochs import PRODUCERS as MARKS
from ordercast.model.epochs import AddProducer, Edit
from ordercast.model.errors import ConfigError, Error, Expired, Fenced, UnknownGroup
from ordercast.model.features import PRODUCERS
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.messages import generation_in, in_generation, numbered, producer_id
from ordercast.net.site.copies.doubts import Doubts, require_member
from ordercast.net.site.copies.outcomes import Outcomes
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.sender import SiteSender


class ProducerSender:
    """`_failures` counts, by producer and group, the messages that could not be sent. A message
    that waits behind one of these is not sent either: with the later number in the log, the earlier
    message would be taken for a copy. `_sending`: how many are being sent; when there are none, the
    failures are forgotten."""

    def __init__(
        self,
        core: Member,
        sender: SiteSender,
        ask: Callable[[Edit], Awaitable[None]],
        doubts: Doubts,
        outcomes: Outcomes,
    ) -> None:
        self._core = core
        self._doubts = doubts
        self._outcomes = outcomes
        self._sender = sender
        self._ask = ask
        self._in_turn = asyncio.Lock()
        self._failures: Counter[tuple[str, Group]] = Counter()
        self._sending: Counter[tuple[str, Group]] = Counter()

    async def send(
        self,
        name: tuple[str, int],
        group: Group,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """`name`: the producer, and its number with its generation; `subject`: the subject that a
        client speaks for. Raises as `multicast_many`; ConfigError also if the cluster takes no more
        producers, or if there is a generation and this site can neither know nor ask what is
        fenced."""
        producer, number = name
        generation = generation_in(number)
        require_producer(group, producer, number - in_generation(generation, 0), generation)
        if generation and group in self._core.layout.groups and not self._outcomes.is_open:
            require_member(self._core, group, "a generation")
        self._sender.require_open(group, subject)
        pair = (producer, group)
        before = self._failures[pair]
        self._sending[pair] += 1
        try:
            async with self._in_turn:
                if self._failures[pair] != before:
                    raise Error(f"a message of producer {producer!r} before it was not sent")
                ticket = await self.ticket(producer, group)
                request = (producer_id(ticket), number)
                receipt = await self._sender.send_batch(group, batch, extras, request, subject)
        except BaseException:  # cancelled, too: what waits behind it must not overtake it
            self._failures[pair] += 1
            raise
        finally:
            self._sending[pair] -= 1
            if not self._sending[pair]:
                del self._sending[pair]
                self._failures.pop(pair, None)
        return self._followed(receipt, pair, ticket, number)

    def _followed(
        self, receipt: Receipt, pair: tuple[str, Group], ticket: int, number: int
    ) -> Receipt:
        """The receipt that raises Fenced if a later generation was there first."""
        outcomes, layout = self._outcomes, self._core.layout
        producer, group = pair
        if self._core.name not in layout.groups.get(group, ()) and not outcomes.is_open:
            return receipt  # it has no log, and cannot know of a later generation

        def was_told() -> bool:
            mark = self._core.layout.lasts.get((MARKS, ticket, group), 0)
            return mark >= number and generation_in(mark) == generation_in(number)

        def is_over() -> bool:
            return self._core.layout.producers.get(pair) != ticket

        def error() -> Expired:
            return (removed if is_over() else fenced)(producer, number, group)

        ask = partial(
            outcomes.delivered,
            (group, producer_id(ticket)),
            lambda told, epoch: was_produced(told, epoch, number),
            is_over,
            was_told,
        )
        return self._doubts.follow(receipt, was_told, error, ask if outcomes.is_open else None)

    async def ticket(
        self,
        producer: str,
        group: Group,
        feature: str = PRODUCERS,
        listed: tuple[Site, ...] = (),
    ) -> int:
        """The ticket of a producer at a group; it is asked for if there is none yet. Raises
        ConfigError also if not all sites have the feature."""
        if not self._core.admission.founded:
            self._core.domain(group, listed)  # raises if there is none
            await self._sender.ready()
        pair = (producer, group)
        found = self._core.layout.producers.get(pair)
        if found is None:
            if feature not in self._core.layout.features:
                raise ConfigError(
                    f"not all sites have a program that knows {feature} yet: see 'ordercast status'"
                )
            self._core.domain(group, listed)
            await self._ask(AddProducer(producer, group))
            found = self._core.layout.producers.get(pair)
        if found is None:
            raise UnknownGroup(f"producer {producer!r} was removed from group {group!r}")
        return found


def fenced(producer: str, number: int, group: Group) -> Fenced:
    return Fenced(
        f"message {numbered(number)} of producer {producer!r} to group {group!r}: a later"
        " generation uses the name: it is not delivered from now on, and perhaps it was before"
    )


def removed(producer: str, number: int, group: Group) -> Expired:
    return Expired(
        f"message {numbered(number)} of producer {producer!r} to group {group!r}: the producer was"
        " removed before a member could tell what became of it: it is not delivered from now on,"
        " and perhaps it was before"
    )
