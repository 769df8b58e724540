"""The protocols of [STAB] by name: a member's part in a round, and who sends to whom. A new one is
one file beside this, and one line of `MANNERS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.core.stability.coordp import CoordP
from ordercast.core.stability.full_dist import FullDist
from ordercast.core.stability.rounds import (
    AckMessage,
    InfoMessage,
    Part,
    RoundMessage,
    RoundPaths,
    StartMessage,
)
from ordercast.core.stability.s_coordp import StructuredCoordP
from ordercast.core.stability.s_train import StructuredTrain
from ordercast.core.stability.train import Train
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import nearest

Neighbours: TypeAlias = Callable[[RoundPaths[Site], Site], tuple[Site, ...]]
Speakers: TypeAlias = Mapping[type[RoundMessage[Any]], tuple[Site, ...]]
"""By kind of message: the sites that may send it to a site."""


@dataclass(frozen=True, slots=True)
class Manner:
    """One member's part in a round, and the way of its messages on the sites of a domain."""

    name: str
    part: type[Part[Any, Any]]
    structured: bool  # START and INFO go down the tree, requests for rounds up
    neighbours: Neighbours  # of a site: the sites that it may hear from or send to
    speakers: Callable[[RoundPaths[Site], Site], Speakers]  # of a site


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


def _by_kind(start: tuple[Site, ...], ack: tuple[Site, ...], info: tuple[Site, ...]) -> Speakers:
    return {StartMessage: start, AckMessage: ack, InfoMessage: info}


def _first_asks(paths: RoundPaths[Site], site: Site) -> Speakers:
    """Only the first site begins and ends rounds, and only the others answer, to it."""
    first = (paths.first,)
    return _by_kind(first, _all_others(paths, site) if site == paths.first else (), first)


def _anyone(paths: RoundPaths[Site], site: Site) -> Speakers:
    """Every site may tell its own array."""
    return _by_kind((), (), _all_others(paths, site))


def _one_before(paths: RoundPaths[Site], site: Site) -> Speakers:
    before = tuple(other for other in _all_others(paths, site) if paths.after[other] == site)
    return _by_kind(before, before, before)


def _kin(paths: RoundPaths[Site], site: Site) -> Speakers:
    """Messages down the tree come from the parent; ACKs from a child or the elder sibling."""
    above = (paths.parent[site],) if site in paths.parent else ()
    elder = (paths.elder[site],) if site in paths.elder else ()
    return _by_kind(above, (*paths.children[site], *elder), above)


MANNERS = (
    Manner("coordp", CoordP, structured=False, neighbours=_the_first, speakers=_first_asks),
    Manner("full_dist", FullDist, structured=False, neighbours=_all_others, speakers=_anyone),
    Manner("train", Train, structured=False, neighbours=_on_the_circle, speakers=_one_before),
    Manner("s_coordp", StructuredCoordP, structured=True, neighbours=_on_the_tree, speakers=_kin),
    Manner("s_train", StructuredTrain, structured=True, neighbours=_on_the_tree, speakers=_kin),
)

PROTOCOLS: Mapping[str, type[Part[Any, Any]]] = {manner.name: manner.part for manner in MANNERS}


def part_named(name: str) -> type[Part[Any, Any]]:
    if name not in PROTOCOLS:
        raise ConfigError(f"there is no stability protocol {name!r}{nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
