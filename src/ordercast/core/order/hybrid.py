"""`hybrid`: a combining tree whose root is a set of sites that run `arrow` ([SWAP] §6.1).

Below the core requests combine as in `combining`. A site of the core combines the requests from
below with its own, and issues them as one request of `arrow` among the sites of the core. The value
of that request is its last message; the request carries its first message.

The core is the root of the forest's tree and the root's children. This star costs one hop more than
a single root, but there is no root that all requests must pass: while only one subtree sends, its
requests do not leave it. `hybrid:N` has a core of the N sites nearest to the root instead (by
depth, then by name). With N = 1 all requests go to the root, as in `combining`; with N = all sites
the arrow is everywhere. All sites of an epoch must have the same core, so its size is part of the
protocol's name, which the records of the voters' log tell.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.combining import PendingSwaps
from ordercast.core.order.interface import Environment
from ordercast.core.order.kept_states import Ask, CoreHybridState, HybridState
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Step, SwapObject, SwapSend, Uncounted
from ordercast.core.outbox import typed
from ordercast.core.structure import Structure
from ordercast.model.groups import Site
from ordercast.model.messages import Batch

CORE_DEPTH = 1
"""The sites down to this depth of the tree are the core of `hybrid`."""
MOST_CORE = 999_999
"""The largest N of `hybrid:N`."""


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
    """`core`: the number of sites of the core; 0: the root and its children."""

    def __init__(
        self,
        site: Site,
        structure: Structure,
        environment: Environment,
        *,
        causal: bool,
        core: int = 0,
    ) -> None:
        self._core_size = core
        super().__init__(site, structure, environment, causal=causal)

    def swap_object(self) -> SwapObject:
        parent = self.structure.parent(self.site)
        near = [self.site, *self.structure.children[self.site], *([parent] if parent else [])]
        return HybridSwap(self.site, parent, [site for site in near if self._in_core(site)])

    def _in_core(self, site: Site) -> bool:
        if not self._core_size:
            return self.structure.depth(site) <= CORE_DEPTH
        return site in self.structure.nearest_to_root(self.root, self._core_size)


def core_size(name: str) -> int | None:
    """N of `hybrid:N`; None if the name is another."""
    family, colon, size = name.partition(":")
    if family != "hybrid" or not colon or not (size.isascii() and size.isdigit()):
        return None
    written = int(size) if len(size) <= len(str(MOST_CORE)) else 0
    return written if 1 <= written <= MOST_CORE and size == str(written) else None
