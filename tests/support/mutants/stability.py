"""Broken variants of the stability protocols, each of which takes one of their arguments away."""

from typing import Any

from ordercast.core.stability.coordp import CoordP
from ordercast.core.stability.full_dist import FullDist
from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import AckMessage, InfoMessage, Part, RoundMessage
from ordercast.core.stability.s_coordp import StructuredCoordP
from ordercast.core.stability.s_train import StructuredTrain
from ordercast.core.stability.train import Train
from support.worlds.stability_rounds import Array, Parts


class OneAnswerShort(CoordP[int, Array]):
    """The coordinator does not wait for the last one."""

    def _conclude(self) -> None:
        if self._open and len(self._answers) >= self.paths.count - 2:
            self._open = False
            least = self.arrays.least([self.member.received(), *self._answers.values()])
            self.member.multicast(InfoMessage(self.round, least))


class AnyAnswerCounts(CoordP[int, Array]):
    """Answers to an older START are taken as answers to this one."""

    def receive(self, peer: int, message: RoundMessage[Array]) -> None:
        if isinstance(message, AckMessage):
            message = AckMessage(self.round, message.array)
        super().receive(peer, message)


class OldRowsCount(FullDist[int, Array]):
    """A round is over when there is some row of everyone."""

    def receive(self, peer: int, message: RoundMessage[Array]) -> None:
        super().receive(peer, message)
        if len(self._rows) == self.paths.count:
            least = self.arrays.least([row.array for row in self._rows.values()])
            self._finish(InfoMessage(self._newest, least))


class OwnRowIsEnough(FullDist[int, Array]):
    """Missing rows hold nobody up."""

    def receive(self, peer: int, message: RoundMessage[Array]) -> None:
        super().receive(peer, message)
        self._conclude()


class PassedOnAsItCame(Train[int, Array]):
    """A member forgets to put its own array on the train."""

    def receive(self, peer: int, message: RoundMessage[Array]) -> None:
        if isinstance(message, AckMessage) and self.name != self.paths.first:
            self._pass_on(message)
        else:
            super().receive(peer, message)


class AnyTrainIsThisOne(Train[int, Array]):
    """A train that comes late from an older round is taken as this round's."""

    def _came_round(self, message: AckMessage[Array]) -> None:
        super()._came_round(AckMessage(self.round, message.array))


class OneChildIsEnough(StructuredCoordP[int, Array]):
    """An inner member answers for its children when the first of them has answered."""

    def receive(self, peer: int, message: RoundMessage[Array]) -> None:
        super().receive(peer, message)
        if self._open and self._heard:
            self._open = False
            self._report()


class OnlyForTheChildren(StructuredCoordP[int, Array]):
    """An inner member passes its children's arrays on, and not its own."""

    def _report(self) -> None:
        if not self._heard or self.name == self.paths.first:
            super()._report()
            return
        least = self.arrays.least(self._heard.values())
        self.member.send(self.paths.parent[self.name], AckMessage(self.round, least))


class DoesNotWaitForItsSibling(StructuredTrain[int, Array]):
    """ACK2 from below is enough: what comes from the sibling before is lost."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._awaited = self.paths.children[self.name][-1:]


class DoesNotWaitForItsChildren(StructuredTrain[int, Array]):
    """ACK1 from the sibling is enough."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        elder = self.paths.elder.get(self.name)
        self._awaited = () if elder is None else (elder,)


MUTANTS: dict[str, tuple[str, type[Part[Any, Any]]]] = {
    "one_answer_short": ("coordp", OneAnswerShort),
    "any_answer_counts": ("coordp", AnyAnswerCounts),
    "old_rows_count": ("full_dist", OldRowsCount),
    "own_row_is_enough": ("full_dist", OwnRowIsEnough),
    "passed_on_as_it_came": ("train", PassedOnAsItCame),
    "any_train_is_this_one": ("train", AnyTrainIsThisOne),
    "one_child_is_enough": ("s_coordp", OneChildIsEnough),
    "only_for_the_children": ("s_coordp", OnlyForTheChildren),
    "does_not_wait_for_its_sibling": ("s_train", DoesNotWaitForItsSibling),
    "does_not_wait_for_its_children": ("s_train", DoesNotWaitForItsChildren),
}


def parts_of(mutant: type[Part[Any, Any]]) -> Parts:
    """The mutant in the place of its protocol."""
    return lambda name: mutant if issubclass(mutant, PROTOCOLS[name]) else PROTOCOLS[name]
