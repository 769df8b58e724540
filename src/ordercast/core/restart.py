"""A site made again from its store: policy `wait` ([GS] §5.2.2).

Counters come from the checkpoint; then every record still held happens once more, with the same
effects but for persisting: links get back their numbers and what is not acknowledged, the ordered
log its positions. What was accepted but not placed by this site itself is sent again; a primary
that has it recognises its number. What was received and not durable was never acknowledged, so it
comes again. A direct protocol's lanes begin anew: it is asked to tell again what it owes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ordercast.core.outbox import NOTES, Accepted, Checkpoint, Headed, Passed, Record
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.wire.frames import CONTROL, DOWN, UP, DurableCounts

if TYPE_CHECKING:
    from ordercast.core.site import Site


def restore(site: "Site", checkpoint: Checkpoint | None, records: Sequence[Record]) -> None:
    site.replaying = True
    if checkpoint is not None:
        _load(site, checkpoint.state)
        records = [*checkpoint.records, *records]
    elif site.direct is not None:
        site.direct.restore({"inherited": ()})
    for record in records:
        if type(record) is Accepted:
            site.own.replay(record)
    placed_here: set[tuple[Group, int]] = set()
    heading = site.heading
    if heading is not None:
        for head in heading.heads():
            _came(site, head, placed_here)
    for record in records:
        if heading is not None and type(record) is Headed:
            _came(site, record, placed_here)
            heading.note(record)
        elif type(record) is not Passed:
            if site.direct is not None and isinstance(record, NOTES):
                site.direct.note(record)
        else:
            if site.direct is None and (heading is None or not heading.completes(record)):
                _came(site, record, placed_here)  # a direct protocol's lanes begin anew
            site.ordering.replay(record)
    if heading is not None:
        heading.replayed()
    site.replaying, site.resuming = False, True
    site.own.resume(placed_here)
    site.resuming = False
    if site.direct is not None:
        site.direct.restarted(None)
    site.retention.restored = site.retention.held()
    for link in site.links.values():
        for out in link.outgoing:
            out.restored = len(out.items)


def _came(site: "Site", record: Passed | Headed, placed_here: set[tuple[Group, int]]) -> None:
    """On which lane it did, or that it was this site's own."""
    if record.from_parent:
        _received(site, record.source, DOWN, 1)
    elif record.source != site.name:
        _received(site, record.source, UP, 1)
    else:
        placed_here.add((record.placed.batch.group, record.placed.batch.seq))


def announce(site: "Site") -> None:
    """Tell, and ask for, what others have forgotten of this site."""
    site.stability.restarted(None)
    for primary in site.own.awaited():
        if primary != site.name:
            site.send(primary, CONTROL, DurableCounts(()))
    for origin in site.retention.origins():
        site.tell_settled(origin, site.retention.final_seqs(origin))


def _load(site: "Site", state: dict[str, Any]) -> None:
    retention = site.retention
    retention.load(state)
    site.ordering.restore(state["ordering"])
    site.gate.logged = site.gate.delivered = site.gate.settled = retention.position
    for group, number in retention.logged.items():
        members = retention.implicit.get(group) or site.structure.members(group)
        site.stability.logged(group, number, members)
        site.stability.settled(group, number)
    final_here = dict(retention.final_seqs(site.name))
    if site.direct is not None:  # which has forgotten their places
        final_here.update(state.get("own_stable", {}))
    site.own.restore(retention.own_seqs, final_here, state["past"])
    if site.direct is not None:
        return
    for lane, counts in ((DOWN, retention.sent_down), (UP, retention.sent_up)):
        for peer, count in counts.items():
            site.link(peer).outgoing[lane].start_at(count)
    for origin, count in retention.from_origin.items():
        _received(site, origin, UP, count)
    if site.parent is not None:
        _received(site, site.parent, DOWN, retention.from_parent)


def _received(site: "Site", peer: SiteName, lane: int, count: int) -> None:
    inc = site.link(peer).incoming[lane]
    inc.got += count
    inc.done += count
