"""`coordp` ([STAB] §3.1): one member, the coordinator, asks everyone and tells everyone.

Round 1: the coordinator multicasts START. Round 2: each other member answers with its array. Round
3: with all of them the coordinator multicasts their least as INFO. Two multicasts and n − 1 ACKs,
all of which the coordinator takes: at thousands of members they bury it.
"""

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


class CoordP(Part[N, A]):
    __slots__ = ("_answers", "_open")

    def __init__(
        self, name: N, paths: RoundPaths[N], arrays: Arrays[A], member: RoundHost[N, A]
    ) -> None:
        super().__init__(name, paths, arrays, member)
        self._answers: dict[N, A] = {}
        self._open = False  # at the coordinator: the round waits for answers

    def begin(self) -> None:
        self.round += 1
        self._answers = {}
        self._open = True
        self.member.multicast(StartMessage(self.round))

    def receive(self, peer: N, message: RoundMessage[A]) -> None:
        if isinstance(message, StartMessage):
            self._started(message)
        elif isinstance(message, AckMessage):
            if message.round == self.round:
                self._answers[peer] = message.array
                self._conclude()
        else:
            self._finish(message)

    def _started(self, message: StartMessage) -> None:
        if self.name == self.paths.first:
            self._conclude()  # nobody else may be there to answer
        elif message.round > self.round:
            self.round = message.round
            self.member.send(self.paths.first, AckMessage(self.round, self.member.received()))

    def _conclude(self) -> None:
        if self._open and len(self._answers) == self.paths.count - 1:
            self._open = False
            least = self.arrays.least([self.member.received(), *self._answers.values()])
            self._answers = {}
            self.member.multicast(InfoMessage(self.round, least))

    def awaited(self) -> list[N]:
        if not self._open:
            return []
        others = (name for name in self.paths.ring if name != self.name)
        return [name for name in others if name not in self._answers]
