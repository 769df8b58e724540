"""A live switch through all registered protocols and back, under load, loss and crashes."""

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import pytest

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import UseProtocol
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.worlds import epochs
from support.worlds.epochs import World

GROUPS = {"g": ["a", "b", "c"], "h": ["b", "c", "d"], "i": ["d", "e"]}
SITES = ["a", "b", "c", "d", "e", "x"]  # x is in no group
RING = [*PROTOCOLS, next(iter(PROTOCOLS))]
EACH = 1200 * MILLISECOND  # time enough for a change


@pytest.fixture(autouse=True)
def _every_builder() -> Iterator[None]:
    with patch.object(epochs, "build", build_forest):
        yield


def ring(seed: int, *, loss: float, crash: float, causal: bool) -> World:
    world = World(
        GROUPS, SITES, ["a", "b", "c"], seed=seed, protocol=RING[0], loss=loss, crash=crash,
        causal=causal, deliver="safe" if seed % 2 else "agreed",
    )  # fmt: skip
    for place, protocol in enumerate(RING[1:], 1):
        world.at(place * EACH, lambda p=protocol: world.ask("a", f"to {p}", UseProtocol(p)))  # type: ignore[misc]
    groups = sorted(GROUPS)
    for number in range(len(RING) * 40):
        origin, group = SITES[number % len(SITES)], groups[number % len(groups)]
        at = SECOND // 2 + number * EACH // 40
        world.at(at, partial(world.submit, origin, group, b"%d" % number))
    world.run((len(RING) + 1) * EACH)
    world.settle()
    return world


@pytest.mark.parametrize("causal", [False, True])
def test_a_ring_of_switches_under_load_keeps_the_guarantees(causal: bool) -> None:
    world = ring(1, loss=0.0, crash=0.0, causal=causal)
    assert world.judge() == []
    assert set(world.outcomes.values()) == {""}
    layouts = [member.layout for member in world.members.values()]
    assert {d.protocol for layout in layouts for d in layout.domains.values()} == {RING[-1]}
    assert len(world.epochs) == len(RING)
    assert len(world.before) > 200


@pytest.mark.parametrize("seed", range(2, 6))
def test_and_so_it_does_with_loss_and_crashes(seed: int) -> None:
    world = ring(seed, loss=0.05, crash=0.001, causal=seed % 3 == 0)
    assert world.judge() == []
