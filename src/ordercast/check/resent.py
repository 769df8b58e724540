"""Resent: a client's request became two messages."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from ordercast.check.condensed_rows import RequestPart
from ordercast.check.tangles import MessageNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View
from ordercast.history.rows import REPEATING, Delivered, Sent, no_request
from ordercast.model.messages import MessageId


def check_resent(view: View) -> Verdict:
    """Parts of requests that stand under two message ids or more, sent or in live rows."""
    several = asked_twice(view)
    if not several:
        return Verdict("resent", 0)
    part = min(several)
    return Verdict("resent", len(several), _witness(view, part, several[part]))


def asked_twice(view: View) -> dict[RequestPart, set[MessageId]]:
    """The messages of each part that has several. A condensed one that is forgotten is left out."""
    first: dict[RequestPart, MessageNumber] = {}
    several: dict[RequestPart, set[MessageId]] = {}
    _note(view, "sent", _sent(view), first, several)
    for site in view.sites:
        _note(view, "deliveries", zip(site.numbers, site.rows, strict=True), first, several)
    for part, number in first.items() if view.before.condensed else ():
        message = view.messages[number]
        again, known = view.before.asked_before(part, message)
        if again:
            several.setdefault(part, {message}).update(() if known is None else (known,))
    return {part: own for part, own in several.items() if part not in view.before.resent}


def _sent(view: View) -> Iterator[tuple[MessageNumber, Sent]]:
    """A message of a producer, or with an id, may be sent again: only its rows that are delivered
    count."""
    rows = ((number, row) for number, row in enumerate(view.sent) if row is not None)
    for number, row in chain(rows, view.sent_again):
        if row.client is None or not row.client.startswith(REPEATING):
            yield number, row


def _note(
    view: View,
    table: str,
    rows: Iterable[tuple[MessageNumber, Sent | Delivered]],
    first: dict[RequestPart, MessageNumber],
    several: dict[RequestPart, set[MessageId]],
) -> None:
    for message, row in rows:
        client = row.client
        if client is None:
            continue
        request, place = row.request, row.part
        if request is None or place is None:
            raise no_request(table, "request" if request is None else "part")
        part = (client, request, place)
        known = first.setdefault(part, message)
        if known != message:
            ids = view.messages
            several.setdefault(part, {ids[known]}).add(ids[message])


def _witness(view: View, part: RequestPart, messages: set[MessageId]) -> Witness:
    """The two smallest ids, and the first site that has delivered both."""
    both = sorted(messages)[:2]
    shown: dict[str, Any] = dict(zip(("client", "request", "part"), part, strict=True))
    shown["messages"] = [plain(message) for message in both]
    if any(view.before.epoch_of(message) is not None for message in both):
        return shown  # where a condensed one was delivered is forgotten
    for site in view.sites:
        at: dict[MessageId, int] = {}
        for row in site.rows:
            if row.seq in (both[0].seq, both[-1].seq) and row.id in both:
                at.setdefault(row.id, row.position)
        if len(at) == 2:
            return {**shown, "site": site.name, "positions": [at[message] for message in both]}
    return shown
