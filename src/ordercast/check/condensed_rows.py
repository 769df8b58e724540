"""What lies before a window: of the rows that are condensed, all that later rows are compared with.

A history that is followed is judged in windows (docs/follow.md). There is nothing before a whole
history, so the checks of one see an empty `CondensedRows`.
"""

from collections.abc import Collection, Mapping
from typing import TypeAlias

import msgspec

from ordercast.check.spans import Spans, add, tag_of
from ordercast.model.messages import MessageId

Stream: TypeAlias = tuple[str, int, str]
"""Origin, incarnation, group."""
RequestPart: TypeAlias = tuple[str, int, int]
"""Client, request, and the place in it: a message as its client knows it. A plain tuple, because
there is one for every row."""

RECENT_REQUESTS = 100_000
"""Parts of requests whose message is remembered. Of older ones only that there was one."""
REQUEST_SPANS = 500_000
"""Spans of older requests. Clients that number without holes need one per place in a request."""


class CondensedRows(msgspec.Struct):
    """Condensed rows, summed up: per stream, per site and stream, per site and epoch."""

    rows: int = 0
    messages: int = 0
    annulled: int = 0
    sites: set[str] = set()
    condensed: dict[Stream, Spans] = {}  # the messages; the tag is the epoch
    members: dict[
        tuple[int, str], list[str]
    ] = {}  # of each epoch and group that has some condensed
    lacked: dict[str, dict[Stream, Spans]] = {}  # by site: condensed without it, though a member
    foreign: set[tuple[str, MessageId]] = set()  # delivered at a site that is no member
    unsent: set[MessageId] = set()
    split: set[MessageId] = set()  # in two epochs
    last: dict[str, tuple[int, int]] = {}  # by site: position, attempt of the last condensed row
    attempts: dict[str, dict[int, int]] = {}  # by site and attempt: the highest condensed position
    highest: dict[str, dict[tuple[str, str], tuple[int, int, int]]] = {}
    """By site, then origin and group: the highest incarnation and seq, with its position."""
    epochs: dict[str, dict[int, int]] = {}  # by site and epoch: condensed rows
    first_epochs: dict[str, set[int]] = {}  # by site: those of first deliveries
    deliverers: dict[tuple[tuple[str, int], ...], int] = {}
    """Messages by who delivered them in which epoch."""
    above: dict[tuple[str, int], set[tuple[int, str]]] = {}
    """By site and base: epochs of what it delivered above the base, and who else delivered it."""
    lowest: dict[tuple[str, int], dict[tuple[str, str], tuple[int, int]]] = {}
    """By site and base, then origin and group: the lowest incarnation and seq above the base."""
    requests: dict[RequestPart, MessageId] = {}
    older_requests: dict[tuple[str, int], Spans] = {}  # by client and place in the request
    request_spans: int = 0
    resent: set[RequestPart] = set()  # counted already
    doubted: dict[str, int] = {}
    """By site: the latest epoch of a message that it lacks and that is below a base, maybe."""

    def epoch_of(self, message: MessageId) -> int | None:
        """The epoch of a condensed message. None: it is not condensed."""
        spans = self.condensed.get(message[:3])
        return None if spans is None else tag_of(spans, message[3])

    def delivered(self, site: str, message: MessageId) -> bool:
        """Whether a condensed message was delivered at the site."""
        epoch = self.epoch_of(message)
        if epoch is None:
            return False
        if site in self.members.get((epoch, message.group), ()):
            spans = self.lacked.get(site, {}).get(message[:3])
            return spans is None or tag_of(spans, message.seq) is None
        return (site, message) in self.foreign

    def was_sent(self, message: MessageId) -> bool:
        return self.epoch_of(message) is not None and message not in self.unsent

    def last_position(self, site: str) -> int:
        return self.last.get(site, (0, 0))[0]

    def last_epoch(self, site: str, without: Collection[int]) -> int:
        return max((e for e in self.first_epochs.get(site, ()) if e not in without), default=0)

    def unagreed_rows(self, unagreed: Mapping[str, Collection[int]]) -> int:
        """Condensed rows of a site in an epoch that was closed without it since."""
        return sum(
            self.epochs.get(site, {}).get(epoch, 0)
            for site, epochs in unagreed.items()
            for epoch in epochs
        )

    def only_unagreed(self, unagreed: Mapping[str, Collection[int]]) -> int:
        """Condensed messages of which no agreed row is left."""
        if not any(unagreed.values()):
            return 0
        return sum(
            count
            for rows, count in self.deliverers.items()
            if rows and all(epoch in unagreed.get(site, ()) for site, epoch in rows)
        )

    def asked_before(self, part: RequestPart, message: MessageId) -> tuple[bool, MessageId | None]:
        """Whether the part became another message than this one, and which, if that is known."""
        known = self.requests.get(part)
        if known is not None:
            return known != message, known
        spans = self.older_requests.get((part[0], part[2]))
        # Of an older one the message is forgotten; if this one is condensed itself, it is that one.
        older = spans is not None and tag_of(spans, part[1]) is not None
        return older and self.epoch_of(message) is None, None

    def note_request(self, part: RequestPart, message: MessageId) -> bool:
        """False: there are more requests than may be remembered."""
        self.requests.setdefault(part, message)
        while len(self.requests) > RECENT_REQUESTS:
            client, request, place = next(iter(self.requests))
            del self.requests[client, request, place]
            spans = self.older_requests.setdefault((client, place), [])
            many = len(spans)
            add(spans, request, 0)
            self.request_spans += len(spans) - many
        if self.request_spans <= REQUEST_SPANS:
            return True
        oldest = next(iter(self.older_requests))
        self.request_spans -= len(self.older_requests.pop(oldest))
        return False
