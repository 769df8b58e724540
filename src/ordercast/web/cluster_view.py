"""An overview as the Cluster page takes it: only the things on the screen.

A cluster of 200 sites has 40,000 ends of links. A page gets the links of the forest, and those of
one site when they are asked for.
"""

import hashlib
from typing import Any

import msgspec

from ordercast.model.groups import Site
from ordercast.net.client.overview import LinkOverview, Overview
from ordercast.web.epoch_line import draw_epochs
from ordercast.web.feed import Sampler
from ordercast.web.forest_picture import ForestShape, draw_forest

_SITE = (
    "site", "state", "standing", "epoch", "position", "rate", "lag", "queued", "unstable",
    "held_by", "reasons", "warnings", "links_up", "links", "is_manager", "is_voter",
)  # fmt: skip


def shape_of(view: Overview) -> ForestShape:
    """Sites that are in no open epoch stand alone."""
    parent: dict[Site, Site | None] = dict.fromkeys(sorted(view.sites))
    for epoch in view.epochs:
        parent.update(epoch.parents)
    groups = {name: each.members for name, each in view.groups.items() if each.members}
    primary = {name: view.groups[name].primary for name in groups if view.groups[name].primary}
    return ForestShape(parent, groups, primary)


def shape_key(view: Overview) -> str:
    """The same for the same forest."""
    told = msgspec.json.encode(list(shape_of(view)), order="sorted")
    return hashlib.sha256(told).hexdigest()[:16]


def sample(view: Overview, sampler: Sampler) -> dict[str, Any]:
    return {
        "cluster": view.cluster,
        "rate": view.rate,
        "shape": shape_key(view),
        "every_s": sampler.every_s,
        "took_s": round(sampler.took_s, 3),
        "trouble": sampler.trouble,
        "sites": [_site(view, site) for site in sorted(view.sites)],
        "groups": [_group(view, group) for group in sorted(view.groups)],
        "edges": _edges(view),
        "holders": _holders(view),
        "manager": view.manager,
        "excluded": view.excluded,
        "apart": view.apart,
        "flushing": view.flushing,
        "changes": [msgspec.to_builtins(change) for change in view.changes],
        "epochs": [epoch.epoch for epoch in view.epochs],
        "protocols": sorted({epoch.protocol for epoch in view.epochs}),
        "passages": len(view.passages),
        "point": sampler.rates[-1] if sampler.rates else None,
    }


def first(view: Overview, sampler: Sampler) -> dict[str, Any]:
    """What a page needs once: the description of the feed, and the points of the charts so far."""
    return {"note": sampler.feed.note, "points": list(sampler.rates), "cluster": view.cluster}


def drawn(view: Overview, width: int) -> dict[str, Any]:
    """The pictures that change only with the epochs."""
    passages = [{**msgspec.to_builtins(each), "at_ns": str(each.at_ns)} for each in view.passages]
    return {
        "shape": shape_key(view),
        "forest": draw_forest(shape_of(view), rates=True),
        "timeline": draw_epochs(view.passages, width) if view.passages else "",
        "passages": passages[::-1],
    }


def site_detail(view: Overview, site: Site) -> dict[str, Any]:
    found = view.sites[site]
    links = [_link(link) for link in view.links if link.site == site]
    within = [name for name, group in view.groups.items() if site in group.members]
    return {
        **msgspec.to_builtins(found),
        "link_list": sorted(links, key=lambda link: str(link["peer"])),
        "groups": within,
        "orders": [name for name, group in view.groups.items() if group.primary == site],
        "extra_for": [name for name, group in view.groups.items() if site in group.extra],
        "elsewhere": [name for name in view.groups if name not in within],
    }


def _site(view: Overview, site: Site) -> dict[str, Any]:
    found = view.sites[site]
    told: dict[str, Any] = {name: getattr(found, name) for name in _SITE}
    if found.known and found.window.limit:
        told["window"] = [found.window.value, found.window.limit]
    if found.fullest.limit:
        told["fullest"] = [found.fullest.name, found.fullest.value, found.fullest.limit]
    return told


def _group(view: Overview, group: str) -> dict[str, Any]:
    found = view.groups[group]
    return {
        "group": group,
        "members": found.members,
        "primary": found.primary,
        "extra": found.extra,
        "frozen": found.frozen,
        "sent_rate": found.sent_rate,
        "sent": found.sent,
    }


def _edges(view: Overview) -> list[list[Any]]:
    """[parent, child, bytes per second, state] of the forest."""
    told = {(link.site, link.peer): link for link in view.links}
    found = []
    for epoch in view.epochs:
        for site, above in epoch.parents.items():
            if above is None:
                continue
            down, up = told.get((above, site)), told.get((site, above))
            rate = down.out_rate if down is not None else up.in_rate if up is not None else None
            state = down.state if down is not None else up.state if up is not None else "unknown"
            found.append([above, site, None if rate is None else round(rate, 1), state])
    return found


def _holders(view: Overview) -> list[list[Any]]:
    """[site, the sites whose windows it holds], who holds most first."""
    held: dict[Site, list[Site]] = {}
    for site in sorted(view.sites):
        for holder in view.sites[site].held_by:
            held.setdefault(holder, []).append(site)
    return sorted(([holder, sites] for holder, sites in held.items()), key=lambda e: -len(e[1]))


def _link(link: LinkOverview) -> dict[str, Any]:
    return {
        "peer": link.peer,
        "state": link.state,
        "through": link.through,
        "in_rate": link.in_rate,
        "out_rate": link.out_rate,
        "waiting_bytes": link.waiting_bytes,
        "last_error": link.last_error,
    }
