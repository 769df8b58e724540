"""Questions to members of groups that are asked again, of another member each time, until one
answers. All callers that ask the same at the same time wait for one question."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ordercast.core.epochs.member import Member
from ordercast.model.errors import Error, UnknownGroup
from ordercast.model.groups import Site

AGAIN_S = 0.5  # after this time another member is asked

_RUN_BITS = 61  # of the number that the questions of a run begin with

Topic = TypeVar("Topic")
Answer = TypeVar("Answer")


class _Round(Generic[Answer]):
    """A question that is open: its first number, and the callers that wait for its answer. All of
    them asked before that number was sent."""

    def __init__(self, first: int, waiting: "list[asyncio.Future[Answer]]") -> None:
        self.first = self.last = first
        self.waiting = waiting
        self.timer: asyncio.TimerHandle | None = None


class Questions(Generic[Topic, Answer]):
    """State: for each topic the round that is open, and the callers that wait for the next one.
    `put` sends a question with its number; `gone` says that no member can answer any more, or
    nothing."""

    def __init__(self, put: Callable[[Topic, int], None], gone: Callable[[Topic], str]) -> None:
        self._put_one = put
        self._gone = gone
        self.number = secrets.randbits(_RUN_BITS)  # answers to an earlier run do not fit
        self.rounds: dict[Topic, _Round[Answer]] = {}
        self._next: dict[Topic, list[asyncio.Future[Answer]]] = {}
        self._why_not = ""  # why nothing is asked any more

    def close(self, why: str) -> None:
        self._why_not = why
        waiting = [each for some in self._next.values() for each in some]
        for one in self.rounds.values():
            waiting += one.waiting
            if one.timer is not None:
                one.timer.cancel()
        self.rounds.clear()
        self._next.clear()
        for each in waiting:
            if not each.done():
                each.set_exception(Error(why))

    async def ask(self, topic: Topic) -> Answer:
        """The answer to a question that is sent after this call. Raises UnknownGroup if no member
        can answer any more; Error (the site is closed)."""
        if self._why_not:
            raise Error(self._why_not)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._next.setdefault(topic, []).append(answer)
        self._begin(topic)
        return await answer

    def begin(self, topic: Topic) -> None:
        """Ask, unless a question is open. Nobody waits for the answer."""
        if topic not in self.rounds and not self._why_not:
            self._next.setdefault(topic, [])
            self._begin(topic)

    def answered(self, topic: Topic, question: int, answer: Answer) -> bool:
        """False: it is an answer to an earlier question, or to none."""
        one = self.rounds.get(topic)
        if one is None or not one.first <= question <= one.last:
            return False
        if one.timer is not None:
            one.timer.cancel()
        del self.rounds[topic]
        for each in one.waiting:
            if not each.done():
                each.set_result(answer)
        self._begin(topic)
        return True

    def _begin(self, topic: Topic) -> None:
        if topic not in self.rounds and topic in self._next:
            self.number += 1
            self.rounds[topic] = _Round(self.number, self._next.pop(topic))
            self._put(topic)

    def _put(self, topic: Topic) -> None:
        one = self.rounds[topic]
        self._put_one(topic, one.last)
        one.timer = asyncio.get_running_loop().call_later(AGAIN_S, self._again, topic)

    def _again(self, topic: Topic) -> None:
        one = self.rounds[topic]
        if not any(not each.done() for each in one.waiting) and topic not in self._next:
            del self.rounds[topic]  # nobody waits
            return
        if why := self._gone(topic):
            del self.rounds[topic]
            for each in (*one.waiting, *self._next.pop(topic, ())):
                if not each.done():
                    each.set_exception(UnknownGroup(why))
            return
        self.number += 1
        one.last = self.number
        self._put(topic)


def member_to_ask(core: Member, members: Sequence[Site], question: int) -> Site | None:
    """The member that is asked this question: each question goes to the next one that may answer.
    None: there is no such member."""
    there = [site for site in members if site not in core.layout.absent and site != core.name]
    return there[question % len(there)] if there else None
