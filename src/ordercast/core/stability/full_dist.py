"""`full_dist` ([STAB] §3.2): every member tells every member.

Each member keeps the stability matrix M: row i is the newest array of member i. Round 1: the first
member multicasts its row. Round 2: on hearing of the round, every other member multicasts its row.
A member that has all rows of a round knows what is stable: the least of each column. There is no
coordinator, and there are n multicasts.

A row of a later round serves as well, because counts only grow. This is necessary: the next round
begins when the first member has all rows. A member to which some rows come late would otherwise
never have all rows of one round together.
"""

from ordercast.core.stability.arrays import A, Arrays
from ordercast.core.stability.rounds import (
    InfoMessage,
    N,
    Part,
    RoundHost,
    RoundMessage,
    RoundPaths,
)


class FullDist(Part[N, A]):
    __slots__ = ("_answered", "_newest", "_rows")

    def __init__(
        self, name: N, paths: RoundPaths[N], arrays: Arrays[A], member: RoundHost[N, A]
    ) -> None:
        super().__init__(name, paths, arrays, member)
        self._rows: dict[N, InfoMessage[A]] = {}  # the matrix
        self._newest = 0  # the newest round of which there is a row
        self._answered = 0  # how many rows are of rounds after `told`

    def begin(self) -> None:
        self._take_part(self.round + 1)

    def receive(self, peer: N, message: RoundMessage[A]) -> None:
        if not isinstance(message, InfoMessage):
            return
        if peer == self.paths.first and message.round > self.round:
            self._take_part(message.round)
        before = self._rows.get(peer)
        last = 0 if before is None else before.round
        if message.round <= last:
            return  # a newer row of this peer is here
        self._rows[peer] = message
        self._newest = max(message.round, self._newest)
        if last <= self.told < message.round:
            self._answered += 1
            if self._answered == self.paths.count:
                self._conclude()

    def _take_part(self, number: int) -> None:
        self.round = number
        self.member.multicast(InfoMessage(number, self.member.received()))

    def _conclude(self) -> None:
        rows = self._rows.values()
        oldest = min(row.round for row in rows)
        self._answered = sum(row.round > oldest for row in rows)
        self._finish(InfoMessage(oldest, self.arrays.least([row.array for row in rows])))

    def awaited(self) -> list[N]:
        rows = self._rows
        late = (n for n in self.paths.ring if n not in rows or rows[n].round <= self.told)
        return list(late) if self._newest > self.told else []
