"""How each protocol of [STAB] lies over the sites of a domain: who sends to whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import Layout, Part
from ordercast.model.groups import Site

Neighbours: TypeAlias = Callable[[Layout[Site], Site], tuple[Site, ...]]


@dataclass(frozen=True, slots=True)
class Manner:
    name: str
    structured: bool  # START and INFO travel down the tree, requests for rounds up
    neighbours: Neighbours  # of a site: whom it may hear from, or tell something

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


MANNERS = (
    Manner("coordp", structured=False, neighbours=_the_first),
    Manner("full_dist", structured=False, neighbours=_all_others),
    Manner("train", structured=False, neighbours=_on_the_circle),
    Manner("s_coordp", structured=True, neighbours=_on_the_tree),
    Manner("s_train", structured=True, neighbours=_on_the_tree),
)
