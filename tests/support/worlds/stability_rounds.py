"""Stability protocols driven by hand: in lock step, to see their rounds, and by chance.

Arrays here are plain tuples by sender. `lock_step` delivers everything that was sent in one round
before the next, which is how [STAB]'s figures draw the protocols. `Chaos` delivers in any order,
loses, doubles and delays, lets data arrive meanwhile and begins rounds before others have ended;
what is called stable is held against what every member has.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import (
    AckMessage,
    InfoMessage,
    Part,
    RoundHost,
    RoundMessage,
    RoundPaths,
    StartMessage,
)

Array = tuple[int, ...]
Parts = Callable[[str], type[Part[Any, Any]]]
EVERYONE = 0  # members are numbered from 1, as in the paper


class Tuples:
    def least(self, arrays: Iterable[Array]) -> Array:
        return tuple(map(min, zip(*arrays, strict=True)))

    def size(self, array: Array) -> int:
        return 4 * len(array)


@dataclass(frozen=True)
class Sent:
    source: int
    target: int
    message: RoundMessage[Array]

    def shown(self) -> tuple[str, int, int]:
        names = {StartMessage: "START", AckMessage: "ACK", InfoMessage: "INFO"}
        return names[type(self.message)], self.source, self.target


class Member(RoundHost[int, Array]):
    def __init__(self, name: int, array: Array, told: Callable[[int, Array], None]) -> None:
        self.name = name
        self.array = array
        self.outgoing: list[Sent] = []
        self.told = told

    def received(self) -> Array:
        return self.array

    def send(self, peer: int, message: RoundMessage[Array]) -> None:
        self.outgoing.append(Sent(self.name, peer, message))

    def multicast(self, message: RoundMessage[Array]) -> None:
        self.outgoing.append(Sent(self.name, EVERYONE, message))

    def stable(self, array: Array) -> None:
        self.told(self.name, array)


class Group:
    """All members of a layout, with their parts in one protocol."""

    def __init__(
        self, protocol: str, layout: RoundPaths[int], parts: Parts = PROTOCOLS.__getitem__
    ) -> None:
        self.layout = layout
        self.members = {name: Member(name, (0,) * layout.count, self.told) for name in layout.ring}
        make = parts(protocol)
        self.parts = {
            name: make(name, layout, Tuples(), member) for name, member in self.members.items()
        }
        self.ends: dict[int, Array] = {}

    def told(self, name: int, array: Array) -> None:
        self.ends[name] = array

    def truth(self) -> Array:
        return Tuples().least(member.array for member in self.members.values())

    def begin(self) -> None:
        self.parts[self.layout.first].begin()

    def taken(self) -> list[Sent]:
        """What members have sent since the last time."""
        found = []
        for member in self.members.values():
            found += member.outgoing
            member.outgoing = []
        return found

    def targets(self, sent: Sent) -> Sequence[int]:
        return self.layout.ring if sent.target == EVERYONE else (sent.target,)


def lock_step(group: Group) -> list[list[tuple[str, int, int]]]:
    """One execution; what was sent in each of its rounds, sorted."""
    group.begin()
    rounds = []
    while sent := group.taken():
        rounds.append(sorted(each.shown() for each in sent))
        for each in sent:
            for name in group.targets(each):
                group.parts[name].receive(each.source, each.message)
    return rounds


def b_ary(b: int, p: int) -> RoundPaths[int]:
    """[STAB] §4's complete tree; members have its global numbers q, from 1 on."""
    count = sum(b**depth for depth in range(p + 1))
    children = {
        q: [c for c in range((q - 1) * b + 2, q * b + 2) if c <= count] for q in range(1, count + 1)
    }
    return RoundPaths(range(1, count + 1), children)


class Chaos:
    """A run drawn from a seed; `broken` says what was wrong, if anything."""

    def __init__(self, protocol: str, seed: int, parts: Parts = PROTOCOLS.__getitem__) -> None:
        self.random = Random(f"{protocol}/{seed}")
        self.group = Group(protocol, _drawn_layout(self.random), parts)
        self.group.told = self._told  # type: ignore[method-assign]
        for member in self.group.members.values():
            member.told = self._told
        self.flying: list[tuple[int, Sent]] = []
        self.floors: list[Array] = [(0,) * self.group.layout.count]  # by round: true at its begin
        self.broken: list[str] = []
        self.ended: dict[int, Array] = {}

    def run(self, steps: int = 300) -> list[str]:
        acts = (self._deliver, self._deliver, self._deliver, self._data, self._lose, self._double)
        for _ in range(steps):
            if self.random.random() < 0.02 or not self.flying:
                self._begin()
            self.random.choice(acts)()
        self._finish()
        return self.broken

    def _begin(self) -> None:
        self.floors.append(self.group.truth())
        self.group.begin()
        self._collect()

    def _collect(self) -> None:
        for sent in self.group.taken():
            self.flying += [(name, sent) for name in self.group.targets(sent)]

    def _deliver(self) -> None:
        """Any message under way, not the oldest: they overtake each other."""
        if self.flying:
            name, sent = self.flying.pop(self.random.randrange(len(self.flying)))
            self.group.parts[name].receive(sent.source, sent.message)
            self._collect()

    def _data(self) -> None:
        member = self.random.choice(list(self.group.members.values()))
        array = list(member.array)
        array[self.random.randrange(len(array))] += 1
        member.array = tuple(array)

    def _lose(self) -> None:
        if self.flying and self.random.random() < 0.3:
            self.flying.pop(self.random.randrange(len(self.flying)))

    def _double(self) -> None:
        if self.flying:
            self.flying.append(self.random.choice(self.flying))

    def _finish(self) -> None:
        """Nothing goes wrong any more: late messages come, and one more round tells everyone."""
        while self.flying:
            self._deliver()
        self.ended = {}
        self._begin()
        while self.flying:
            self._deliver()
        for name in self.group.members:
            if self.ended.get(name) != self.group.truth():
                self.broken.append(f"{name} does not know what is stable: {self.ended.get(name)}")

    def _told(self, name: int, array: Array) -> None:
        self.ended[name] = array
        truth = self.group.truth()
        if any(claimed > held for claimed, held in zip(array, truth, strict=True)):
            self.broken.append(f"{name} calls {array} stable; every member has {truth}")
        floor = self.floors[self.group.parts[name].told]
        if any(claimed < held for claimed, held in zip(array, floor, strict=True)):
            self.broken.append(f"{name} is told {array}; when the round began all had {floor}")


def _drawn_layout(random: Random) -> RoundPaths[int]:
    """A random tree of 1 to 9 members, and a circle that begins with its root."""
    count = random.randint(1, 9)
    children: dict[int, list[int]] = {name: [] for name in range(1, count + 1)}
    for name in range(2, count + 1):
        children[random.randint(1, name - 1)].append(name)
    others = list(range(2, count + 1))
    random.shuffle(others)
    return RoundPaths([1, *others], children)
