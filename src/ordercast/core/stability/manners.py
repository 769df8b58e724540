"""How each protocol of [STAB] lies over the sites of a domain: who sends to whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import Ack, Info, Layout, Message, Part
from ordercast.model.groups import Site

Neighbours: TypeAlias = Callable[[Layout[Site], Site], tuple[Site, ...]]
Speaks: TypeAlias = Callable[[Layout[Site], Site, Site, Message[Any]], bool]
"""(layout, site, peer, message): whether the peer may say this to the site."""


@dataclass(frozen=True, slots=True)
class Manner:
    name: str
    structured: bool  # START and INFO travel down the tree, requests for rounds up
    neighbours: Neighbours  # of a site: whom it may hear from, or tell something

    speaks: Speaks  # who may say which message of a round to whom

    @property
    def part(self) -> type[Part[Any, Any]]:
        return PROTOCOLS[self.name]


def _all_others(layout: Layout[Site], site: Site) -> tuple[Site, ...]:
    return tuple(other for other in layout.ring if other != site)


def _the_first(layout: Layout[Site], site: Site) -> tuple[Site, ...]:
    return _all_others(layout, site) if site == layout.first else (layout.first,)


def _on_the_circle(layout: Layout[Site], site: Site) -> tuple[Site, ...]:
    before = layout.ring[layout.ring.index(site) - 1]
    found = dict.fromkeys((before, layout.after[site], *_the_first(layout, site)))
    found.pop(site, None)
    return tuple(found)


def _on_the_tree(layout: Layout[Site], site: Site) -> tuple[Site, ...]:
    found = [*layout.children[site]]
    found += [kin[site] for kin in (layout.parent, layout.elder, layout.younger) if site in kin]
    return tuple(found)


def _first_asks(layout: Layout[Site], site: Site, peer: Site, message: Message[Any]) -> bool:
    """The first site begins and ends rounds; the others answer it."""
    return layout.first == (site if isinstance(message, Ack) else peer)


def _anyone(layout: Layout[Site], site: Site, peer: Site, message: Message[Any]) -> bool:  # noqa: ARG001
    """Everybody tells its own array."""
    return isinstance(message, Info)


def _one_before(layout: Layout[Site], site: Site, peer: Site, message: Message[Any]) -> bool:  # noqa: ARG001
    return layout.after[peer] == site


def _kin(layout: Layout[Site], site: Site, peer: Site, message: Message[Any]) -> bool:
    """Down the tree the parent speaks; up it children, and among siblings the elder."""
    if not isinstance(message, Ack):
        return layout.parent.get(site) == peer
    return layout.parent.get(peer) == site or layout.elder.get(site) == peer


MANNERS = (
    Manner("coordp", structured=False, neighbours=_the_first, speaks=_first_asks),
    Manner("full_dist", structured=False, neighbours=_all_others, speaks=_anyone),
    Manner("train", structured=False, neighbours=_on_the_circle, speaks=_one_before),
    Manner("s_coordp", structured=True, neighbours=_on_the_tree, speaks=_kin),
    Manner("s_train", structured=True, neighbours=_on_the_tree, speaks=_kin),
)
