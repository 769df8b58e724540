"""From a hypergraph to levels of clusters: flat parts at the bottom, a single one on top.

The bottom is cut directly into its parts; the parts are gathered level by level. On every level
the cluster's head must not carry more than the cap, so the number of children follows from the
traffic that crosses there; a fixed branching replaces the cap by a number of children.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from ordercast.forest.clusters import ClusterLimits, Clusters
from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.lineup import LineupCutter
from ordercast.forest.partition import Cutter, cutter_of

_BOTH = 30_000  # sites up to which, beside METIS, the built-in partitioner is tried as well
_FULL = 0.95  # how full clusters are made, so that there is room to move
_BOTTOM_TOLERANCE = 0.01
_CROSSING = 1.04  # how much that is more than the load of one head for all, at a first guess
_MARGIN = 0.98  # below the cap: upper heads bring groups of their own
_UPPER_TOLERANCE = 0.1  # a few large nodes do not come out even
_RELAXED = 1.15  # when the cap leaves too little to gather, it is raised by this factor


@dataclass(frozen=True, slots=True)
class Shape:
    """What is fixed: the cap of the load; or the leaf size, the branching, or both."""

    cap: float | None = None
    leaf: int | None = None
    branching: int | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """labels[0]: the part of each node; labels[i]: the cluster of each cluster of level i - 1."""

    labels: Sequence[Sequence[int]]
    within_cap: bool = True  # False: too much crosses, so more than the cap was allowed


@dataclass(slots=True)
class DomainGraph:
    """A connected part of a table: what is cut, with its cutter, which all shapes share."""

    sites: Sequence[int]
    graph: Hypergraph
    partitioner: str
    _cutters: list[Cutter] = field(default_factory=list)

    @property
    def cutters(self) -> Sequence[Cutter]:
        """All that are tried, the partitioner's own first."""
        if not self._cutters:
            self._cutters.append(cutter_of(self.partitioner, self.graph))
            if self.partitioner != "builtin" and self.graph.nodes <= _BOTH:
                self._cutters.append(cutter_of("builtin", self.graph))
        return self._cutters

    def levels(self, shape: Shape) -> Levels:
        if self._is_flat(shape):
            return Levels([[0] * self.graph.nodes])
        return _levels(self.graph, self.cutters, self.partitioner, shape)

    def _is_flat(self, shape: Shape) -> bool:
        if self.graph.nodes < 4:  # too few for two parts of two
            return True
        if shape.leaf is not None:
            return self.graph.nodes <= shape.leaf
        return shape.cap is not None and self.graph.flat_load - max(self.graph.work) <= shape.cap


def _levels(graph: Hypergraph, cutters: Sequence[Cutter], partitioner: str, shape: Shape) -> Levels:
    allowed = cap = (shape.cap or 0.0) * _MARGIN
    if shape.leaf is None:
        parts = min((_parts_under(graph, cutter, cap) for cutter in cutters), key=Clusters.cost)
    else:
        parts = min((_parts_of(graph, cutter, shape.leaf) for cutter in cutters), key=Clusters.cost)
    label, count = parts.compact()
    labels = [label]
    upper = graph.contracted(label, count)
    while count > 1:
        if shape.branching is not None:
            label, count = _by_branching(upper, partitioner, shape.branching)
        else:
            label, count, allowed = _under_cap(upper, partitioner, allowed)
        labels.append(label)
        upper = upper.contracted(label, count)
    return Levels(labels, within_cap=allowed <= cap)


def _parts_under(graph: Hypergraph, cutter: Cutter, cap: float) -> Clusters:
    """Flat parts whose heads carry no more than the cap."""
    parts = _cut_to(graph, cutter, ClusterLimits(cap, headed=True, least=2), _BOTTOM_TOLERANCE)
    parts.pair_up()
    parts.gather_strays()
    parts.improve(2)
    parts.relieve()
    parts.split()
    parts.improve(1)
    return parts


def _parts_of(graph: Hypergraph, cutter: Cutter, leaf: int) -> Clusters:
    """Flat parts of about `leaf` sites, as even in sites as in work."""
    mean = sum(graph.work, 0.0) / graph.nodes
    sizes = [work / mean + 1 for work in graph.work]
    count = min(graph.nodes // 2, ceil(graph.nodes / leaf))
    label = cutter.cut(sizes, count, _BOTTOM_TOLERANCE)
    highest = max(Clusters(graph, label, ClusterLimits(0.0, headed=True)).load)
    parts = Clusters(graph, label, ClusterLimits(highest, headed=True, least=2))
    parts.pair_up()
    parts.improve(2)
    return parts


def _cut_to(graph: Hypergraph, cutter: Cutter, limits: ClusterLimits, tolerance: float) -> Clusters:
    """As many parts as bring their mean load near the cap; how much crosses, cuts tell."""
    most = graph.nodes // 2
    load = limits.cap * _FULL
    parts = max(1, min(most, ceil(_CROSSING * graph.flat_load / load)))
    found = Clusters(graph, cutter.cut(graph.work, parts, tolerance), limits)
    if parts > 1:
        better = max(2, min(most, ceil(sum(found.loads(), 0.0) / load)))
        if abs(better - parts) > 0.04 * parts:
            found = Clusters(graph, cutter.cut(graph.work, better, tolerance), limits)
    return found


def _under_cap(graph: Hypergraph, partitioner: str, cap: float) -> tuple[list[int], int, float]:
    """Clusters of nodes, their number, and the cap, raised where little could be gathered."""
    if graph.flat_load <= cap:
        return [0] * graph.nodes, 1, cap
    line = LineupCutter(graph)
    cutter = line if partitioner == "builtin" else cutter_of(partitioner, graph)
    while graph.flat_load > cap:
        limits = ClusterLimits(cap)
        proposals = [Clusters(graph, line.cut_under(cap), limits)]
        if partitioner != "builtin":
            proposals.append(_cut_to(graph, cutter, limits, _UPPER_TOLERANCE))
        best = min(map(_settled, proposals), key=Clusters.cost)
        found, count = best.compact()
        if count <= ceil(graph.nodes / 2):
            return found, count, cap
        cap = max(cap * _RELAXED, _needed(graph, cutter))
    return [0] * graph.nodes, 1, cap


def _needed(graph: Hypergraph, cutter: Cutter) -> float:
    """The load at which two or three nodes at a time can be gathered."""
    label = cutter.cut(graph.work, ceil(graph.nodes / 2.5), _UPPER_TOLERANCE)
    loads = Clusters(graph, label, ClusterLimits(0.0)).loads()
    return sum(loads) / len(loads)


def _settled(clusters: Clusters) -> Clusters:
    clusters.gather_strays()
    clusters.improve(4)
    clusters.relieve()
    clusters.split()
    clusters.merge()
    clusters.improve(2)
    clusters.relieve()
    return clusters


def _by_branching(graph: Hypergraph, partitioner: str, branching: int) -> tuple[list[int], int]:
    if graph.nodes <= branching:
        return [0] * graph.nodes, 1
    parts = ceil(graph.nodes / branching)
    label = cutter_of(partitioner, graph).cut([1.0] * graph.nodes, parts, 0.01)
    clusters = Clusters(graph, label, ClusterLimits(branching, by_count=True))
    clusters.improve(4)
    clusters.relieve()
    clusters.split()
    clusters.merge()
    found, count = clusters.compact()
    if count > 0.75 * graph.nodes:  # nothing to go by: all groups cross everything
        found = [node // branching for node in range(graph.nodes)]
        count = parts
    return found, count
