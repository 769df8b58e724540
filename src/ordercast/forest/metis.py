"""METIS as a partitioner (the extra `partition`; the only module that needs it, or numpy).

METIS cuts graphs, so a group becomes a clique of its members, or, above twenty members, a hub of
no weight joined to each of them. It bisects recursively by itself as long as parts have many
nodes; where it ran out of nodes on the way it would complain on standard output, so parts of a few
nodes are bisected one by one out of larger ones, and a heavy node counts for a quarter of a part
at most. That takes long on a large graph, so there tiny parts are left to the line-up. The seed is
fixed: same input, same parts.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pymetis

from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.lineup import LineupCutter

Integers: TypeAlias = npt.NDArray[np.integer]
Floats: TypeAlias = npt.NDArray[np.floating]

_CLIQUE_LIMIT = 20  # members; a clique's edges grow with the square of them
_MANY = 32  # nodes of a part, on average, for which METIS finds its way by itself
_LARGE = 5_000  # nodes; below, the best of four attempts costs little
_SEED = 1
_UNIT = 24  # METIS counts in integers: the weight of one
_TOTAL = 2**29  # and in 32 bits


class MetisCutter:
    def __init__(self, graph: Hypergraph) -> None:
        self._nodes = graph.nodes
        self._graph = _expanded(graph)
        self._whole = graph

    @cached_property
    def _line(self) -> LineupCutter:
        return LineupCutter(self._whole)

    def cut(self, sizes: Sequence[float], parts: int, tolerance: float) -> list[int]:
        parts = max(1, min(parts, self._nodes))
        if self._nodes > _LARGE and self._nodes < parts * _MANY / 2:
            return self._line.cut(sizes, parts, tolerance)
        pieces = min(parts, max(1, self._nodes // _MANY))
        weights = np.zeros(self._graph.vertices)
        weights[: self._nodes] = np.minimum(sizes, sum(sizes, 0.0) / pieces / 4)
        label = np.zeros(self._nodes, dtype=np.int64)
        count = 0
        for piece, share in self._pieces(weights, pieces, parts, tolerance):
            for nodes in self._bisected(piece, weights, share, tolerance):
                label[nodes] = count
                count += 1
        found: list[int] = label.tolist()
        return found

    def _pieces(
        self, weights: Floats, pieces: int, parts: int, tolerance: float
    ) -> Iterator[tuple[Integers, int]]:
        """The vertices of pieces with many nodes, each piece with its share of the parts."""
        if pieces == 1:
            yield np.arange(self._graph.vertices), parts
            return
        label = _metis(self._graph, weights, pieces, tolerance, None)
        total = weights.sum()
        for piece in range(pieces):
            vertices = np.flatnonzero(label == piece)
            if len(vertices) > 0:
                yield vertices, max(1, round(parts * float(weights[vertices].sum() / total)))

    def _bisected(
        self, piece: Integers, weights: Floats, parts: int, tolerance: float
    ) -> Iterator[Integers]:
        """The nodes of each part: `parts` parts, or fewer if there are not enough nodes."""
        waiting = [(piece, parts)]
        while waiting:
            vertices, parts = waiting.pop()
            nodes = int(np.searchsorted(vertices, self._nodes))  # the others are hubs
            parts = min(parts, nodes)
            if parts <= 1:
                yield vertices[:nodes]
                continue
            left = parts // 2
            share = left / parts
            graph = self._graph.within(vertices)
            label = _metis(graph, weights[vertices], 2, tolerance, [share, 1 - share])
            counted = int((label[:nodes] == 0).sum())
            if not left <= counted <= nodes - (parts - left):  # too few for the parts on a side
                label = (np.arange(len(vertices)) >= max(1, round(nodes * share))).astype(np.int64)
            waiting.append((vertices[label == 1], parts - left))
            waiting.append((vertices[label == 0], left))


class _Graph(NamedTuple):
    """Vertex i is joined to adjacent[starts[i]:starts[i + 1]], by edges of those weights."""

    starts: Integers
    adjacent: Integers
    weights: Integers

    @property
    def vertices(self) -> int:
        return len(self.starts) - 1

    def within(self, vertices: Integers) -> "_Graph":
        """The graph of some of the vertices, renumbered in their (ascending) order."""
        degrees = self.starts[vertices + 1] - self.starts[vertices]
        firsts = np.repeat(self.starts[vertices] - np.cumsum(degrees) + degrees, degrees)
        edges = firsts + np.arange(len(firsts))
        ends = self.adjacent[edges]
        number = np.minimum(np.searchsorted(vertices, ends), len(vertices) - 1)
        kept = vertices[number] == ends
        tails = np.repeat(np.arange(len(vertices)), degrees)[kept]
        return _Graph(_starts(tails, len(vertices)), number[kept], self.weights[edges[kept]])


def _starts(tails: Integers, vertices: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=vertices))])


def _metis(
    graph: _Graph, weights: Floats, parts: int, tolerance: float, shares: list[float] | None
) -> Integers:
    options = pymetis.Options()
    options.seed = _SEED
    options.ncuts = 1 if graph.vertices > _LARGE else 4
    options.ufactor = max(1, round(1000 * tolerance))
    found = pymetis.part_graph(
        parts,
        pymetis.CSRAdjacency(graph.starts.astype(np.int32), graph.adjacent.astype(np.int32)),
        vweights=_scaled(weights),
        eweights=graph.weights.astype(np.int32),
        tpwgts=shares,
        recursive=True,  # three times as fast as k-way on thousands of parts, and no worse
        options=options,
    )
    return np.array(found.vertex_part)


def _scaled(weights: Floats) -> Integers:
    """METIS's integers; what is above 0 stays above 0."""
    scaled = np.rint(weights * min(_UNIT, _TOTAL / max(float(weights.sum()), 1.0)))
    return np.where(weights > 0, np.maximum(1, scaled), 0).astype(np.int32)


def _expanded(graph: Hypergraph) -> _Graph:
    """Both directions of every edge, no repeats; the hubs come after the nodes."""
    by_size: dict[int, tuple[list[Sequence[int]], list[float]]] = {}
    for pins, weight in zip(graph.pins, graph.weights, strict=True):
        same, weights = by_size.setdefault(len(pins), ([], []))
        same.append(pins)
        weights.append(weight)
    tails, heads, strengths = [], [], []
    vertices = graph.nodes
    for size, (edges, weights) in sorted(by_size.items()):
        matrix, strength = np.array(edges, dtype=np.int64), np.array(weights)
        if size <= _CLIQUE_LIMIT:
            one, other = np.triu_indices(size, 1)
            tails.append(matrix[:, one].ravel())
            heads.append(matrix[:, other].ravel())
            strengths.append(np.repeat(strength / (size - 1), len(one)))
        else:
            tails.append(np.repeat(np.arange(vertices, vertices + len(edges)), size))
            heads.append(matrix.ravel())
            strengths.append(np.repeat(strength / 2, size))
            vertices += len(edges)
    there = np.concatenate(tails) * vertices + np.concatenate(heads)
    back = np.concatenate(heads) * vertices + np.concatenate(tails)
    pair, inverse = np.unique(np.concatenate([there, back]), return_inverse=True)
    total = np.bincount(inverse, weights=np.concatenate([*strengths, *strengths]))
    return _Graph(_starts(pair // vertices, vertices), pair % vertices, _scaled(total * 1.0))
