"""What the messages of a stored batch are: payloads, headers, time and addressees, as columns."""

from typing import NamedTuple

from ordercast.history.digest import digest
from ordercast.history.rows import shown_groups, shown_headers
from ordercast.model.envelope import Envelope
from ordercast.model.headers import HeaderItems
from ordercast.model.messages import Batch, body_of


class BatchContents(NamedTuple):
    """`headers`: of each message; None where no message has any. `sent_ns`, `addressed`: of all of
    them; None where they do not say it."""

    payloads: list[bytes]
    sent_ns: int | None = None
    headers: list[HeaderItems] | None = None
    addressed: str | None = None

    def only(self, kept: list[int]) -> "BatchContents":
        """Those of some messages alone."""
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


def contents_of(batch: Batch) -> BatchContents:
    """FrameError where the body has not one payload for each message."""
    body = body_of(batch)
    if not isinstance(body, Envelope):
        return BatchContents(body)
    headers = body.items() if body.headers else None
    return BatchContents(body.payloads, body.sent_ns or None, headers, shown_groups(body.groups))
