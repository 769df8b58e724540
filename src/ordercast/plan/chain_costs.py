"""What a message costs by the protocols that number or chain all messages of a domain.

These are `ring` and the swap family. The members of all groups send one message after the other,
each as often as its groups' rates say. So the sender of the last message is drawn by the same
rates: an arrow ends there. A token may be anywhere. A header (or the body) goes to every other site
of the domain, members of the group or not (SWAP-6 of docs/errata.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ordercast.forest.indexed_table import IndexedTable
from ordercast.plan.protocol_costs import Costs, Ground

_EVERYWHERE = 1 << 60  # depth: all sites belong to the core


@dataclass(frozen=True, slots=True)
class _Domain:
    """`weight`: the messages of all groups together. `share`: the share of them by each site."""

    sites: Sequence[int]
    groups: Sequence[int]
    weight: float
    share: dict[int, float]

    @classmethod
    def of(cls, table: IndexedTable, sites: Sequence[int], groups: Sequence[int]) -> "_Domain":
        often = dict.fromkeys(sites, 0.0)
        for group in groups:
            members = table.members[group]
            for site in members:
                often[site] += table.weights[group] / len(members)
        weight = sum(table.weights[group] for group in groups)
        whole = weight or 1.0
        return cls(sites, groups, weight, {site: each / whole for site, each in often.items()})

    @property
    def others(self) -> int:
        return len(self.sites) - 1


@dataclass(frozen=True, slots=True)
class _Way:
    """By origin of a message: `frames`, requests and answers on the way, and `hops` until somebody
    multicasts it. `multicasts`: the share of messages that each site multicasts. `alone`: for a
    site that is its group's only member, the share that it multicasts itself, without waiting."""

    frames: dict[int, float]
    hops: dict[int, float]
    multicasts: dict[int, float]
    alone: Callable[[int], float]
    load: Sequence[float]  # by requests and answers


def _costs(ground: Ground, way_of: Callable[[_Domain], _Way]) -> Costs:
    table = ground.table
    messages, load = [0.0] * len(table.groups), [0.0] * len(table.sites)
    domains = []
    for sites, groups in ground.domains:
        domain = _Domain.of(table, sites, groups)
        way = way_of(domain)
        domains.append((domain, way))
        for site in sites:
            often = way.multicasts.get(site, 0.0)
            load[site] += domain.weight * (often * domain.others + 1 - often)
            load[site] += way.load[site]
        for group in groups:
            members = table.members[group]
            mean = sum(way.frames[site] for site in members) / len(members)
            messages[group] = mean + domain.others

    def arrive(handling: Sequence[float], latency: float) -> list[float]:
        found = [0.0] * len(table.groups)
        for domain, way in domains:
            mean = sum(domain.share[site] * handling[site] for site in domain.sites)
            sends = sum(
                often * domain.others * handling[site] for site, often in way.multicasts.items()
            )
            for group in domain.groups:
                members = table.members[group]
                hops = sum(way.hops[site] for site in members) / len(members)
                last = max(handling[site] for site in members)
                waits = 1.0 if len(members) > 1 else 1 - way.alone(members[0])
                found[group] = hops * (latency + 2 * mean) + waits * (sends + latency + last)
        return found

    return Costs(messages, load, arrive)


# --- ring ----------------------------------------------------------------------------------------


def ring(ground: Ground) -> Costs:
    """The call goes back to where the token is, the token comes, its holder multicasts and sends it
    on. The token is anywhere: half the way round, on average, each. (Of an idle ring: a busy one
    needs no calls, and its token comes for many.)"""

    def way_of(domain: _Domain) -> _Way:
        count = len(domain.sites)
        on = int(count > 1)
        load = [0.0] * len(ground.table.sites)
        for (left, right), often in zip(
            pairwise((*domain.sites, domain.sites[0])), _passing(domain), strict=True
        ):
            for site in (left, right):
                load[site] += domain.weight * (2 * often + on * domain.share[left])
        return _Way(
            dict.fromkeys(domain.sites, float(count - 1 + on)),
            dict.fromkeys(domain.sites, float(count - 1)),
            domain.share,
            lambda _: 1.0,
            load,
        )

    return _costs(ground, way_of)


