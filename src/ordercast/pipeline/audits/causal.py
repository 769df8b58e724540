"""Causal order, part by part, by the checker that judges histories in memory.

A part may be judged alone when nothing that happened before its messages lies in a later part
(docs/audit.md): no message crosses a cut, no send knew of what comes after its part, and the sends
of every origin are in parts in the order in which they were sent. The driver decides this from the
evidence; where it fails, the parts between are judged as one.
"""

from collections.abc import Iterator

import numpy as np

from ordercast.check.causal_order import _wrong as wrong_deliveries
from ordercast.check.view import View
from ordercast.history.rows import Delivered, History, Sent
from ordercast.model.messages import MessageId
from ordercast.pipeline.audits.by_part import FIRST, SEND
from ordercast.pipeline.audits.cuts import Cuts
from ordercast.pipeline.audits.evidence import Evidence, Total
from ordercast.pipeline.audits.numbers import Columns, Ints, StreamArrays
from ordercast.pipeline.audits.places import PlaceColumns, first_places, last_places


def judge_causal(columns: Columns, streams: StreamArrays, evidence: Evidence) -> list[list[int]]:
    """First deliveries that stand before a message that happened before them.

    Each as (site, position, message, position and message of the one that should be first).
    """
    history, number = _as_history(columns, streams)
    view = View(history)
    shown: list[list[int]] = []
    for site, *places in wrong_deliveries(view):
        one = view.sites[site]
        where = [int(one.name)]
        for place in places:
            position = one.rows[one.order_rows[place]].position
            where += [position, number[view.messages[one.order[place]]]]
        shown.append(where)
    least = min(shown, default=None)
    evidence.check("causal_order").see(len(shown), least, least or [])
    return shown


def _as_history(columns: Columns, streams: StreamArrays) -> tuple[History, dict[MessageId, int]]:
    """The part as rows: sites are named by their numbers, a group by that of its family."""
    kept = np.flatnonzero(columns["flag"] & (FIRST | SEND))
    messages = columns["message"][kept]
    stream = streams.of(messages)
    ids = zip(
        streams.origin[stream].tolist(),
        streams.incarnation[stream].tolist(),
        streams.family[stream].tolist(),
        (messages - streams.offsets[stream]).tolist(),
        strict=True,
    )
    names = ("site", "position", "attempt", "epoch", "flag", "message")
    rows = zip(*(columns[name][kept].tolist() for name in names), strict=True)
    history = History()
    number: dict[MessageId, int] = {}
    for (origin, incarnation, family, seq), (site, position, attempt, last, flag, message) in zip(
        ids, rows, strict=True
    ):
        one = MessageId(_name(origin), incarnation, _name(family), seq)
        number[one] = message
        if flag & SEND:
            history.sent.append(Sent(*one, position, attempt, last, 0))
        else:
            own = (one.group, one.origin, one.incarnation, one.seq)
            history.deliveries.append(Delivered(_name(site), position, attempt, last, *own, 0))
    return history, number


def _name(number: int) -> str:
    return f"{number:012d}"


def tell_sends(
    columns: Columns, streams: StreamArrays, cuts: Cuts, part: int, evidence: Evidence
) -> None:
    """The first and the last send of each origin, and of each family, in this part."""
    rows = np.flatnonzero(columns["flag"] & SEND)
    if not len(rows):
        return
    origin, position = columns["site"][rows], columns["position"][rows]
    stream = streams.of(columns["message"][rows])
    time = PlaceColumns(
        streams.incarnation[stream], columns["epoch"][rows], columns["attempt"][rows], position
    )
    first, last = first_places(origin, time), last_places(origin, time)
    here = np.full(len(first.keys), part)
    evidence.border("send_times", first.keys, here, *first.places, *last.places)
    zero = np.zeros(len(rows), np.int64)
    number = PlaceColumns(columns["message"][rows], zero, zero, zero)
    family = streams.family[stream]
    first, last = first_places(family, number), last_places(family, number)
    here = np.full(len(first.keys), part)
    evidence.border("send_numbers", first.keys, here, first.places[0], last.places[0])
    latest = int(cuts.part_of(origin, position).max())
    if latest > part:
        evidence.table("knew", np.array([part]), np.array([latest]))


def ranges_to_merge(total: Total) -> Iterator[tuple[int, int]]:
    """Parts between which a message may have happened before one of an earlier part."""
    yield from zip(*(column.tolist() for column in total.table("knew", 2)), strict=True)
    yield from zip(*(column.tolist() for column in total.table("out_of_order", 2)), strict=True)


def fold_sends(borders: Total, evidence: Evidence) -> None:
    """Find the sends that are out of order, among those that all parts told."""
    key, part, *times = borders.table("send_times", 10)
    found = [*_out_of_order(part, key, np.stack(times[:4], 1), np.stack(times[4:], 1))]
    key, part, low, high = borders.table("send_numbers", 4)
    found += _out_of_order(part, key, low[:, None], high[:, None])
    evidence.table("out_of_order", *np.array(sorted(set(found)), np.int64).reshape(-1, 2).T)


def _out_of_order(part: Ints, key: Ints, low: Ints, high: Ints) -> Iterator[tuple[int, int]]:
    """Per key, the range from a part to the later part that begins before it ends."""
    order = np.lexsort((part, key))
    tops: list[tuple[list[int], int]] = []  # the ends that grow: each lies beyond all before it
    last_key = -1
    for row in order.tolist():
        if key[row] != last_key:
            last_key, tops = int(key[row]), []
        begin, end = low[row].tolist(), high[row].tolist()
        beyond = [where for top, where in tops if top > begin]
        if beyond:
            yield min(beyond), int(part[row])
        if not tops or end > tops[-1][0]:
            tops.append((end, int(part[row])))
