"""What the messages of a batch are: payloads, headers, time, addressees and parts of requests.

They are columns of a history."""

from typing import NamedTuple

from ordercast.history.digest import digest
from ordercast.history.rows import (
    ID_CLIENT,
    ONCE_CLIENT,
    PRODUCER_CLIENT,
    shown_groups,
    shown_headers,
)
from ordercast.model.envelope import Envelope
from ordercast.model.headers import HeaderItems
from ordercast.model.messages import BY_ID, Batch, body_of, digest_in, is_by_id, is_once, ticket_in


class BatchContents(NamedTuple):
    """`headers`: of each message; None where no message has any. `sent_ns`, `addressed`: of all of
    them; None where they do not say it."""

    payloads: list[bytes]
    sent_ns: int | None = None
    headers: list[HeaderItems] | None = None
    addressed: str | None = None

    def only(self, kept: list[int]) -> "BatchContents":
        """The contents of these messages alone."""
        headers = None if self.headers is None else [self.headers[n] for n in kept]
        return self._replace(payloads=[self.payloads[n] for n in kept], headers=headers)

    def sizes(self) -> list[int]:
        return [len(payload) for payload in self.payloads]

    def digests(self) -> list[int]:
        if self.headers is None:
            return [digest(payload) for payload in self.payloads]
        return list(map(digest, self.payloads, self.headers))

    def shown(self) -> list[str | None] | None:
        """The headers of each message, as a column has them."""
        return None if self.headers is None else [shown_headers(items) for items in self.headers]


class RequestParts(NamedTuple):
    """For each message of a batch, which part of which request of a client it is: columns of a
    history, all None where no daemon's client has sent the batch."""

    client: str | None = None
    request: list[int] | None = None
    part: list[int] | None = None

    def only(self, kept: list[int]) -> "RequestParts":
        """The parts of these messages alone."""
        if self.request is None or self.part is None:
            return self
        return RequestParts(
            self.client, [self.request[n] for n in kept], [self.part[n] for n in kept]
        )


def contents_of(batch: Batch) -> BatchContents:
    """FrameError where the body has not one payload for each message."""
    body = body_of(batch)
    if not isinstance(body, Envelope):
        return BatchContents(body)
    headers = body.items() if body.headers else None
    return BatchContents(body.payloads, body.sent_ns or None, headers, shown_groups(body.groups))


def parts_of(batch: Batch) -> RequestParts:
    """FrameError where the requests have not one part for each message. The batch may be cut."""
    if batch.requests is None:
        return RequestParts()
    parts = batch.requests.parts(batch.count)
    client = batch.requests.client
    ticket = ticket_in(client)
    name = f"{PRODUCER_CLIENT}{ticket}" if ticket else client.hex()
    if is_by_id(client):
        name = f"{ID_CLIENT}{client[len(BY_ID) :].hex()}"
    elif is_once(client):
        name = f"{ONCE_CLIENT}{digest_in(client).hex()}"
    return RequestParts(name, [number for number, _ in parts], [place for _, place in parts])
