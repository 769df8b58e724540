"""`s_train` ([STAB] §4.2, mended by errata STAB-3): `train` on a spanning tree.

A train runs among the children of every inner member. Round 1: the root multicasts START. Among
sibling leaves, the first sends its array to the second (ACK1), each in turn adds its own, and the
last sends the least to their parent (ACK2). An inner member takes the least of its own array and
the arrays from its last child and from the sibling before it, and passes that on in the same way.
When the root has heard from its last child it multicasts INFO. That is b rounds for each level,
bp + 2 in all.

ACK1 and ACK2 differ only in their senders.
"""

from collections.abc import Sequence

from ordercast.core.stability.arrays import A, Arrays
from ordercast.core.stability.gathering import Gathering
from ordercast.core.stability.rounds import N, RoundHost, RoundMessage, RoundPaths, StartMessage


class StructuredTrain(Gathering[N, A]):
    __slots__ = ("_started",)

    def __init__(
        self, name: N, paths: RoundPaths[N], arrays: Arrays[A], member: RoundHost[N, A]
    ) -> None:
        super().__init__(name, paths, arrays, member)
        self._started = False

    def _sources(self) -> Sequence[N]:
        paths = self.paths
        before = [paths.elder[self.name]] if self.name in paths.elder else []
        return (*before, *paths.children[self.name][-1:])

    def _next(self) -> N:
        return self.paths.younger.get(self.name, self.paths.parent[self.name])

    def _take_part(self, number: int) -> None:
        super()._take_part(number)
        self._started = False

    def _hear(self, peer: N, message: RoundMessage[A]) -> None:
        if isinstance(message, StartMessage):
            self._started = True
        super()._hear(peer, message)

    def _ready(self) -> bool:
        return self._started and super()._ready()
