"""The end of epochs: its parts, the last seq of each stream that it tells, and what is forgotten.

An entry is asked for by its origin alone: to learn which of its messages closed epochs include, and
to number on. So the entry of a list of sites, or of a group that is gone, may go when the origin
has compared its messages with it. Its seq stays in the *floor* of the origin: a stream without an
entry is numbered on from there, so that no id names two messages (docs/epochs.md, "Streams are
forgotten"). Entries of a retired origin go too: it may never come to compare.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from ordercast.core.clients import remembered_clients
from ordercast.core.epochs.layout import Layout, Stream
from ordercast.core.ids import remembered
from ordercast.model.epochs import EndPart, Finish, Open, is_mark
from ordercast.model.features import BYGONE
from ordercast.model.groups import Site
from ordercast.model.implicit import is_implicit
from ordercast.model.limits import PARTS

FEW = 4_096  # entries that are never looked through


# --- parts ----------------------------------------------------------------------------------------


def with_part(layout: Layout, record: EndPart) -> Layout:
    """Keep it for the end."""
    flush = layout.flushing
    if flush is not None and flush.number == record.begun and len(flush.parts) < PARTS:
        return replace(layout, flushing=replace(flush, parts=(*flush.parts, record)))
    for change, closing in layout.closing.items():
        if closing.number == record.begun and len(closing.parts) < PARTS:
            more = replace(closing, parts=(*closing.parts, record))
            return replace(layout, closing={**layout.closing, change: more})
    return layout


def in_term(layout: Layout, term: int) -> Layout:
    """The layout for the next record. Parts count only with an end of the same term: one manager
    has made them all, of the same reports, so that they are as good as one record."""
    if term == layout.term:
        return layout
    flush = layout.flushing
    if flush is not None and flush.parts:
        layout = replace(layout, flushing=replace(flush, parts=()))
    if any(closing.parts for closing in layout.closing.values()):
        whole = {name: replace(one, parts=()) for name, one in layout.closing.items()}
        layout = replace(layout, closing=whole)
    return layout


# --- streams --------------------------------------------------------------------------------------


def told_in(layout: Layout, parts: Iterable[EndPart | Finish | Open]) -> dict[Stream, int]:
    """The streams of an end, with the last seqs."""
    told: dict[Stream, int] = {}
    known = layout.lasts.get
    for part in parts:
        for origin, incarnation, group, seq in part.lasts:
            stream = (origin, incarnation, group)
            before = told.get(stream) or known(stream, 0)  # an end tells nothing below that
            told[stream] = max(before, seq)
    return told


def with_streams(
    layout: Layout,
    told: Mapping[Stream, int],
    begun: int,
    heard: Mapping[Site, int],
    *,
    opened: Container[int],
    retired: Container[Site] = (),
    flush: bool,
) -> Layout:
    """The layout with what an end tells. `begun`: the number of the record that began it. `heard`:
    the sites that had folded that record when they reported, and were in an epoch, with their
    incarnations. They have compared their messages with all entries, except entries from later
    records. `opened`: the epochs that begin with it. `retired`: the sites that it retires, which
    compare their messages with the entries when they fold it."""
    lasts = {**layout.lasts, **told}
    if layout.last_ticket:
        lasts = remembered_clients(remembered(_with_tickets(layout, lasts, opened)))
    before, layout = layout.told_at, replace(layout, lasts=lasts, told_at=layout.count)
    if len(lasts) <= max(FEW, layout.look_at) or before >= begun:
        return layout
    roster, groups = layout.roster, layout.groups
    floors, bygone, kept = dict(layout.floors), dict(layout.bygone), dict[Stream, int]()
    folds = BYGONE in layout.features  # sites without it keep the entries of retired sites
    for at in layout.floors if flush else ():
        if at[1] < roster.get(at[0], 0):  # these stores are lost: no site takes their messages
            seq = floors.pop(at)
            if folds:
                bygone[at] = max(seq, bygone.get(at, 0))
    for stream, seq in lasts.items():
        origin, incarnation, group = stream
        if flush and incarnation < roster.get(origin, 0):
            if folds:
                bygone[origin, incarnation] = max(seq, bygone.get((origin, incarnation), 0))
            continue
        stays = origin in roster or is_mark(origin)
        if stream in told or (stays and group in groups):
            kept[stream] = seq
        elif heard.get(origin) == incarnation:
            floors[origin, incarnation] = max(seq, floors.get((origin, incarnation), 0))
        elif stays or origin in retired or not folds:
            kept[stream] = seq
        else:  # it was retired by an earlier end, and may never come to ask
            bygone[origin, incarnation] = max(seq, bygone.get((origin, incarnation), 0))
    return replace(layout, lasts=kept, floors=floors, bygone=bygone, look_at=2 * len(kept))


def _with_tickets(
    layout: Layout, lasts: Mapping[Stream, int], opened: Container[int]
) -> dict[Stream, int]:
    """Without the marks of producers that are removed. In an epoch that goes on members still have
    them, and a site that was absent when it opened must begin it with the same."""
    tickets = dict.fromkeys(layout.producers.values())
    there = {
        group: None
        for epoch, domain in layout.domains.items()
        if epoch not in opened
        for group in domain.structure.groups
    }
    return {
        at: number
        for at, number in lasts.items()
        if not is_mark(at[0])
        or at[1] in tickets
        or at[2] in there
        or (there and is_implicit(at[2]))
    }
