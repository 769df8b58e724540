"""The cyclic structure of a group table: where failure handling costs more.

In the intersection graph two groups are neighbours when they share a site. Three or more groups on
common cycles (a biconnected component) can be ordered round in a ring by sites that each see only
two of them. Elsewhere the table is a tree of groups, and it is enough to order two groups at a
time.

A site in k groups makes k(k-1)/2 of them neighbours. A ring through the k groups has the same
components (an edge between two vertices of one component changes none), so each site contributes
k edges instead, and the search is linear in the memberships.
"""

from collections.abc import Iterator, Sequence

from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import Group, GroupTable


def cyclic_components(table: GroupTable) -> list[list[Group]]:
    """Biconnected components of three or more groups; names sorted, components by first name."""
    indexed = IndexedTable.of(table)
    components = [
        sorted(component)
        for component in _biconnected(_rings(indexed.groups_of, len(indexed.groups)))
        if len(component) >= 3
    ]
    return [[indexed.groups[g] for g in component] for component in sorted(components)]


def _rings(groups_of: Sequence[Sequence[int]], groups: int) -> list[list[int]]:
    neighbours: list[list[int]] = [[] for _ in range(groups)]
    for around in groups_of:
        if len(around) < 2:
            continue
        pairs = zip(around, [*around[1:], around[0]], strict=True)
        for a, b in pairs if len(around) > 2 else list(pairs)[:1]:
            neighbours[a].append(b)
            neighbours[b].append(a)
    return neighbours


def _biconnected(neighbours: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Tarjan's depth-first search with an explicit stack; vertices of each component."""
    found_at = [0] * len(neighbours)  # 0: not yet
    low = [0] * len(neighbours)
    clock = 0
    for root in range(len(neighbours)):
        if found_at[root]:
            continue
        clock += 1
        found_at[root] = low[root] = clock
        pending = [root]  # visited vertices not yet in a component below
        path = [(root, -1, iter(neighbours[root]))]
        while path:
            vertex, above, rest = path[-1]
            for other in rest:
                if not found_at[other]:
                    clock += 1
                    found_at[other] = low[other] = clock
                    pending.append(other)
                    path.append((other, vertex, iter(neighbours[other])))
                    break
                if other != above:
                    low[vertex] = min(low[vertex], found_at[other])
            else:
                path.pop()
                if above < 0:
                    continue
                low[above] = min(low[above], low[vertex])
                if low[vertex] >= found_at[above]:  # `above` cuts this component off
                    component = [above]
                    while component[-1] != vertex:
                        component.append(pending.pop())
                    yield component
