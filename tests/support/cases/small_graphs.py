"""Reproductions with few points, for tests that only want to see them run."""

import dataclasses

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import Reproduction


def small_graphs() -> list[Reproduction]:
    """Graphs 1 and 3 on a grid of six points, with six runs each, which they share."""
    return [
        dataclasses.replace(
            CATALOGUE[name],
            points=lambda _: [
                {"sites": sites, "groups": groups, "size": 5}
                for groups in (10, 20)
                for sites in (20, 60, 400)
            ],
            repeats=lambda _: Repeats(6, 6),
        )
        for name in ("gs-graph1", "gs-graph3")
    ]
