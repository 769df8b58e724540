"""Voters on a hostile network in virtual time, one decision of chance at a time, and Raft's
invariants looked at after each: the voters' log (`core.epochs.raft`) by itself.

A step is a frame that arrives (perhaps twice), is lost, or waits; an alarm; a proposal; a crash
before what was asked for is durable, or after it and before anything is sent; a lost store.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ordercast.core.epochs.raft import LEADER, Raft, VotingTimes
from ordercast.core.epochs.voters_log import LogSnapshot, VoterRecord
from ordercast.model.epochs import Admit, Begin, Entry, EpochRecord, Voters
from ordercast.model.options import MILLISECOND
from ordercast.wire.voting import Voting

TIMES = VotingTimes()


@dataclass
class Machine:
    """A voter's process and disk; `raft` is None while it is down."""

    name: str
    store: int
    disk: list[VoterRecord] = field(default_factory=list)
    raft: Raft | None = None


class Parliament:
    """Frames lie in `flying` until a test, or chance, takes them out."""

    def __init__(
        self, names: Sequence[str], *, kind: type[Raft] = Raft, first: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.first = tuple(first or names)  # the voters when all began
        self.now = 0
        self.flying: list[tuple[str, str, Voting]] = []  # from, to
        self.cut: set[frozenset[str]] = set()
        self.machines = {name: Machine(name, 1 + n) for n, name in enumerate(names)}
        self._stores = len(names)
        self.leaders: dict[int, str] = {}  # of each term
        self.decided: dict[int, Entry] = {}  # by index
        self.violations: list[tuple[Any, ...]] = []
        for name in names:
            self.boot(name)

    def __getitem__(self, name: str) -> Raft:
        raft = self.machines[name].raft
        assert raft is not None, f"{name} is down"
        return raft

    # --- machines ---------------------------------------------------------------------------------

    def boot(self, name: str) -> None:
        machine = self.machines[name]
        machine.raft = self.kind(name, self.first, TIMES, machine.store, list(machine.disk))
        machine.raft.start(self.now)
        self.settle_duties(name)

    def crash(self, name: str, *, lose_store: bool = False) -> None:
        machine = self.machines[name]
        machine.raft = None
        if lose_store:
            self._stores += 1
            machine.store, machine.disk = self._stores, []

    def settle_duties(self, name: str, *, cut: int = 2) -> None:
        """Persist, then send; a crash comes before the first (cut 0) or the second (1)."""
        raft = self[name]
        persist, raft.persist = raft.persist, []
        sends, raft.sends = raft.sends, []
        if cut == 0:
            self.crash(name)
            return
        self.machines[name].disk.extend(persist)
        if cut == 1:
            self.crash(name)
            return
        self.flying.extend((name, peer, frame) for peer, frame in sends)
        self.look()

    def compact(self, name: str) -> None:
        """As a member does it: everything committed is folded; the fold is its indexes."""
        raft = self[name]
        raft.compact(raft.committed, b"%d" % raft.committed)
        self.settle_duties(name)

    # --- steps ------------------------------------------------------------------------------------

    def propose(self, name: str, record: EpochRecord) -> int | None:
        index = self[name].propose(self.now, record)
        self.settle_duties(name)
        return index

    def alarm(self, name: str) -> None:
        """Move time on to this voter's alarm, which rings."""
        self.now = max(self.now, self[name].alarm_at)
        self[name].alarm(self.now)
        self.settle_duties(name)

    def deliver(self, place: int = 0, *, cut: int = 2) -> None:
        sender, peer, frame = self.flying.pop(place)
        if self.machines[peer].raft is not None and frozenset((sender, peer)) not in self.cut:
            self[peer].receive(self.now, sender, frame)
            self.settle_duties(peer, cut=cut)

    def calm(self, frames: int = 400) -> None:
        """Whatever flies arrives, in order, with its answers."""
        while self.flying and frames:
            frames -= 1
            self.deliver()

    def elect(self, name: str) -> None:
        self.alarm(name)
        self.calm()
        assert self[name].role == LEADER

    def pass_time(self, duration: int) -> None:
        """Alarms as they come, frames at once."""
        end = self.now + duration
        while True:
            self.calm()
            due = [
                (m.raft.alarm_at, name)
                for name, m in sorted(self.machines.items())
                if m.raft is not None and m.raft.alarm_at <= end
            ]
            if not due:
                break
            self.alarm(min(due)[1])
        self.now = end

    def isolate(self, name: str) -> None:
        self.cut |= {frozenset((name, other)) for other in self.machines if other != name}

    def admit_waiting(self, name: str) -> None:
        for voter, store in self[name].waiting_for_admission():
            self.propose(name, Admit(voter, 1, store))

    # --- invariants ([Raft] Figure 3) -------------------------------------------------------------

    def look(self) -> None:
        rafts = [m.raft for m in self.machines.values() if m.raft is not None]
        for raft in rafts:
            if raft.role == LEADER:
                known = self.leaders.setdefault(raft.term, raft.name)
                if known != raft.name:
                    self.violations.append(("two leaders", raft.term, known, raft.name))
            first = raft.log.snapshot.upto + 1
            for index in range(first, raft.committed + 1):
                entry = raft.log.entry(index)
                if self.decided.setdefault(index, entry) != entry and not self.violations:
                    self.violations.append(("two decisions", index, raft.name))
        newest = max((raft.term for raft in rafts if raft.role == LEADER), default=0)
        for raft in rafts:
            if raft.role == LEADER and raft.term == newest:
                lacking = [
                    index
                    for index in self.decided
                    if index > raft.log.last
                    or (
                        index > raft.log.snapshot.upto
                        and raft.log.entry(index) != self.decided[index]
                    )
                ]
                if lacking and newest > max(self.decided[index].term for index in lacking):
                    self.violations.append(("leader lacks", raft.name, lacking[0]))
        self._logs_match(rafts)

    def _logs_match(self, rafts: list[Raft]) -> None:
        """Entries of the same index and term are equal, and so is all before them."""
        for a in rafts:
            for b in rafts:
                if a.name >= b.name:
                    continue
                first = max(a.log.snapshot.upto, b.log.snapshot.upto) + 1
                same = False
                for index in range(min(a.log.last, b.log.last), first - 1, -1):
                    one, other = a.log.entry(index), b.log.entry(index)
                    same = same or one.term == other.term
                    if same and one != other:
                        self.violations.append(("logs do not match", index, a.name, b.name))


@dataclass(frozen=True)
class Drawn:
    """What happened in a drawn run."""

    violations: list[tuple[Any, ...]]
    decided: int
    terms: int
    crashes: int
    lost_stores: int
    live: bool  # in calm the voters decided one more


def drawn_run(seed: int, *, kind: type[Raft] = Raft, steps: int = 300) -> Drawn:
    draw = random.Random(seed)
    names = list("abcde")[: draw.choice([1, 2, 3, 3, 3, 5])]
    spare = draw.choice([0, 0, 1]) if len(names) < 5 else 0
    everyone = [*names, *"xy"[:spare]]
    world = Parliament(everyone, kind=kind, first=names)
    loss, patience = draw.choice([0.0, 0.05, 0.3]), draw.choice([0.05, 0.2, 0.35])
    crash = draw.choice([0.0, 0.01, 0.05])
    losing = not spare and len(names) >= 3 and draw.random() < 0.5
    wild = seed % 6 == 4  # many stand at once, crash, and are back at once
    if wild:
        crash, patience = 0.2, 0.1
    crashes = lost = 0
    if draw.random() < 0.7:
        world.pass_time(3 * TIMES.election)
    for step in range(steps):
        up = [name for name, machine in world.machines.items() if machine.raft is not None]
        down = [name for name in everyone if name not in up]
        cut = 2
        if up and draw.random() < crash:
            cut = draw.choice([0, 1])
            crashes += 1
        chance = draw.random()
        if wild and len(world.flying) < 4:
            stampede(world, up)
        if down and chance < (0.3 if wild else 0.05):
            world.boot(draw.choice(down))
        elif chance < 0.07 and losing and (may_lose(world) or not lost):
            world.crash(name := draw.choice(up or down), lose_store=True)
            world.boot(name)
            lost += 1
        elif chance < 0.10:
            world.cut = set()
            if draw.random() < 0.7:
                leading = [name for name in up if world[name].role == LEADER]
                world.isolate(draw.choice(leading or everyone))
            if draw.random() < 0.5:  # and someone still reaches that one, or does not reach another
                world.cut ^= {frozenset(draw.sample(everyone, 2))} if everyone[1:] else set()
        elif chance < 0.10 + patience and up:
            alarm_one(world, draw, up)
        elif chance < 0.5 and up:
            work(world, draw, draw.choice(up), step, same=losing)
        elif world.flying:
            place = draw.randrange(min(len(world.flying), draw.choice([1, 4, 30])))
            if draw.random() < loss:
                world.flying.pop(place)
                continue
            if draw.random() < loss / 2:
                world.flying.append(world.flying[place])
            world.deliver(place, cut=cut)
    live = recovers(world)
    return Drawn(world.violations, len(world.decided), len(world.leaders), crashes, lost, live)


def may_lose(world: Parliament) -> bool:
    """Whether another store may be lost: only when all voters know of those that were lost
    before."""
    rafts = [machine.raft for machine in world.machines.values()]
    return all(
        raft is not None and raft.log.stores().get(name) == machine.store
        for name, machine in world.machines.items()
        for raft in rafts
    )


def alarm_one(world: Parliament, draw: random.Random, up: list[str]) -> None:
    """Clocks of different voters run as they like: the next alarm, or anyone's."""
    name = draw.choice(up)
    if draw.random() < 0.5:
        name = min(up, key=lambda one: world[one].alarm_at)
    if world[name].alarm_at < 1 << 62:
        world.alarm(name)
    world.now += draw.randint(0, 50) * MILLISECOND


def stampede(world: Parliament, up: list[str]) -> None:
    """The alarms of all voters that wait for a leader ring together."""
    for name in up:
        if world[name].role != LEADER and world[name].alarm_at < 1 << 62:
            world.alarm(name)


def work(world: Parliament, draw: random.Random, name: str, step: int, *, same: bool) -> None:
    """A leader proposes something; with `same`, no change of voters."""
    raft = world[name]
    if raft.role != LEADER:
        return
    kind = draw.random()
    if kind < 0.5:
        world.propose(name, Begin(f"{step}", ()))
    elif kind < 0.7:
        world.admit_waiting(name)
    elif kind < 0.8:
        world.compact(name)
    elif not same:
        stores = dict(raft.log.stores())
        other = draw.choice(sorted(world.machines))
        if other in stores:
            del stores[other]
        else:
            stores[other] = world.machines[other].store
        if stores:
            world.propose(name, Voters(tuple(sorted(stores.items()))))


def recovers(world: Parliament) -> bool:
    """Calm: everyone is up, nothing is lost; is something decided, and known to all voters?"""
    world.cut = set()
    for name, machine in world.machines.items():
        if machine.raft is None:
            world.boot(name)
    for _ in range(60):
        world.pass_time(TIMES.election // 4)
        leading = [n for n in world.machines if world[n].role == LEADER]
        for name in leading:
            world.admit_waiting(name)
            world.propose(name, Begin("calm", ()))
        world.pass_time(TIMES.beat)
        if any(
            entry.record == Begin("calm", ())
            and all(world[n].committed >= index for n in world[leading[0]].log.voters)
            for index, entry in world.decided.items()
            if leading
        ):
            return True
    return False


def snapshots(world: Parliament) -> list[LogSnapshot]:
    return [r for m in world.machines.values() for r in m.disk if isinstance(r, LogSnapshot)]
