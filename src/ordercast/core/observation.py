"""What judges and operators ask of a site within an epoch: how full its queues are, each beside its
bound, and for whom its messages wait."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from ordercast.core.link import Link
from ordercast.core.order.bodies import EARLY_BODIES
from ordercast.core.order.interface import DirectOrdering
from ordercast.core.own_messages import OwnMessages
from ordercast.core.passed_headers import HeadOrdering
from ordercast.core.retention import PassedBatches
from ordercast.core.stability.interface import Stability
from ordercast.core.states import OPEN, EpochState
from ordercast.core.structure import Structure
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch
from ordercast.model.options import Options
from ordercast.wire.frames import DOWN, UP

Observation: TypeAlias = tuple[str, int, int]
"""How full a queue is: (name, value, limit)."""


class Observed(Protocol):
    """The parts of a site that are looked at."""

    name: Site
    structure: Structure
    options: Options
    epoch_state: EpochState
    links: dict[Site, Link]
    own: OwnMessages
    retention: PassedBatches
    stability: Stability
    direct: DirectOrdering | None
    heading: HeadOrdering | None

    def submitted(self) -> Mapping[Site, Sequence[Batch]]: ...


def observations(site: Observed) -> list[Observation]:
    """How full the queues are. The Close, which is never refused, comes on top of what the
    limits bound."""
    limits, own, retention = site.options.limits, site.own, site.retention
    close = 0 if site.epoch_state is OPEN else 1
    messages, size = own.allowance
    most = max(limits.window_messages, messages)
    held = max(limits.held_batches, retention.restored) + close
    seen = [
        ("unstable messages", own.unstable, most),
        ("unstable bytes", own.unstable_bytes, max(limits.window_bytes, size)),
        ("held batches", retention.held(), held),
    ]
    queued = (most, limits.link_items)
    if site.direct is not None:
        origins = max(len(site.structure.table.sites), len(site.links) + 1)
        queued = (site.direct.most_queued(most + 1, origins),) * 2
        waiting = site.direct.most_held(most + 1, origins)
        seen.append(("unplaced batches", site.direct.held(), waiting))
    if site.heading is not None:
        seen.append(("early bodies", site.heading.early(), EARLY_BODIES))
    for peer, link in site.links.items():
        for lane, name in ((UP, "up"), (DOWN, "down")):
            out, inc = link.outgoing[lane], link.incoming[lane]
            bound = max(queued[lane], out.restored)
            if site.direct is not None:
                # Items that are repeated after a restart may be stable already, so they do not
                # count against the bound.
                bound = queued[lane] + out.restored
            bound += close if lane == DOWN else 0
            seen.append((f"{name} to {peer}", len(out.items), bound))
            seen.append((f"{name} from {peer}, early", len(inc.early), limits.link_items))
    return seen


def holders(site: Observed) -> list[Site]:
    """The sites for which this site's own messages wait, sorted; none if no message is under way. A
    message without a place waits for its primary. A message with a place waits for the members
    whose durable logs are the shortest. If no member is known to be behind, it waits for the
    primary, or for the primary's fullest children if this site is the primary. A direct protocol
    knows itself for which sites a message waits."""
    found: dict[Site, None] = {}
    if not site.own.unstable:
        return []
    if site.direct is not None:
        for batch in site.own.kept:
            missing = site.direct.waits_for(batch) or site.stability.behind(batch.group)
            found.update(dict.fromkeys(missing))
        return sorted(found)
    unplaced = {batch.group: None for own in site.submitted().values() for batch in own}
    seen: dict[Group, None] = {}
    for batch in site.own.kept:
        if batch.group in seen:
            continue
        seen[batch.group] = None
        primary = site.structure.primary(batch.group, batch.members)
        if batch.group in unplaced:
            found[primary] = None
            continue
        lagging = site.stability.behind(batch.group)
        if not lagging and primary == site.name:
            lagging = _fullest(site)
        found.update(dict.fromkeys(lagging or [primary]))
    return sorted(found)


def untold(site: Observed) -> list[Site]:
    """The sites that keep logged messages of any origin from being known as final, sorted."""
    found: dict[Site, None] = {}
    for group in site.stability.open():
        found.update(dict.fromkeys(site.stability.behind(group)))
    return sorted(found)


def _fullest(site: Observed) -> list[Site]:
    """The children for whom most items wait."""
    waiting = {peer: len(link.outgoing[DOWN].items) for peer, link in site.links.items()}
    most = max(waiting.values(), default=0)
    return [peer for peer, count in waiting.items() if count == most] if most else []
