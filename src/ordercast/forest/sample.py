"""A piece of a large table that is like all of it, to try shapes on.

One piece of the largest domain, cut out by its partitioner; groups that reach beyond it are cut
short. Where many do (random groups), no piece is like the whole, and there is no sample.
"""

from collections.abc import Sequence

from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.levels import DomainGraph

_LARGE = 25_000  # memberships of a table that is tried as a whole
_PIECE = 15_000  # memberships of a sample
_LIKE = 0.8  # of the groups that touch it are wholly inside


def is_large(table: IndexedTable) -> bool:
    return sum(len(members) for members in table.members) > _LARGE


def sample_of(table: IndexedTable, domains: Sequence[DomainGraph]) -> IndexedTable | None:
    if not is_large(table):
        return None
    chosen = _whole_domains(domains)
    if not chosen:
        chosen = _piece_of(max(domains, key=lambda domain: domain.graph.nodes))
    return _restricted(table, sorted(chosen)) if chosen else None


def _memberships(domain: DomainGraph) -> int:
    return sum(len(pins) for pins in domain.graph.pins)


def _whole_domains(domains: Sequence[DomainGraph]) -> list[int]:
    """Sites of domains of all sizes, when none is too large; otherwise none."""
    by_size = sorted(domains, key=lambda d: (-d.graph.nodes, d.sites[0]))
    total = sum(map(_memberships, by_size))
    if _memberships(by_size[0]) > _PIECE:
        return []
    return [site for domain in by_size[:: max(1, total // _PIECE)] for site in domain.sites]


def _piece_of(domain: DomainGraph) -> list[int]:
    graph = domain.graph
    pieces = max(2, _memberships(domain) // _PIECE)
    label = domain.cutters[0].cut(graph.work, pieces, 0.1)
    touching = inside = 0.0
    for pins, weight in zip(graph.pins, graph.weights, strict=True):
        pieces_met = {label[node] for node in pins}
        if label[0] in pieces_met:
            touching += weight
            inside += weight * (len(pieces_met) == 1)
    if inside < _LIKE * touching:
        return []
    return [domain.sites[node] for node in range(graph.nodes) if label[node] == label[0]]


def _restricted(table: IndexedTable, sites: Sequence[int]) -> IndexedTable:
    number = {site: i for i, site in enumerate(sites)}
    groups, members = [], []
    for group, its_members in enumerate(table.members):
        kept = [number[site] for site in its_members if site in number]
        if kept:
            groups.append(group)
            members.append(kept)
    groups_of: list[list[int]] = [[] for _ in sites]
    for group, kept in enumerate(members):
        for site in kept:
            groups_of[site].append(group)
    return IndexedTable(
        tuple(table.sites[site] for site in sites),
        tuple(table.groups[group] for group in groups),
        members,
        groups_of,
        [table.weights[group] for group in groups],
    )
