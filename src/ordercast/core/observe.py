"""How full a site's queues are, each beside its bound: for judges and operators."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ordercast.core.order.bodies import EARLY_BODIES
from ordercast.model.groups import Site as SiteName
from ordercast.model.options import NEVER
from ordercast.wire.frames import DOWN, UP

if TYPE_CHECKING:
    from ordercast.core.site import Site

Observation: TypeAlias = tuple[str, int, int]
"""(name, value, limit)"""


def observe(site: "Site") -> list[Observation]:
    limits = site.options.limits
    own, retention = site.own, site.retention
    messages, size = own.allowance
    most = max(limits.window_messages, messages)
    seen = [
        ("unstable messages", own.unstable, most),
        ("unstable bytes", own.unstable_bytes, max(limits.window_bytes, size)),
        ("held batches", retention.held(), max(limits.held_batches, retention.restored)),
    ]
    queued = (most, limits.link_items)
    if site.direct is not None:
        origins = max(len(site.structure.table.sites), len(site.links) + 1)
        queued = (site.direct.most_queued(most + 1, origins),) * 2
        seen.append(
            ("unplaced batches", site.direct.held(), site.direct.most_held(most + 1, origins))
        )
    if site.heading is not None:
        seen.append(("early bodies", site.heading.early(), EARLY_BODIES))
    for peer, link in site.links.items():
        for lane, name in ((UP, "up"), (DOWN, "down")):
            out, inc = link.outgoing[lane], link.incoming[lane]
            bound = max(queued[lane], out.restored)
            if site.direct is not None:  # of what was told again some was stable, and new ones go
                bound = queued[lane] + out.restored
            seen.append((f"{name} to {peer}", len(out.items), bound))
            seen.append((f"{name} from {peer}, early", len(inc.early), limits.link_items))
    return seen


def is_quiet(site: "Site", apart_from: Sequence[SiteName] = ()) -> bool:
    """`apart_from`: sites that are gone; what is owed to them, or came from them, may wait."""
    restless = () if site.direct is None else site.direct.restless
    return (
        site.own.idle()
        and not site.ordering.held()
        and not site.gate.unsettled()
        and site.stability.deadline() == NEVER
        and all(link.idle(restless) for peer, link in site.links.items() if peer not in apart_from)
    )
