"""Producers in a world of members: they send through any site, repeat what is not stable when they
connect again, and move. The judge asks for each message once, in each producer's order.
"""

import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ordercast.core.epochs.records import REFUSED
from ordercast.core.order import registry
from ordercast.model.epochs import AddProducer
from ordercast.model.messages import producer_id
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.cases.epoch_schedules import drawn_world as waiting_world
from support.cases.exclude_schedules import drawn_world, hard_world, small_world
from support.cases.loss_schedules import LossSchedule
from support.judges.epoch_judge import who_may_have_lost
from support.worlds import epochs
from support.worlds.epochs import World
from support.worlds.stored_members import KEEP_ALL, StoredMembers

KINDS = ("trouble", "links", "losses", "waiting")
SMALL = "small"
APART = "apart"  # as small, and no group has all sites
PROTOCOLS = tuple(name for name, info in registry.PROTOCOLS.items() if info.exclude)

_APART = ({"g0": "ab", "g1": "bc"}, {"g0": "ab", "g1": "c"})  # one domain; two

Sent = tuple[str, int]
"""Group and number."""


class Producer:
    """`open`: what is not known to be stable, in order. `_left`: what of it must still be handed
    over on this connection. Numbers grow with gaps, one count for all groups."""

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        self.world = world
        self.name = name
        self.groups = list(groups)
        self.draw = random.Random(seed)
        self.last = 0
        self.open: list[Sent] = []
        self.stable: list[Sent] = []
        self.refused: list[Sent] = []
        self.copies = self.moves = 0
        self.lists: dict[str, tuple[str, ...]] = {}  # the sites of groups that are lists
        self._at: tuple[str, int] | None = None  # a site, and its boot
        self._left: list[Sent] = []
        self._given: dict[Sent, tuple[str, str, int]] = {}  # the seq of the copy, here

    def body(self, sent: Sent) -> bytes:
        return f"{self.name} {sent[0]} {sent[1]}".encode()

    def waits_for(self, down: Collection[str], sent: Sent) -> bool:
        """Whether it was sent to a list with a site that is down for good. It may have been taken
        before, so it waits for that site."""
        return any(site in down for site in self.lists.get(sent[0], ()))

    def may_be_late(self, sent: Sent) -> bool:  # noqa: ARG002
        """Whether it may be delivered after later ones: the sender has given it up."""
        return False

    def is_asking(self, sent: Sent) -> bool:  # noqa: ARG002
        """Whether its copy is stable, and its site asks what became of it."""
        return False

    def turn(self, until: int) -> None:
        """One step, and another one later."""
        world = self.world
        self._look()
        calm = world.now >= world.calm_at
        if self._at is None or self.draw.random() < (0.01 if calm else 0.06):
            self._connect()
        if world.now < until and self.draw.random() < 0.7:
            self.last += self.draw.choice([1, 1, 5])
            self.open.append((self.draw.choice(self.groups), self.last))
            self._left.append(self.open[-1])
        self._hand_over()
        if self._left and self.draw.random() < 0.1:
            self._at = None  # it waits for long: another site may be quicker
        if world.now < until or self.open:
            later = world.now + self.draw.choice([5, 30, 120]) * MILLISECOND
            world.at(later, lambda: self.turn(until))

    def _connect(self) -> None:
        there = sorted(self.world.members)
        if there:
            site = self.draw.choice(there)
            self._at = site, self.world.boots[site]
            self._left, self._given = list(self.open), {}
            self.moves += 1

    def _look(self) -> None:
        """What became of the copies of this connection; is the site still there?"""
        world = self.world
        for sent in list(self.open):
            stages = world.stages.get(self._given.get(sent, ("", "", 0)), ())
            if self.is_asking(sent):
                continue
            if "stable" in stages or REFUSED in stages:
                self.open.remove(sent)
                (self.stable if "stable" in stages else self.refused).append(sent)
        if self._at is not None:
            site, boot = self._at
            if site not in world.members or world.boots[site] != boot:
                self._at = None

    def _hand_over(self) -> None:
        world = self.world
        while self._left and self._at is not None:
            site, boot = self._at
            if site not in world.members or world.boots[site] != boot:
                return
            layout = world.members[site].layout
            sent = self._left[0]
            group, number = sent
            ticket = layout.producers.get((self.name, group))
            if ticket is None:
                if group in layout.groups:
                    name = f"{self.name} {group} {site} {world.now // (2 * SECOND)}"
                    world.ask(site, name, AddProducer(self.name, group))
                    return
                self._left.pop(0)  # the group is gone
                self.open.remove(sent)
                self.refused.append(sent)
                continue
            given = self._submit(site, group, (producer_id(ticket), number), self.body(sent))
            if given is None:
                return
            self._left.pop(0)
            self._given[sent] = given
            self.copies += 1

    def _submit(
        self, site: str, group: str, request: tuple[bytes, int], body: bytes
    ) -> tuple[str, str, int] | None:
        world, seqs = self.world, list[int]()

        def call(member: Any) -> tuple[str, int]:
            payloads = [body, body + b"'"]
            if group in self.lists:
                _, seq = member.submit_to(world.now, self.lists[group], payloads, request)
            else:
                seq = member.submit(world.now, group, payloads, request)
            seqs.append(seq)
            return group, seq

        world._submit(site, call, (body, body + b"'"))
        if not seqs:
            return None
        world.copied[site, group, seqs[0]] = world.copied[site, group, seqs[0] + 1] = body
        return site, group, seqs[0]


