"""The manner of each protocol of [STAB] on the sites of a domain: who sends to whom."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import AckMessage, InfoMessage, Part, RoundMessage, RoundPaths
from ordercast.model.groups import Site

Neighbours: TypeAlias = Callable[[RoundPaths[Site], Site], tuple[Site, ...]]
Speaks: TypeAlias = Callable[[RoundPaths[Site], Site, Site, RoundMessage[Any]], bool]
"""(paths, site, peer, message): whether the peer may say this to the site."""


@dataclass(frozen=True, slots=True)
class Manner:
    name: str
    structured: bool  # START and INFO go down the tree, requests for rounds up
    neighbours: Neighbours  # of a site: the sites that it may hear from or send to

    speaks: Speaks  # which site may send which message of a round to which site

    @property
    def part(self) -> type[Part[Any, Any]]:
        return PROTOCOLS[self.name]


def _all_others(paths: RoundPaths[Site], site: Site) -> tuple[Site, ...]:
    return tuple(other for other in paths.ring if other != site)


def _the_first(paths: RoundPaths[Site], site: Site) -> tuple[Site, ...]:
    return _all_others(paths, site) if site == paths.first else (paths.first,)


def _on_the_circle(paths: RoundPaths[Site], site: Site) -> tuple[Site, ...]:
    before = paths.ring[paths.ring.index(site) - 1]
    found = dict.fromkeys((before, paths.after[site], *_the_first(paths, site)))
    found.pop(site, None)
    return tuple(found)


def _on_the_tree(paths: RoundPaths[Site], site: Site) -> tuple[Site, ...]:
    found = [*paths.children[site]]
    found += [kin[site] for kin in (paths.parent, paths.elder, paths.younger) if site in kin]
    return tuple(found)


def _first_asks(
    paths: RoundPaths[Site], site: Site, peer: Site, message: RoundMessage[Any]
) -> bool:
    """Only the first site begins and ends rounds, and only the others answer, to it."""
    return paths.first == (site if isinstance(message, AckMessage) else peer)


def _anyone(_: RoundPaths[Site], __: Site, ___: Site, message: RoundMessage[Any]) -> bool:
    """Every site may tell its own array."""
    return isinstance(message, InfoMessage)


def _one_before(paths: RoundPaths[Site], site: Site, peer: Site, _: RoundMessage[Any]) -> bool:
    return paths.after[peer] == site


def _kin(paths: RoundPaths[Site], site: Site, peer: Site, message: RoundMessage[Any]) -> bool:
    """Messages down the tree come from the parent; ACKs from a child or the elder sibling."""
    if not isinstance(message, AckMessage):
        return paths.parent.get(site) == peer
    return paths.parent.get(peer) == site or paths.elder.get(site) == peer


MANNERS = (
    Manner("coordp", structured=False, neighbours=_the_first, speaks=_first_asks),
    Manner("full_dist", structured=False, neighbours=_all_others, speaks=_anyone),
    Manner("train", structured=False, neighbours=_on_the_circle, speaks=_one_before),
    Manner("s_coordp", structured=True, neighbours=_on_the_tree, speaks=_kin),
    Manner("s_train", structured=True, neighbours=_on_the_tree, speaks=_kin),
)
