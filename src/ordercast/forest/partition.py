"""The face of a partitioner, and the choice between METIS and the built-in one.

A `Cutter` is made once per hypergraph, so that what is costly about it (METIS: the graph; built
in: the line-up) is shared by all the cuts that are tried.
"""

import importlib.util
from collections.abc import Sequence
from typing import Protocol

from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.lineup import LineupCutter
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

PARTITIONERS = {"metis": "METIS", "builtin": "the built-in partitioner"}


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
    if partitioner == "metis":
        from ordercast.forest.metis import MetisCutter

        return MetisCutter(graph)
    return LineupCutter(graph)


def _has_metis() -> bool:
    return importlib.util.find_spec("pymetis") is not None
