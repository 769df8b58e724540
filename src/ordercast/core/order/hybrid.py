"""`hybrid`: a combining tree whose root is a set of sites that run `arrow` ([SWAP] §6.1).

Below the core requests combine as in `combining`. A site of the core combines the requests from
below with its own, and issues them as one request of `arrow` among the sites of the core. The value
of that request is its last message; the request carries its first message.

The core is the root of the forest's tree and the root's children. This star costs one hop more than
a single root. But no request must pass a root: while only one subtree sends, its requests do not
leave it. `hybrid:N` has a core of the N sites nearest to the root instead (by depth, then by name).
With N = 1 all requests go to the root, as in `combining`; with N = all sites the arrow is
everywhere. All sites of an epoch must have the same core, so its size is part of the protocol's
name, which the records of the voters' log tell.

`hybrid:N:M` has arrow groups of at most M sites below the core, each in place of one node of the
combining tree (`GroupSwap`). A group of one site is such a node.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.arrow_groups import GroupSwap
from ordercast.core.order.combining import PendingSwaps
from ordercast.core.order.interface import Environment
from ordercast.core.order.kept_states import Ask, CoreHybridState, HybridState
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Step, SwapObject, SwapSend, Uncounted
from ordercast.core.outbox import typed
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.frames import Item
from ordercast.wire.swap import Swap

CORE_DEPTH = 1
"""The sites down to this depth of the tree are the core of `hybrid`."""
MOST_SITES = 999_999
"""The largest N, and the largest M, of `hybrid:N` and `hybrid:N:M`."""


class HybridSwap(Uncounted):
    """State: requests that wait; in the core, the arrow. `core`: those of this site and its
    neighbours that are in the core."""

    def __init__(self, site: Site, parent: Site | None, core: Sequence[Site]) -> None:
        self.site = site
        self.parent = parent
        self._core = core
        self._arrow = ArrowSwap(site, parent or site) if site in core else None
        self._gathered = PendingSwaps()

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
    """`core`: the number of sites of the core; 0: the root and its children. `group`: the most
    sites of a group below a core of `core` sites."""

    def __init__(
        self,
        site: Site,
        structure: Structure,
        environment: Environment,
        *,
        causal: bool,
        core: int = 0,
        group: int = 1,
    ) -> None:
        self._core_size = core
        self._group_size = group
        self._asked_from_above = False  # whether the parent is in the core, or the group, too
        super().__init__(site, structure, environment, causal=causal)

    def swap_object(self) -> SwapObject:
        parent = self.structure.parent(self.site)
        near = [self.site, *self.structure.children[self.site], *([parent] if parent else [])]
        self._asked_from_above = parent is not None and self._in_core(self.site)
        if parent is not None and self._group_size > 1 and not self._in_core(self.site):
            tops = self.structure.tops_below(self.root, self._core_size, self._group_size)
            group = [peer for peer in near[1:] if tops.get(peer) == tops[self.site]]
            self._asked_from_above = parent in group
            if group:
                return GroupSwap(self.site, parent, group)
        return HybridSwap(self.site, parent, [site for site in near if self._in_core(site)])

    def check(self, peer: Site, item: Item) -> None:
        from_above = isinstance(item, Swap) and peer == self.structure.parent(self.site)
        if from_above and not self._asked_from_above:
            raise PeerMistake("it sends a request down to a site that is not of its group")
        super().check(peer, item)

    def _in_core(self, site: Site) -> bool:
        if not self._core_size:
            return self.structure.depth(site) <= CORE_DEPTH
        return site in self.structure.nearest_to_root(self.root, self._core_size)


def sizes_in(name: str) -> tuple[int, ...] | None:
    """N of `hybrid:N`, N and M of `hybrid:N:M`; None if the name is another."""
    family, *sizes = name.split(":", 3)
    if family != "hybrid" or len(sizes) not in (1, 2):
        return None
    found = tuple(map(_size, sizes))
    return found if all(found) else None


def _size(text: str) -> int:
    """0 if the text is no number of sites."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST_SITES)):
        return 0
    return int(text) if text == str(int(text)) else 0
