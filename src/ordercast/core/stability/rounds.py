"""Rounds of a stability protocol: messages, the places of members, a member's part ([STAB] §2 to
§4).

A round collects the arrays of all members and tells every member the least: what is stable. Every
message has the number of its round. A member takes part in the newest round that it has heard of,
and ignores messages of older rounds. So a round that cannot finish is simply followed by another,
and no round is completed with the answers of another. A member may read its array at any time after
the round has begun: counts only grow.

When to begin a round is not decided here, but by a trigger.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

import msgspec

from ordercast.core.stability.arrays import A, Arrays

N = TypeVar("N", bound=Hashable)
"""The type of members' names: sites have names, nodes of the studies' trees have numbers."""


class StartMessage(msgspec.Struct, frozen=True, gc=False):
    """The round begins. It has no body."""

    round: int


class AckMessage(msgspec.Struct, Generic[A], frozen=True):
    """On its way in: the least array of the members that have contributed so far."""

    round: int
    array: A


class InfoMessage(msgspec.Struct, Generic[A], frozen=True):
    """On its way out: the least of all arrays (in `full_dist` the sender's array)."""

    round: int
    array: A


class RoundDue(msgspec.Struct, frozen=True, gc=False):
    """To the first member: a round is due. Triggers send it; it is no part of a round."""


RoundMessage: TypeAlias = StartMessage | AckMessage[A] | InfoMessage[A]


class RoundPaths(Generic[N]):
    """The neighbours of each member: on the circle of all members, and in the tree that spans them.

    The first of the circle is the coordinator and the root. Children stand in the order in which
    [STAB] §4.2 passes arrays among them.
    """

    def __init__(self, ring: Sequence[N], children: Mapping[N, Sequence[N]]) -> None:
        self.ring = tuple(ring)
        self.first = self.ring[0]
        self.count = len(self.ring)
        self.after = dict(zip(self.ring, (*self.ring[1:], self.first), strict=True))
        self.children = {name: tuple(children.get(name, ())) for name in self.ring}
        self.parent: dict[N, N] = {}
        self.elder: dict[N, N] = {}  # the sibling before a member
        self.younger: dict[N, N] = {}
        for name, below in self.children.items():
            for child in below:
                if child in self.parent or child == self.first or child not in self.after:
                    raise ValueError(f"{child!r} below {name!r}: no tree of these members")
                self.parent[child] = name
            pairs = list(pairwise(below))
            self.elder.update((later, earlier) for earlier, later in pairs)
            self.younger.update(pairs)
        if len(self.parent) != self.count - 1:
            raise ValueError("the tree does not span the members")


class RoundHost(ABC, Generic[N, A]):
    """What a member does for its `Part` in the protocol."""

    @abstractmethod
    def received(self) -> A:
        """R_i: how far this member has received by now."""

    @abstractmethod
    def send(self, peer: N, message: RoundMessage[A]) -> None:
        """Send to one member, in order."""

    @abstractmethod
    def multicast(self, message: RoundMessage[A]) -> None:
        """Send to all members, this one included."""

    @abstractmethod
    def stable(self, array: A) -> None:
        """A round has ended: all members have everything up to the counts of this array."""


class Part(ABC, Generic[N, A]):
    """One member's part in the rounds of a protocol."""

    __slots__ = ("arrays", "member", "name", "paths", "round", "told")

    def __init__(
        self, name: N, paths: RoundPaths[N], arrays: Arrays[A], member: RoundHost[N, A]
    ) -> None:
        self.name = name
        self.paths = paths
        self.arrays = arrays
        self.member = member
        self.round = 0  # the round that it takes part in
        self.told = 0  # the last round whose end it knows

    @abstractmethod
    def begin(self) -> None:
        """Begin the next round. Only the first member does."""

    @abstractmethod
    def receive(self, peer: N, message: RoundMessage[A]) -> None: ...

    @abstractmethod
    def awaited(self) -> Sequence[N]:
        """The members whose messages this member waits for."""

    def _finish(self, message: InfoMessage[A]) -> None:
        """Hand up the array of a finished round, once."""
        if message.round > self.told:
            self.told = message.round
            self.member.stable(message.array)
