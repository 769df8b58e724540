"""The network for frames of no epoch: votes, records of the voters' log, signs of life.

These frames have a stream of chance of their own and are charged to no P and no T, so that the
messages of a run take the times that they would take without them. They are counted apart. Knocks
have another such network: how often sites knock does not change the rest.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ordercast.model.groups import Site
from ordercast.sim.chance import Chance
from ordercast.sim.conditions import Conditions
from ordercast.sim.config import SimConfig
from ordercast.sim.injections import Injection
from ordercast.sim.networks import build_voters_network


class VotersNetwork:
    """`frames`: how many frames were sent."""

    def __init__(self, config: SimConfig, seed: int, notice: int, who: str = "voters'") -> None:
        stream = Chance(seed, f"{who} network")
        self._network = build_voters_network(config.network, config.table.sites, stream)
        self.conditions = Conditions(
            config.faults, seed, f"{who} fate", sites=config.table.sites, notice=notice
        )
        self._faulty = bool(config.faults)
        self.frames = 0

    def carry(
        self, now: int, source: Site, sends: Sequence[tuple[Site, Any]]
    ) -> Iterator[tuple[int, Site, Any]]:
        """When each copy of a frame arrives, and at which site."""
        self.frames += len(sends)
        times = self._network.arrivals(now, source, sends)
        for (peer, frame), at in zip(sends, times, strict=True):
            fates = self.conditions.fates(now, source, peer, at) if self._faulty else (at,)
            for arrival in fates:
                yield arrival, peer, frame

    def inject(self, injection: Injection) -> None:
        self.conditions.inject(injection)

    def calm(self) -> None:
        self.conditions.calm()
        self._faulty = self.conditions.last
