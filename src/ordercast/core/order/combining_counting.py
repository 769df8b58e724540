"""`combining_counting`: the counting counterpart of `combining` ([SWAP] §3, §5), as a baseline.

A site asks its parent for as many numbers as requests have met at the site. The root gives
consecutive numbers. They are shared out on the way back, to the earlier request first. A message
has its number only after the whole way to the root and back; then its origin multicasts it. A site
that has asked is locked until the answer comes: later requests wait, and go up together next.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ordercast.core.order.kept_states import Ask, CombiningCountingState, Share
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import NumberKnown, SendCount, Step, SwapObject, Tell, Unmarked
from ordercast.core.outbox import typed
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.swap import NOBODY
from ordercast.wire.tom import MessageName


class CombiningCounting(Unmarked):
    """State: requests that wait; requests for which the parent was asked; at the root the count."""

    def __init__(self, site: Site, parent: Site | None) -> None:
        self.site = site
        self.parent = parent
        self._given = 0
        self._gathered: list[Share] = []
        self._asked: list[Share] = []  # if not empty, the site is locked

    def swap(self, ask: Ask) -> Sequence[Step]:
        return self._take((self.site, 1, ask.batch))

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:  # noqa: ARG002
        return ()

    def count(self, peer: Site, count: int) -> Sequence[Step]:
        return self._take((peer, count, None))

    def _take(self, share: Share) -> Sequence[Step]:
        if self.parent is None:
            first, self._given = self._given + 1, self._given + share[1]
            return self._share_out([share], first)
        self._gathered.append(share)
        return ()

    def _share_out(self, shares: Sequence[Share], first: int) -> Sequence[Step]:
        steps: list[Step] = []
        for site, count, batch in shares:
            if batch is None:
                steps.append(Tell(site, NOBODY, first))
            else:
                steps.append(NumberKnown(batch, first))
            first += count
        return steps

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:  # noqa: ARG002
        shares, self._asked = self._asked, []
        return self._share_out(shares, value)

    def waiting(self) -> int:
        return 0 if self._asked else len(self._gathered)

    def turn(self) -> Sequence[Step]:
        if self.parent is None or self._asked or not self._gathered:
            return ()
        self._asked, self._gathered = self._gathered, []
        return (SendCount(self.parent, sum(count for _, count, _ in self._asked)),)

    def state(self, kept: Callable[[Batch], Batch]) -> CombiningCountingState:
        def shares(of: Sequence[Share]) -> tuple[Share, ...]:
            return tuple((s, n, None if batch is None else kept(batch)) for s, n, batch in of)

        return CombiningCountingState(
            given=self._given, gathered=shares(self._gathered), asked=shares(self._asked)
        )

    def load(self, fields: dict[str, Any]) -> None:
        state = typed(fields, (CombiningCountingState,))
        self._given = state.given
        self._gathered, self._asked = list(state.gathered), list(state.asked)


class CountingCombining(Reduction):
    def swap_object(self) -> SwapObject:
        return CombiningCounting(self.site, self.structure.parent(self.site))
