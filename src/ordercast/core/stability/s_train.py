"""`s_train` ([STAB] §4.2, mended by ERRATA STAB-3): `train` on a spanning tree.

A train runs among the children of every inner member. Round 1: the root multicasts START. The first
child of a leaf group sends its array to the second (ACK1), each in turn adds its own, and the last
one sends the least to their parent (ACK2). An inner member adds what came from its last child and
from the sibling before it to its own, and passes that on in the same way. The root, when it has
heard from its last child, multicasts INFO: b rounds for each level, bp + 2 in all.

ACK1 and ACK2 differ in whom they come from only.
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


class StructuredTrain(Part[N, A]):
    __slots__ = ("_awaited", "_heard", "_open", "_started")

    def __init__(
        self, name: N, layout: Layout[N], arrays: Arrays[A], member: Environment[N, A]
    ) -> None:
        super().__init__(name, layout, arrays, member)
        before = [layout.elder[name]] if name in layout.elder else []
        self._awaited = (*before, *layout.children[name][-1:])  # whose ACK1 and ACK2 come here
        self._heard: dict[N, A] = {}
        self._started = False
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
        if isinstance(message, Start):
            self._started = True
        elif peer in self._awaited:
            self._heard[peer] = message.array
        if self._open and self._started and len(self._heard) == len(self._awaited):
            self._open = False
            self._report()

    def _take_part(self, number: int) -> None:
        self.round = number
        self._heard = {}
        self._started = False
        self._open = True

    def _report(self) -> None:
        least = self.arrays.least([self.member.received(), *self._heard.values()])
        self._heard = {}
        if self.name == self.layout.first:
            self.member.multicast(Info(self.round, least))
        else:
            after = self.layout.younger.get(self.name, self.layout.parent[self.name])
            self.member.send(after, Ack(self.round, least))
