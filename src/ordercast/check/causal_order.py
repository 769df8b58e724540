"""Causal order: nothing is delivered before a message that happened before it.

x happened before y when y's origin sent x earlier, or had delivered x when it sent y, or through
other messages in the same way. For every message y this works out, per site, the last place there
of anything in y's past; y is wrong at a site where that lies behind y itself. A past is the
highest of the pasts it is made of, so one vector per message is enough, each worked out after
those it is made of. Where a wrong history makes messages precede each other, they share one past.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby

from ordercast.check.tangles import MessageNumber, SiteNumber, strong_parts
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View, send_key
from ordercast.history.rows import Sent
from ordercast.model.groups import Group

LastPlaces = list[int]  # per site, the last place of anything in it; -1: nothing


def check_causal_order(view: View) -> Verdict:
    """First deliveries of a message at a site that come before one that happened before it."""
    wrong = _wrong(view)
    if not wrong:
        return Verdict("causal_order", 0)
    site, place, last = min(wrong)
    order = view.sites[site].order
    witness: Witness = {
        "site": view.sites[site].name,
        "messages": [plain(view.messages[order[last]]), plain(view.messages[order[place]])],
        "positions": [view.position(site, order[last]), view.position(site, order[place])],
    }
    return Verdict("causal_order", len(wrong), witness)


def _wrong(view: View) -> list[tuple[SiteNumber, int, int]]:
    """(site, place of a delivery, last place there of anything in its past, which is behind it)."""
    wrong = []
    makes_up = _makes_up(view)
    readers = [0] * len(makes_up)
    for parts in makes_up:
        for node in parts:
            readers[node] += 1
    pasts: dict[int, LastPlaces] = {}
    for part in strong_parts(makes_up):
        past = _join(view, part, makes_up, pasts)
        for node in part:
            if readers[node]:
                pasts[node] = past
            if node < len(view.messages):
                for site in view.deliverers[node]:
                    place = view.places[site][node]
                    if past[site] > place:
                        wrong.append((site, place, past[site]))
        for node in part:  # a past that nobody will read any more need not be kept
            for other in makes_up[node]:
                readers[other] -= 1
                if not readers[other]:
                    pasts.pop(other, None)
    return wrong


def _join(
    view: View, part: Sequence[int], makes_up: Sequence[Sequence[int]], pasts: dict[int, LastPlaces]
) -> LastPlaces:
    """What has happened once all of `part` has: the pasts it is made of, and its own messages."""
    past = [-1] * len(view.sites)
    last: LastPlaces | None = None
    for node in part:
        for other in makes_up[node]:
            known = pasts.get(other)  # none for another node of the same part
            if known is not None and known is not last:
                past = [a if a > b else b for a, b in zip(past, known, strict=True)]  # noqa: FURB136
                last = known
    for node in part:
        if node < len(view.messages):
            for site in view.deliverers[node]:
                past[site] = max(past[site], view.places[site][node])
    return past


def _makes_up(view: View) -> list[list[int]]:
    """Per node, the nodes it is made of: messages by number, then blocks of deliveries.

    A block is what an origin delivered between two of its sends, and all before that.
    """
    makes_up: list[list[int]] = [[] for _ in view.messages]
    sends: dict[SiteNumber, list[tuple[MessageNumber, Sent]]] = defaultdict(list)
    for message, sent in enumerate(view.sent):
        if sent is not None:
            sends[view.site_number[sent.origin]].append((message, sent))
    for origin, own in sorted(sends.items()):
        _link_own_sends(own, makes_up)
        _link_deliveries(view, origin, own, makes_up)
    return makes_up


def _link_own_sends(
    own: Iterable[tuple[MessageNumber, Sent]], makes_up: Sequence[list[int]]
) -> None:
    """Link each send to those just before it.

    Sends to one group follow each other by (incarnation, seq); between groups by incarnation, time
    and last delivery. Of two sends to two groups that are equal in these, neither comes before
    the other.
    """
    streams: dict[Group, list[tuple[MessageNumber, Sent]]] = defaultdict(list)
    for message, sent in own:
        streams[sent.group_name].append((message, sent))
    timed = []
    for stream in streams.values():
        stream.sort(key=lambda item: (item[1].incarnation, item[1].seq))
        # A clock that runs backwards does not undo the order of the seqs.
        times = accumulate((send_key(sent) for _, sent in stream), max)
        for (message, sent), time in zip(stream, times, strict=True):
            timed.append((time, sent.group_name, message))
    before: list[MessageNumber] = []
    # A stable sort: within a group the seqs stay in order.
    for _, together in groupby(sorted(timed, key=lambda item: item[:2]), lambda item: item[0]):
        latest: list[MessageNumber] = []
        for _, burst in groupby(together, lambda item: item[1]):
            previous = before
            for _, _, message in burst:
                makes_up[message].extend(previous)
                previous = [message]
            latest.extend(previous)
        before = latest


def _link_deliveries(
    view: View,
    origin: SiteNumber,
    own: Iterable[tuple[MessageNumber, Sent]],
    makes_up: list[list[int]],
) -> None:
    site = view.sites[origin]
    rows = [site.rows[i] for i in site.order_rows]
    positions = [row.position for row in rows]
    attempts = list(accumulate((row.attempt for row in rows), max))
    by_count: dict[int, list[MessageNumber]] = defaultdict(list)
    for message, sent in own:
        # What the origin had delivered then: its rows up to the first that came later.
        seen = bisect_right(positions, sent.after_position)
        by_count[min(seen, bisect_right(attempts, sent.after_attempt))].append(message)
    done = 0
    for count, messages in sorted(by_count.items()):
        if count > done:
            block = site.order[done:count]
            makes_up.append(block if done == 0 else [*block, len(makes_up) - 1])
            done = count
        if done:
            for message in messages:
                makes_up[message].append(len(makes_up) - 1)
