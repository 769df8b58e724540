"""The streams of a layout: the last seq of each that closed epochs include, and what is forgotten.

An entry is asked for by its origin alone: to learn which of its messages closed epochs include, and
to number on. So the entry of a list of sites, or of a group that is gone, may go when the origin
has heard of it. Its seq stays in the *floor* of the origin: a stream without an entry is numbered
on from there, so that no id names two messages (docs/epochs.md, "Streams are forgotten").
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ordercast.core.epochs.layout import Layout, Stream
from ordercast.model.epochs import EndPart, Finish, Open
from ordercast.model.groups import Site

FEW = 4_096  # entries that are never looked through


def told_in(layout: Layout, parts: Iterable[EndPart | Finish | Open]) -> dict[Stream, int]:
    """The streams of an end, with the last seqs."""
    told: dict[Stream, int] = {}
    for part in parts:
        for origin, incarnation, group, seq in part.lasts:
            stream = (origin, incarnation, group)
            told[stream] = max(seq, told.get(stream, 0), layout.lasts.get(stream, 0))
    return told


def with_streams(
    layout: Layout, told: Mapping[Stream, int], begun: int, heard: Iterable[Site], *, flush: bool
) -> Layout:
    """The layout with what an end tells. `begun`: the number of the record that began it, which all
    sites of `heard` had folded when they reported. They have heard of all entries but those that a
    later record has told."""
    lasts = {**layout.lasts, **told}
    before, layout = layout.told_at, replace(layout, lasts=lasts, told_at=layout.count)
    if len(lasts) <= max(FEW, layout.look_at) or before >= begun:
        return layout
    roster, groups, sites = layout.roster, layout.groups, dict.fromkeys(heard)
    floors, kept = dict(layout.floors), dict[Stream, int]()
    for stream, seq in lasts.items():
        origin, incarnation, group = stream
        now = roster.get(origin, 0)
        if flush and incarnation < now:
            continue  # its store is lost, and nobody takes its messages any more
        if group in groups or stream in told or origin not in sites or incarnation != now:
            kept[stream] = seq
        else:
            floors[origin, incarnation] = max(seq, floors.get((origin, incarnation), 0))
    return replace(layout, lasts=kept, floors=floors, look_at=2 * len(kept))
