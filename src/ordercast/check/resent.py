"""Resent: a client's request became two messages."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

from ordercast.check.tangles import MessageNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View
from ordercast.history.rows import REPEATING, Delivered, Sent, no_request

RequestPart: TypeAlias = tuple[str, int, int]
"""Client, request, and the place in it: a message as its client knows it. A plain tuple, because
there is one for every row."""


def check_resent(view: View) -> Verdict:
    """Parts of requests that stand under two message ids or more, sent or in live rows."""
    first: dict[RequestPart, MessageNumber] = {}
    several: dict[RequestPart, set[MessageNumber]] = {}
    _note("sent", _sent(view), first, several)
    for site in view.sites:
        _note("deliveries", zip(site.numbers, site.rows, strict=True), first, several)
    if not several:
        return Verdict("resent", 0)
    part = min(several)
    return Verdict("resent", len(several), _witness(view, part, several[part]))


def _sent(view: View) -> Iterator[tuple[MessageNumber, Sent]]:
    """What a producer sends, or what has an id, may be sent again: of its rows those that are
    delivered count."""
    rows = ((number, row) for number, row in enumerate(view.sent) if row is not None)
    for number, row in chain(rows, view.sent_again):
        if row.client is None or not row.client.startswith(REPEATING):
            yield number, row


def _note(
    table: str,
    rows: Iterable[tuple[MessageNumber, Sent | Delivered]],
    first: dict[RequestPart, MessageNumber],
    several: dict[RequestPart, set[MessageNumber]],
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
            several.setdefault(part, {known}).add(message)


def _witness(view: View, part: RequestPart, messages: set[MessageNumber]) -> Witness:
    """The two smallest ids, and the first site that has delivered both."""
    one, other = sorted(messages, key=view.messages.__getitem__)[:2]
    shown: dict[str, Any] = dict(zip(("client", "request", "part"), part, strict=True))
    shown["messages"] = [plain(view.messages[one]), plain(view.messages[other])]
    for site in view.sites:
        at: dict[MessageNumber, int] = {}
        for message, row in zip(site.numbers, site.rows, strict=True):
            if message in (one, other):
                at.setdefault(message, row.position)
        if len(at) == 2:
            return {**shown, "site": site.name, "positions": [at[one], at[other]]}
    return shown
