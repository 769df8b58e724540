"""`combining`: requests combine on their way to the root ([SWAP] §5, Figures 6–9).

Requests that meet at a site go on as one, from the first message of the first to the last of the
last; each of the others has found its predecessor there, the last message of the one before it.
What reaches the root follows what reached it before. So most messages are placed half way, and
the root hears of many as of one.

The earlier request goes first, or messages of one origin lose their order; and "meet" needs a rule
for how long a request waits: `hold` from when the first came, 0 for no longer than the burst in
which it came (errata SWAP-5).
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Ask, Found, Step, SwapObject, SwapSend, Uncounted
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
        """All of them as one, and whose predecessors show by it."""
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


class CombiningState(Struct, frozen=True, kw_only=True):
    value: MessageName
    gathered: tuple[Ask, ...]


class CombiningSwap(Uncounted):
    """State: requests that wait; at the root (which has no parent) the object's value."""

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
        if self.parent is None:  # it has become the root meanwhile
            return (self._place(ask), *found)
        return (*found, SwapSend(self.parent, ask))

    # --- neighbours that come and go (`swap_tree`) ------------------------------------------------

    def heir(self, neighbours: Sequence[Site]) -> Site:
        return self.parent or neighbours[0]

    def handover(self) -> MessageName | None:
        return self.value if self.parent is None else None

    def neighbour_left(self, gone: Site, heir: Site, value: MessageName | None) -> None:
        if self.parent != gone:
            return
        self.parent = heir
        if value is not None:  # of the root, whose heir this site is
            self.parent, self.value = None, value

    def state(self, kept: Callable[[Batch], Batch]) -> CombiningState:
        return CombiningState(value=self.value, gathered=self._gathered.state(kept))

    def load(self, packed: Any) -> None:
        state = typed(packed, (CombiningState,))
        self.value = state.value
        self._gathered.load(state.gathered)


class Combining(Reduction):
    def swap_object(self) -> SwapObject:
        return CombiningSwap(self.site, self.structure.parent(self.site))
