"""`arrow_counting`: the counting counterpart of `arrow` ([SWAP] §3, §4), as a baseline.

The same path reversal queues the messages. A message waits at the sink for the number of its
predecessor. Its own number is one more. The sink multicasts the message with its number, and sends
the count on to the site that issued the message, which is the next sink of the queue. A concurrent
message waits for all messages before it, one hop for each; a lone message waits for nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.kept_states import ArrowCountingState, Ask
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Found, NumberKnown, Step, SwapObject, Tell, Unmarked
from ordercast.core.outbox import typed
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.tom import MessageName


class ArrowCounting(Unmarked):
    """State: the arrow; numbers of messages issued here that wait for a successor (the first sink
    begins with 0, which is no message's number); successors that wait for the number of such a
    message."""

    def __init__(self, site: Site, link: Site) -> None:
        self.site = site
        self.arrow = ArrowSwap(site, link)
        self._numbers: dict[MessageName, int] = {}
        if link == site:
            self._numbers[self.arrow.value] = 0
        self._successors: dict[MessageName, Ask] = {}

    def swap(self, ask: Ask) -> Sequence[Step]:
        return self._queue(ask, self.arrow.swap(ask))

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        return self._queue(ask, self.arrow.receive(peer, ask))

    def _queue(self, ask: Ask, steps: Sequence[Step]) -> Sequence[Step]:
        (step,) = steps
        if not isinstance(step, Found):
            return steps
        self._successors[step.after] = ask
        return self._count(step.after)

    def count(self, peer: Site, count: int) -> Sequence[Step]:  # noqa: ARG002
        return ()

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:  # noqa: ARG002
        self._numbers[name] = value
        return self._count(name)

    def _count(self, name: MessageName) -> Sequence[Step]:
        """Count on from this message, while a message has both number and successor here."""
        steps: list[Step] = []
        while name in self._numbers and name in self._successors:
            number, ask = self._numbers.pop(name) + 1, self._successors.pop(name)
            steps.append(NumberKnown(ask.batch, number))
            name = ask.last
            if ask.issuer == self.site:
                self._numbers[name] = number
            else:
                steps.append(Tell(ask.issuer, name, number))
        return steps

    def waiting(self) -> int:
        return 0

    def turn(self) -> Sequence[Step]:
        return ()

    def state(self, kept: Callable[[Batch], Batch]) -> ArrowCountingState:
        successors = [
            (name, replace(ask, batch=kept(ask.batch))) for name, ask in self._successors.items()
        ]
        return ArrowCountingState(
            link=self.arrow.link,
            value=self.arrow.value,
            numbers=tuple(self._numbers.items()),
            successors=tuple(successors),
        )

    def load(self, fields: dict[str, Any]) -> None:
        state = typed(fields, (ArrowCountingState,))
        self.arrow.take(state)
        self._numbers, self._successors = dict(state.numbers), dict(state.successors)


class CountingArrow(Reduction):
    def swap_object(self) -> SwapObject:
        return ArrowCounting(self.site, self.structure.parent(self.site) or self.site)