def _passing(domain: _Domain) -> list[float]:
    """How often the token crosses the edge after each site of the ring on its way to an origin. It
    enters the site at distance d before the origin in N - 1 - d of N cases."""
    sites, share = domain.sites, domain.share
    count = len(sites)
    into = [0.0] * count
    into[0] = sum(share[site] * (count - 1 - d) / count for d, site in enumerate(sites))
    for place in range(count - 1, 0, -1):
        own = share[sites[place]]
        after = into[(place + 1) % count]
        into[place] = own * (count - 1) / count + after - (1 - own) / count
    return [into[(place + 1) % count] for place in range(count)]


# --- swap ----------------------------------------------------------------------------------------


def arrow(ground: Ground) -> Costs:
    return _swap(ground, _EVERYWHERE)


def hybrid(ground: Ground) -> Costs:
    return _swap(ground, 1)


def combining(ground: Ground) -> Costs:
    return _swap(ground, 0)


def arrow_counting(ground: Ground) -> Costs:
    """As arrow; then the count goes on from the sink to where the message came from."""

    def way_of(domain: _Domain) -> _Way:
        way = _requests(ground, domain, _EVERYWHERE)
        load = list(way.load)
        for site in domain.sites:
            load[site] += 2 * domain.weight * domain.share[site] * (1 - domain.share[site])
        frames = {site: way.frames[site] + 1 - domain.share[site] for site in domain.sites}
        return _Way(frames, way.hops, way.multicasts, way.alone, load)

    return _costs(ground, way_of)


def combining_counting(ground: Ground) -> Costs:
    """To the root and back; the origin multicasts."""

    def way_of(domain: _Domain) -> _Way:
        way = _requests(ground, domain, 0)
        return _Way(
            {site: 2 * frames for site, frames in way.frames.items()},
            {site: 2 * hops for site, hops in way.hops.items()},
            domain.share,
            lambda _: 1.0,
            [2 * each for each in way.load],
        )

    return _costs(ground, way_of)


def _swap(ground: Ground, core: int) -> Costs:
    return _costs(ground, lambda domain: _requests(ground, domain, core))


def _requests(ground: Ground, domain: _Domain, core: int) -> _Way:
    """A request goes up the tree to the core, the sites down to that depth, and there follows the
    arrow to where the last one entered it. With the root alone as core that is combining; with all
    sites, arrow."""
    parent, depth = ground.parent, ground.tree.depth
    order = sorted(domain.sites, key=ground.tree.enter.__getitem__)
    below = dict(domain.share)  # sent at or below the site
    for site in reversed(order):
        if parent[site] >= 0:
            below[parent[site]] += below[site]
    enters: dict[int, int] = {}  # where its requests enter the core
    far: dict[int, float] = {}  # of each site of the core: hops to where the last one entered
    flow = [0.0] * len(ground.table.sites)
    for site in order:
        above = parent[site]
        enters[site] = site if depth[site] <= core else enters[above]
        if above < 0:
            far[site] = sum(below[each] for each in order if 0 < depth[each] <= core)
        elif depth[site] <= core:
            far[site] = far[above] + 1 - 2 * below[site]
            flow[site] = 2 * domain.weight * below[site] * (1 - below[site])
        else:
            flow[site] = domain.weight * below[site]
    hops = {site: depth[site] - depth[enters[site]] + far[enters[site]] for site in order}
    multicasts: dict[int, float] = {}
    for site in order:
        multicasts[enters[site]] = multicasts.get(enters[site], 0.0) + domain.share[site]
    return _Way(
        hops, hops, multicasts, lambda site: multicasts.get(site, 0.0), ground.edge_load(flow)
    )
