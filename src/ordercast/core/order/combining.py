"""`combining`: requests combine on their way to the root ([SWAP] §5, Figures 6–9).

Requests that meet at a site go on as one request, from the first message of the first request to
the last message of the last. Every other request has found its predecessor there: the last message
of the request before it. A request that reaches the root follows the one that came there before.
So most messages are placed half way, and the root hears of many messages as of one.

The earlier request goes first; otherwise messages of one origin would lose their order. "Meet"
needs a rule for how long a request waits: for `hold` after the first one came. With a `hold` of 0
it waits only for the end of the burst in which it came (errata SWAP-5).
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ordercast.core.order.kept_states import Ask, CombiningState
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Found, Step, SwapObject, SwapSend, Uncounted
from ordercast.core.outbox import typed
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.swap import NOBODY
from ordercast.wire.tom import MessageName


class PendingSwaps:
    """Requests that wait at a site, the earliest first."""

    def __init__(self) -> None:
        self._asks: list[Ask] = []

    def add(self, ask: Ask) -> None:
        self._asks.append(ask)

    def __len__(self) -> int:
        return len(self._asks)

    def combine(self) -> tuple[Ask, list[Found]]:
        """All requests as one, and the predecessors that are found by combining them."""
        first, *rest = self._asks
        self._asks = []
        last, found = first.last, []
        for ask in rest:
            found.append(Found(ask.batch, last))
            last = ask.last
        return replace(first, last=last), found

    def state(self, kept: Callable[[Batch], Batch]) -> tuple[Ask, ...]:
        return tuple(replace(ask, batch=kept(ask.batch)) for ask in self._asks)

    def load(self, asks: Sequence[Ask]) -> None:
        self._asks = list(asks)


class CombiningSwap(Uncounted):
    """State: requests that wait; at the root (which has no parent) the value of the object."""

    def __init__(self, site: Site, parent: Site | None) -> None:
        self.site = site
        self.parent = parent
        self.value: MessageName = NOBODY
        self._gathered = PendingSwaps()

    def swap(self, ask: Ask) -> Sequence[Step]:
        return self.receive(self.site, ask)

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:  # noqa: ARG002
        if self.parent is None and not self._gathered:
            return (self._place(ask),)
        self._gathered.add(ask)
        return ()

    def _place(self, ask: Ask) -> Step:
        before, self.value = self.value, ask.last
        return Found(ask.batch, before)

    def waiting(self) -> int:
        return len(self._gathered)

    def turn(self) -> Sequence[Step]:
        if not self._gathered:
            return ()
        ask, found = self._gathered.combine()
        if self.parent is None:  # this site has become the root meanwhile
            return (self._place(ask), *found)
        return (*found, SwapSend(self.parent, ask))

    # --- neighbours that come and go ([SWAP] §6.2) ------------------------------------------------

    def heir(self, neighbours: Sequence[Site]) -> Site:
        return self.parent or neighbours[0]

    def handover(self) -> MessageName | None:
        return self.value if self.parent is None else None

    def neighbour_left(self, gone: Site, heir: Site, value: MessageName | None) -> None:
        if self.parent != gone:
            return
        self.parent = heir
        if value is not None:  # the parent was the root, and this site is its heir
            self.parent, self.value = None, value

    def state(self, kept: Callable[[Batch], Batch]) -> CombiningState:
        return CombiningState(value=self.value, gathered=self._gathered.state(kept))

    def load(self, fields: dict[str, Any]) -> None:
        state = typed(fields, (CombiningState,))
        self.value = state.value
        self._gathered.load(state.gathered)


class Combining(Reduction):
    def swap_object(self) -> SwapObject:
        return CombiningSwap(self.site, self.structure.parent(self.site))
