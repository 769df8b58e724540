"""A weighted hypergraph on numbers: what is partitioned to build balanced trees.

At the bottom the nodes are the sites of a domain and an edge is a group, weighted by its traffic.
One level up the nodes are the parts found below, and the edges are the groups that cross parts;
those that cross the same parts become one edge. Loads are the same sums on every level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ordercast.forest.indexed_table import IndexedTable

_SILENT = 0.001  # a group without traffic still draws its members together, a little


@dataclass(frozen=True, slots=True)
class Hypergraph:
    pins: Sequence[Sequence[int]]  # of each edge: its nodes, at least two
    weights: Sequence[float]  # of each edge
    edges_of: Sequence[Sequence[int]]  # of each node
    work: Sequence[float]  # of each node: the weight of its edges

    @classmethod
    def of(
        cls, pins: Sequence[Sequence[int]], weights: Sequence[float], nodes: int
    ) -> "Hypergraph":
        edges_of: list[list[int]] = [[] for _ in range(nodes)]
        work = [0.0] * nodes
        for edge, its_pins in enumerate(pins):
            weight = weights[edge]
            for node in its_pins:
                edges_of[node].append(edge)
                work[node] += weight
        return cls(pins, weights, edges_of, work)

    @classmethod
    def of_domain(
        cls, table: IndexedTable, sites: Sequence[int], groups: Sequence[int]
    ) -> "Hypergraph":
        """Node i is `sites[i]`; groups of one site need no tree and are left out."""
        number = {site: i for i, site in enumerate(sites)}
        pins, weights = [], []
        for group in groups:
            members = table.members[group]
            if len(members) > 1:
                pins.append([number[site] for site in members])
                weights.append(max(table.weights[group], _SILENT))
        return cls.of(pins, weights, len(sites))

    @property
    def nodes(self) -> int:
        return len(self.edges_of)

    @property
    def flat_load(self) -> float:
        """The load of one head above all nodes that is none of them."""
        return sum(self.work, 0.0) + sum(self.weights, 0.0)

    def contracted(self, label: Sequence[int], count: int) -> "Hypergraph":
        """The hypergraph of the parts: node p stands for all nodes labelled p."""
        merged: dict[tuple[int, ...], float] = {}
        for pins, weight in zip(self.pins, self.weights, strict=True):
            crossed = {label[node] for node in pins}
            if len(crossed) > 1:
                key = tuple(sorted(crossed))
                merged[key] = merged.get(key, 0.0) + weight
        return Hypergraph.of(list(merged), list(merged.values()), count)
