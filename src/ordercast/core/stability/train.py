"""`train` ([STAB] §3.3): a train passes through all members in a circle, twice.

The first member puts its array on the train (an ACK). Each member in turn replaces the array by the
least of it and its own: S_i = ArrayMin(S_{i−1}, R_i). When the train is back at the first member,
S_n is the least of all. It goes round once more as INFO. That is 2n rounds of one message each.
"""

from ordercast.core.stability.arrays import A
from ordercast.core.stability.rounds import AckMessage, InfoMessage, N, Part, RoundMessage


class Train(Part[N, A]):
    __slots__ = ()

    def begin(self) -> None:
        self.round += 1
        self._pass_on(AckMessage(self.round, self.member.received()))

    def receive(self, peer: N, message: RoundMessage[A]) -> None:  # noqa: ARG002 one sender only
        if isinstance(message, AckMessage):
            if self.name == self.paths.first:
                self._came_round(message)
            elif message.round > self.round:
                self.round = message.round
                least = self.arrays.least([message.array, self.member.received()])
                self._pass_on(AckMessage(self.round, least))
        elif isinstance(message, InfoMessage) and message.round > self.told:
            if self.name == self.paths.first and message.round > self.round:
                return  # wrong: only this member begins rounds
            self._finish(message)
            self._pass_on(message)

    def _came_round(self, message: AckMessage[A]) -> None:
        if message.round == self.round > self.told:
            info = InfoMessage(self.round, message.array)
            self._finish(info)
            self._pass_on(info)

    def _pass_on(self, message: RoundMessage[A]) -> None:
        self.member.send(self.paths.after[self.name], message)

    def awaited(self) -> list[N]:
        """The next member. If the train is further on, that member says so itself."""
        return [self.paths.after[self.name]] if self.round > self.told else []
