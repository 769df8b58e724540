"""`coordp` ([STAB] §3.1): one member, the coordinator, asks everyone and tells everyone.

Round 1: the coordinator multicasts START. Round 2: each other member answers with its array (ACK).
Round 3: when it has all arrays, the coordinator multicasts the least of them as INFO. That is two
multicasts and n − 1 ACKs. The coordinator takes all ACKs: thousands of members overload it.
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
            self._conclude()  # it may be the only member
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
