"""`s_coordp` ([STAB] §4.1): `coordp` on a spanning tree.

Round 1: the root multicasts START. Round 2: each leaf sends its array to its parent. Rounds 3 to
p + 1: an inner member that has heard from all its children sends the least of theirs and its own to
its parent. Round p + 2: so does the root, as an INFO to everyone. Nobody hears more than its
children. (`full_dist` on a tree would be the same: a multicast among siblings tells their parent
what one ACK tells it.)
"""

from ordercast.core.stability.arrays import A, Arrays
from ordercast.core.stability.rounds import (
    Ack,
    Environment,
    Info,
    Layout,
    Message,
    N,
    Part,
    Start,
)


class StructuredCoordP(Part[N, A]):
    __slots__ = ("_below", "_open")

    def __init__(
        self, name: N, layout: Layout[N], arrays: Arrays[A], member: Environment[N, A]
    ) -> None:
        super().__init__(name, layout, arrays, member)
        self._below: dict[N, A] = {}  # what the children have sent
        self._open = False  # this round has not left here yet

    def begin(self) -> None:
        self._take_part(self.round + 1)
        self.member.multicast(Start(self.round))

    def receive(self, peer: N, message: Message[A]) -> None:
        if isinstance(message, Info):
            self._finish(message)
            return
        if message.round > self.round and self.name != self.layout.first:
            self._take_part(message.round)  # an ACK may overtake START
        if message.round != self.round:
            return
        if isinstance(message, Ack) and self.layout.parent.get(peer) == self.name:
            self._below[peer] = message.array
        if self._open and len(self._below) == len(self.layout.children[self.name]):
            self._open = False
            self._report()

    def _take_part(self, number: int) -> None:
        self.round = number
        self._below = {}
        self._open = True

    def _report(self) -> None:
        least = self.arrays.least([self.member.received(), *self._below.values()])
        self._below = {}
        if self.name == self.layout.first:
            self.member.multicast(Info(self.round, least))
        else:
            self.member.send(self.layout.parent[self.name], Ack(self.round, least))
