"""Every broken variant of the protocols without a tree is caught, where the right one passes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from ordercast.core.engine import Engine
from ordercast.model.messages import Batch
from ordercast.sim.config import SimConfig
from ordercast.sim.schedules import LONG_EVERY, schedule
from ordercast.sim.simulate import simulate
from ordercast.wire.frames import UP, Item
from schedules.direct_mutants import DIRECT_MUTANTS, BrokenDirect
from support.cases.epoch_schedules import schedule as epoch_schedule
from support.worlds.engines import simulate_with

SCHEDULES = 200
# Where each was caught when this was written: the search of all begins there, and is short.
KNOWN = {
    "ForgetsItsPromises": 63,
    "ForgetsWhatItReceived": 99,
    "OffersWithoutAClock": 28,
    "OriginForgetsWhatItFixed": 19,
    "ProposalIgnoresFinals": 16,
}
ROUND = ("two_phase", "symmetric")


def config_of(kind: type[BrokenDirect], seed: int) -> SimConfig:
    return replace(schedule(kind.protocol(), seed), **kind.focus)


def first_caught(kind: type[BrokenDirect]) -> tuple[int, str] | None:
    first = KNOWN.get(kind.__name__, 1)
    for seed in (*range(first, SCHEDULES + 1), *range(1, first)):
        if seed % LONG_EVERY:
            result = simulate_with(kind, config_of(kind, seed), seed)
            if result.violations:
                return seed, result.violations[0].check
    return None


@pytest.mark.parametrize("name", DIRECT_MUTANTS)
def test_a_direct_mutant_is_caught_where_the_protocol_itself_passes(name: str) -> None:
    kind = DIRECT_MUTANTS[name]
    caught = first_caught(kind)
    assert caught is not None, f"{name} survived {SCHEDULES} schedules"
    assert caught[1] != "breakdown"
    assert not simulate(config_of(kind, caught[0]), caught[0]).violations


# --- closing an epoch: (owner, attribute, replacement) --------------------------------------------


def sealed_sites_are_silent() -> tuple[Any, str, Any]:
    """Who has passed the Close answers nothing: others wait for its numbers for ever."""

    take = Engine._take

    def refuse(self: Engine, peer: str, lane: int, item: Item) -> bool:
        refused = lane == UP and not self.epoch_state.places
        return not refused and take(self, peer, lane, item)

    return Engine, "_take", refuse


def sealed_sites_let_pass() -> tuple[Any, str, Any]:
    """Who has passed the Close goes on logging."""
    return Engine, "may_log", lambda self: self.flow.room_down()


def sealed_sites_forget_what_they_offered() -> tuple[Any, str, Any]:
    """A sealed site that restarts does not tell again what others wait for."""

    def order(self: Engine, batch: Batch) -> None:
        if self.epoch_state.places:
            self.ordering.submit(batch)

    return Engine, "_order", order


CLOSING = (
    (sealed_sites_are_silent, range(40)),
    (sealed_sites_let_pass, range(40)),
    (sealed_sites_forget_what_they_offered, (436, 623, 738)),
)


@pytest.mark.parametrize(("broken", "seeds"), CLOSING, ids=lambda x: getattr(x, "__name__", ""))
def test_a_mutant_of_closing_is_caught(broken: Callable[[], Any], seeds: Sequence[int]) -> None:
    def wrong(seed: int) -> bool:
        first = seed % 2
        return bool(epoch_schedule(seed, protocols=(*ROUND[first:], *ROUND[:first])).judge())

    with patch.object(*broken()):
        caught = next((seed for seed in seeds if wrong(seed)), None)
    assert caught is not None
    assert not wrong(caught)
