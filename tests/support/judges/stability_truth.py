"""A judge that knows the truth about stability: which records are durable at which site.

A simulated run is watched from outside: records as they become durable, by site, epoch and group;
what each site calls stable or final, lets through its gate, and forgets. Each of these is compared
with what every member of the group in that epoch has. A site's own log counts before it is durable:
the site shows nothing of it to others until then (`core.outbox`).
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

from ordercast.core.engine import Engine
from ordercast.core.epochs.records import Kept
from ordercast.core.gate import Gate
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import Passed
from ordercast.core.retention import PassedBatches
from ordercast.core.stability.registry import TRACKERS
from ordercast.sim import simulate as simulating
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.place import Place
from ordercast.sim.result import SimResult
from ordercast.sim.world import World
from support.cases.schedules import mixed
from support.worlds.engines import home_engine

BY_ROUNDS = tuple(name for name in TRACKERS if name != "plain")
_OFTEN = ("propagation", "propagation", *(name for name in PROTOCOLS if name != "propagation"))


@dataclass
class Truth:
    """By (site, epoch, group): the number of the last message, durable or in the settled prefix."""

    durable: dict[tuple[str, int, str], int] = field(default_factory=dict)
    settled: dict[tuple[str, int, str], int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    claims: int = 0  # that were looked at

    def note(self, site: str, epoch: int, records: Sequence[Any]) -> None:
        for record in records:
            if isinstance(record, Kept):
                self._note(site, record.epoch, record.passed)
            elif isinstance(record, Passed):
                self._note(site, epoch, record)

    def _note(self, site: str, epoch: int, passed: Passed) -> None:
        batch = passed.placed.batch
        place, last = (site, epoch, batch.group), passed.placed.number + batch.count - 1
        self.durable[place] = max(last, self.durable.get(place, 0))

    def claim(self, tracker: Any, group: str, number: int, what: str, *, final: bool) -> None:
        structure = tracker.structure
        members = structure.groups.get(group) or tracker._members.get(group, ())
        self.claims += 1
        for member in members:
            place = (member, structure.epoch, group)
            has = self.durable.get(place, 0)
            if final:
                has = min(has, self.settled.get(place, 0))
            if member != tracker.site and has < number:
                self.wrong.append(f"{tracker.site} {what} {group} {number}; {member} has {has}")


class WatchedWorld(World):
    """Tells what becomes durable when it does."""

    truth: Truth

    def _perform(self, now: int, place: Place, box: Any) -> None:
        if not self._syncs:
            self.truth.note(place.name, self.structure.epoch, box.persist)
        super()._perform(now, place, box)

    def _synced(self, now: int, place: Place) -> None:
        for _, box in list(place.unsynced)[: place.syncing]:
            self.truth.note(place.name, self.structure.epoch, box.persist)
        super()._synced(now, place)

    def _start(self, now: int, place: Place) -> None:
        self.truth.note(place.name, self.structure.epoch, place.disk.restore()[1])
        super()._start(now, place)


@contextmanager
def watched() -> Iterator[Truth]:
    """Every site that is made here is watched."""
    truth = Truth()
    site_settle, gate_settle, fold = Engine.settle, Gate.settle, PassedBatches._fold
    site_persist = Engine.persist

    def persist(self: Engine, record: Any) -> None:
        if not self._durable:  # no records are made: what is logged counts at once
            truth.note(self.name, self.structure.epoch, [record])
        site_persist(self, record)

    def settle(self: Engine, groups: Sequence[str]) -> None:
        for group in groups:
            tracker = self.stability
            truth.claim(tracker, group, tracker.stable(group), "calls stable", final=False)
        site_settle(self, groups)
        for group in groups:
            truth.claim(tracker, group, tracker.final(group), "calls final", final=True)

    def through_the_gate(self: Gate) -> list[Any]:
        joined = gate_settle(self)
        tracker: Any = self.stability
        for placed in joined:
            batch, last = placed.batch, placed.number + placed.batch.count - 1
            truth.settled[tracker.site, self.epoch, batch.group] = last
            truth.claim(tracker, batch.group, last, "lets through", final=False)
        return joined

    def forget(self: PassedBatches, held: Any) -> None:
        placed, relayed = held.entry.placed, held.entry.from_parent
        if held.position or not relayed:
            last = placed.number + placed.batch.count - 1
            truth.claim(self.stability, placed.batch.group, last, "forgets", final=not relayed)
        fold(self, held)

    with ExitStack() as stack:
        for owner, name, instead in (
            (Engine, "persist", persist),
            (Engine, "settle", settle),
            (Gate, "settle", through_the_gate),
            (PassedBatches, "_fold", forget),
            (simulating, "World", type("Watched", (WatchedWorld,), {"truth": truth})),
        ):
            stack.enter_context(patch.object(owner, name, instead))
        yield truth


def judged(config: SimConfig, seed: int) -> tuple[list[str], SimResult, Truth]:
    """What is wrong with a run: by the truth, by all other checks, and what is left at its end."""
    worlds: list[World] = []
    rest = simulating._judge_rest

    def judge_rest(world: World) -> None:
        worlds.append(world)
        rest(world)

    with watched() as truth, patch.object(simulating, "_judge_rest", judge_rest):
        result = simulating.simulate(config, seed)
    wrong = truth.wrong[:3] + [f"{v.check}: {v.witness}" for v in result.violations[:1]]
    for world in worlds:
        wrong += _left(world)
    return wrong, result, truth


def _left(world: World) -> Iterator[str]:
    """In the end all is stable everywhere, and nothing is kept any longer."""
    if not world.quiet or not world.epochs.steady:
        return
    for name, place in world.places.items():
        site = home_engine(place.site)
        if site.retention.held() or site.own.kept or getattr(site.stability, "held", 0):
            yield f"{name} still keeps {site.retention.held()} batches"


def tracked(seed: int, trackers: Sequence[str] = BY_ROUNDS, *, epochs_every: int = 10) -> SimConfig:
    """A mixed schedule whose tracker is one of `trackers`."""
    stream = Chance(seed, "tracked")
    tracker = trackers[seed % len(trackers)]
    drawn = mixed(stream, stream.choice(_OFTEN), seed, epochs_every)
    return replace(drawn, stability=tracker, source="")
