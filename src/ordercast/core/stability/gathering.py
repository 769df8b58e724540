"""What the protocols on a spanning tree share ([STAB] §4).

When a member has all the arrays that it waits for, it sends on the least of them and its own. At
the root that ends the round.
"""

from abc import abstractmethod
from collections.abc import Sequence

from ordercast.core.stability.arrays import A, Arrays
from ordercast.core.stability.rounds import (
    AckMessage,
    InfoMessage,
    N,
    Part,
    RoundHost,
    RoundMessage,
    RoundPaths,
    StartMessage,
)


class Gathering(Part[N, A]):
    __slots__ = ("_awaited", "_heard", "_open")

    def __init__(
        self, name: N, paths: RoundPaths[N], arrays: Arrays[A], member: RoundHost[N, A]
    ) -> None:
        super().__init__(name, paths, arrays, member)
        self._awaited = self._sources()
        self._heard: dict[N, A] = {}
        self._open = False  # this member has not sent on its array of this round

    @abstractmethod
    def _sources(self) -> Sequence[N]:
        """The members whose ACKs come here in every round."""

    @abstractmethod
    def _next(self) -> N:
        """The member that gets the least array from here. Not called at the root."""

    def begin(self) -> None:
        self._take_part(self.round + 1)
        self.member.multicast(StartMessage(self.round))

    def receive(self, peer: N, message: RoundMessage[A]) -> None:
        if isinstance(message, InfoMessage):
            self._finish(message)
            return
        if message.round > self.round and self.name != self.paths.first:
            self._take_part(message.round)  # an ACK may overtake START
        if message.round != self.round:
            return
        self._hear(peer, message)
        if self._open and self._ready():
            self._open = False
            self._report()

    def _hear(self, peer: N, message: RoundMessage[A]) -> None:
        if isinstance(message, AckMessage) and peer in self._awaited:
            self._heard[peer] = message.array

    def _ready(self) -> bool:
        return len(self._heard) == len(self._awaited)

    def _take_part(self, number: int) -> None:
        self.round = number
        self._heard = {}
        self._open = True

    def _report(self) -> None:
        least = self.arrays.least([self.member.received(), *self._heard.values()])
        self._heard = {}
        if self.name == self.paths.first:
            self.member.multicast(InfoMessage(self.round, least))
        else:
            self.member.send(self._next(), AckMessage(self.round, least))

    def awaited(self) -> list[N]:
        return [name for name in self._awaited if name not in self._heard] if self._open else []
