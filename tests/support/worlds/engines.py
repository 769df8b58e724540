"""Runs of the simulator whose members have engines of another kind: watched, or broken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ordercast.core.engine import Engine
from ordercast.core.epochs import member as member_module
from ordercast.core.outbox import EngineBox
from ordercast.model.groups import Site
from ordercast.sim.config import SimConfig
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.wire.frames import DOWN, Item


@contextmanager
def engines_made_by(make: Callable[..., Engine]) -> Iterator[None]:
    with patch.object(member_module, "Engine", make):
        yield


def simulate_with(make: Callable[..., Engine], config: SimConfig, seed: int) -> SimResult:
    with engines_made_by(make):
        return simulate(config, seed)


def home_engine(member: Any) -> Engine:
    """The engine of the epoch that the member's site is in."""
    home = member.layout.home(member.name)
    assert home is not None
    engine: Engine = member.engines[home.epoch]
    return engine


class PromisesEarly(Engine):
    """Frames that promise leave before what they promise is on disk."""

    def drain(self) -> EngineBox:
        box = super().drain()
        box.send, box.then_send = [*box.send, *box.then_send], ()
        return box


class TakesFromAnyone(Engine):
    """Items of DOWN are taken from any peer, and in any order."""

    def _take(self, peer: Site, lane: int, item: Item) -> bool:
        if lane == DOWN:
            self.ordering.receive(peer, item)
            return True
        return super()._take(peer, lane, item)
