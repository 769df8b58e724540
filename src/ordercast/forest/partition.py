"""The face of a partitioner, and METIS behind it (the extra `partition`).

A `Cutter` is made once per hypergraph, so that what is costly about it (METIS: the graph; built
in: the line-up) is shared by all the cuts that are tried. METIS cuts graphs, so a group becomes a
clique of its members, or, above twenty members, a hub of no weight joined to each of them.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol

from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.lineup import LineupCutter
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

PARTITIONERS = {"metis": "METIS", "builtin": "the built-in partitioner"}

_CLIQUE_LIMIT = 20  # members; a clique's edges grow with the square of them
_SEED = 1
_UNIT = 24  # METIS counts in integers: the weight of one
_TOTAL = 2**29  # and in 32 bits


class Cutter(Protocol):
    def cut(self, sizes: Sequence[float], parts: int, tolerance: float) -> list[int]:
        """A part for each node: about `parts` of about equal size and few edges across."""
        ...


def choose_partitioner(name: str | None) -> str:
    if name is None:
        return "metis" if _has_metis() else "builtin"
    if name not in PARTITIONERS:
        raise ConfigError(f"partitioner: {name!r} is unknown{nearest(name, PARTITIONERS)}")
    if name == "metis" and not _has_metis():
        raise ConfigError(
            "partitioner: 'metis' needs the extra 'partition' (pip install 'ordercast[partition]')"
        )
    return name


def cutter_of(partitioner: str, graph: Hypergraph) -> Cutter:
    return MetisCutter(graph) if partitioner == "metis" else LineupCutter(graph)


def _has_metis() -> bool:
    return importlib.util.find_spec("pymetis") is not None


class MetisCutter:
    def __init__(self, graph: Hypergraph) -> None:
        self._nodes = graph.nodes
        self._starts, self._adjacent, self._weights = _expanded(graph)

    def cut(self, sizes: Sequence[float], parts: int, tolerance: float) -> list[int]:
        if parts <= 1:
            return [0] * self._nodes
        import numpy as np
        import pymetis

        # A node heavier than half a part would leave METIS with parts for which there are no
        # nodes, which it reports on standard output.
        weights = np.zeros(len(self._starts) - 1)
        weights[: self._nodes] = np.minimum(sizes, sum(sizes) / parts / 2)
        options = pymetis.Options()
        options.seed = _SEED
        options.ncuts = 1 if self._nodes > 5_000 else 4
        options.ufactor = max(1, round(1000 * tolerance))
        found = pymetis.part_graph(
            parts,
            pymetis.CSRAdjacency(self._starts, self._adjacent),
            vweights=_integers(weights),
            eweights=self._weights,
            recursive=True,  # three times as fast as k-way on thousands of parts, and no worse
            options=options,
        )
        return list(found.vertex_part[: self._nodes])


def _integers(weights: Any) -> Any:
    """Scaled to METIS's 32-bit integers; what is above 0 stays above 0."""
    import numpy as np

    scaled = np.rint(weights * min(_UNIT, _TOTAL / max(weights.sum(), 1.0)))
    return np.where(weights > 0, np.maximum(1, scaled), 0).astype(np.int32)


def _expanded(graph: Hypergraph) -> tuple[Any, Any, Any]:
    """The graph METIS cuts, as (starts, adjacent, weights): both directions, no repeats."""
    import numpy as np

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
    degrees = np.bincount(pair // vertices, minlength=vertices)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    return starts.astype(np.int32), (pair % vertices).astype(np.int32), _integers(total)