def produce(
    world: World,
    seed: int,
    count: int = 2,
    until: int = 5 * SECOND,
    make: type[Producer] = Producer,
) -> list[Producer]:
    """Producers that send to all groups until then, and go on repeating."""
    groups = sorted(world.first.groups)
    made = [make(world, f"p{n}", seed * 100 + n, groups) for n in range(count)]
    for one in made:
        world.at(SECOND // 2, lambda p=one: p.turn(until))  # type: ignore[misc]
    return made


def settled(world: World, producers: Sequence[Producer], step: int = SECOND) -> World:
    """Calm, until the world is quiet and all that was sent has its answer."""
    for _ in range(4 * SECOND // step):
        world.settle(step=step)
        if not any(one.open for one in producers):
            break
    return world


def producing(
    seed: int, kind: str = "", make: type[Producer] = Producer
) -> tuple[World, list[Producer]]:
    """A schedule of the seed with producers, run to its end. `kind`: all kinds of trouble with
    changes of groups, links that fail under any protocol, stores that are lost, or sites that are
    waited for. They come in turn. And `SMALL` or `APART`: little of all that."""
    kind = kind or KINDS[seed % len(KINDS)]
    if kind in (SMALL, APART):
        world = small_world(seed, _APART[seed % len(_APART)] if kind == APART else None)
        producers = produce(world, seed, until=11 * SECOND // 10, make=make)
        world.run(13 * SECOND // 10)
        return settled(world, producers, SECOND // 4), producers
    if kind == "losses":
        schedule = LossSchedule(seed, changes=seed % 3 == 1)
        producers = produce(schedule.world, seed, 1, 12 * SECOND, make)
        return settled(schedule.run(), producers), producers
    if kind == "links":
        with patch.object(epochs, "build", build_forest):
            protocol = PROTOCOLS[seed // len(KINDS) % len(PROTOCOLS)]
            world = hard_world(seed, protocol=protocol)
            return _run(world, seed, make)
    return _run(waiting_world(seed) if kind == "waiting" else drawn_world(seed), seed, make)


def _run(world: World, seed: int, make: type[Producer]) -> tuple[World, list[Producer]]:
    producers = produce(world, seed, make=make)
    world.run(6 * SECOND)
    return settled(world, producers), producers


def stored_producing(
    seed: int, folder: Path, sender: type[Producer] = Producer
) -> tuple[StoredMembers, list[Producer]]:
    """The same of members on real stores, which keep all rows."""

    def make(*given: Any, **more: Any) -> StoredMembers:
        return StoredMembers(folder, KEEP_ALL, *given, together=True, **more)

    world = (hard_world if seed % 2 else drawn_world)(seed, make_world=make)
    assert isinstance(world, StoredMembers)
    producers = produce(world, seed, make=sender)
    try:
        world.run(6 * SECOND)
        settled(world, producers)
    finally:
        world.close()
    return world, producers


def counted(world: World, senders: Sequence[Any], *of_senders: str) -> dict[str, int]:
    """What a run did. `of_senders`: further counts that the senders keep."""
    return {
        "copies": sum(one.copies for one in senders),
        "stable": sum(len(one.stable) for one in senders),
        "moves": sum(one.moves for one in senders),
        **{name: sum(getattr(one, name) for one in senders) for name in of_senders},
        "crashes": world.crashes,
        "lost stores": sum(world.lost.values()),
        "epochs": max(world.epochs),
        "rollbacks": len(world.rollbacks),
    }


def judged(world: World, producers: Sequence[Producer]) -> list[tuple[Any, ...]]:
    """What is wrong; for a run that has settled."""
    found = world.judge()
    delivered = {payload for seen in world.seen.values() for _, _, payload in seen}
    for site, seen in world.seen.items():
        last: dict[tuple[str, str], int] = {}
        generations: dict[tuple[str, str], int] = {}
        for _, _, payload in seen:
            if not payload.startswith(b"p") or payload.endswith(b"'"):
                continue
            name, group, number = payload.decode().split()
            base, _, generation = name.partition(".")
            if any(one.may_be_late((group, int(number))) for one in producers if one.name == base):
                continue
            if int(generation or 0) < generations.get((base, group), 0):
                found.append(("fenced and delivered", site, payload))
            generations[base, group] = int(generation or 0)
            if int(number) <= last.get((name, group), 0):
                found.append(("producer", site, payload))
            last[name, group] = int(number)
        bodies = [payload for _, _, payload in seen if payload.startswith(b"p")]
        if len(set(bodies)) != len(bodies):
            found.append(("twice", site))
    for one in producers:
        waiting = [sent for sent in one.open if not one.waits_for(world.down, sent)]
        if waiting:
            found.append(("open", one.name, waiting[:3]))
        found += [
            ("stable and not delivered", one.name, sent)
            for sent in one.stable
            if one.body(sent) not in delivered and is_kept(world, sent[0])
        ]
    return found


def is_kept(world: World, group: str) -> bool:
    """Whether what was stable in the group is still there: none of its members has lost its store
    or was retired, or one that has not was present in all epochs of the group."""
    if world.removed(group):
        return False
    members = dict.fromkeys(who_may_have_lost(world, group))
    kept = [site for site in members if site not in world.lost and not world.left(site)]
    if len(kept) == len(members):
        return True
    epochs = [named[group] for named, *_ in world.epochs.values() if group in named]
    return any(all(site in present for present in epochs) for site in kept if epochs)
