"""`hybrid`: a combining tree whose root is a set of sites that run `arrow` ([SWAP] §6.1).

Below the core requests combine as in `combining`. A site of the core combines the requests from
below with its own, and issues them as one request of `arrow` among the sites of the core. The value
of that request is its last message; the request carries its first message.

The core is the root of the forest's tree and the root's children. This star costs one hop more than
a single root, but there is no root that all requests must pass: while only one subtree sends, its
requests do not leave it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.combining import PendingSwaps
from ordercast.core.order.kept_states import Ask, CoreHybridState, HybridState
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Step, SwapObject, SwapSend, Uncounted
from ordercast.core.outbox import typed
from ordercast.model.groups import Site
from ordercast.model.messages import Batch

CORE_DEPTH = 1
"""The sites down to this depth of the tree are the core."""


class HybridSwap(Uncounted):
    """State: requests that wait; in the core, the arrow. `core`: those of this site and its
    neighbours that are in the core."""

    def __init__(self, site: Site, parent: Site | None, core: Sequence[Site]) -> None:
        self.site = site
        self.parent = parent
        self._core = core
        self._arrow = ArrowSwap(site, parent or site) if site in core else None
        self._gathered = PendingSwaps()

    @property
    def arrow(self) -> ArrowSwap | None:
        return self._arrow

    def swap(self, ask: Ask) -> Sequence[Step]:
        self._gathered.add(ask)
        return ()

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        if self._arrow is not None and peer in self._core:
            return self._arrow.receive(peer, ask)
        return self.swap(ask)

    def waiting(self) -> int:
        return len(self._gathered)

    def turn(self) -> Sequence[Step]:
        if not self._gathered:
            return ()
        ask, found = self._gathered.combine()
        if self._arrow is not None:
            return (*found, *self._arrow.swap(ask))
        return (*found, SwapSend(self.parent or self.site, ask))

    def state(self, kept: Callable[[Batch], Batch]) -> HybridState | CoreHybridState:
        gathered, arrow = self._gathered.state(kept), self._arrow
        if arrow is None:
            return HybridState(gathered=gathered)
        return CoreHybridState(link=arrow.link, value=arrow.value, gathered=gathered)

    def load(self, fields: dict[str, Any]) -> None:
        kinds: tuple[type[HybridState | CoreHybridState], ...] = (HybridState, CoreHybridState)
        state = typed(fields, kinds)
        if self._arrow is not None and isinstance(state, CoreHybridState):
            self._arrow.take(state)
        self._gathered.load(state.gathered)


class Hybrid(Reduction):
    def swap_object(self) -> SwapObject:
        depth, parent = self.structure.depth, self.structure.parent(self.site)
        near = [self.site, *self.structure.children[self.site], *([parent] if parent else [])]
        core = [site for site in near if depth(site) <= CORE_DEPTH]
        return HybridSwap(self.site, parent, core)
