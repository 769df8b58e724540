"""`arrow`: path reversal finds the predecessor ([SWAP] §4, Figures 1–5).

Every site of a tree points to a neighbour or to itself. A site that points to itself is a sink: it
knows the last message that was issued there. A request follows the arrows, and turns each arrow to
point back to where it came from. At a sink it has found its predecessor. A tree edge holds one
arrow or one request under way, never both. So whatever passes a site after the site has issued m
comes after m: messages of one origin keep their order although they reach different sinks.

A sink that issues a request reads its old value first. As the paper prints it, the message would be
its own predecessor (errata SWAP-1).
"""

from collections.abc import Callable, Sequence
from typing import Any

from ordercast.core.order.kept_states import ArrowState, Ask
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Found, Step, SwapObject, SwapSend, Uncounted
from ordercast.core.outbox import typed
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.swap import NOBODY
from ordercast.wire.tom import MessageName


class ArrowSwap(Uncounted):
    """State: `link`, a neighbour or the site itself; `value`, which matters only at a sink."""

    def __init__(self, site: Site, link: Site) -> None:
        self.site = site
        self.link = link
        self.value: MessageName = NOBODY

    @property
    def is_sink(self) -> bool:
        return self.link == self.site

    def swap(self, ask: Ask) -> Sequence[Step]:
        return (self._step(ask, *self.issue(ask.last)),)

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        return (self._step(ask, *self.turn_to(peer)),)

    def issue(self, last: MessageName) -> tuple[Site, MessageName]:
        """Where a request of this site goes, and the value before it if that is here."""
        to, before = self.link, self.value
        self.link, self.value = self.site, last
        return to, before

    def turn_to(self, peer: Site) -> tuple[Site, MessageName]:
        """Where a request of this neighbour goes on, and the value if that is here."""
        to, self.link = self.link, peer
        return to, self.value

    def _step(self, ask: Ask, to: Site, value: MessageName) -> Step:
        return Found(ask.batch, value) if to == self.site else SwapSend(to, ask)

    # --- neighbours that come and go ([SWAP] §6.2) ------------------------------------------------

    def heir(self, neighbours: Sequence[Site]) -> Site:
        return neighbours[0] if self.is_sink else self.link

    def handover(self) -> MessageName | None:
        return self.value if self.is_sink else None

    def neighbour_left(self, gone: Site, heir: Site, value: MessageName | None) -> None:
        if self.link != gone:
            return
        self.link = heir
        if value is not None:  # the neighbour was a sink, and this site is its heir
            self.value = value

    # --- no request waits here --------------------------------------------------------------------

    def waiting(self) -> int:
        return 0

    def turn(self) -> Sequence[Step]:
        return ()

    def state(self, kept: Callable[[Batch], Batch]) -> ArrowState:  # noqa: ARG002
        return ArrowState(link=self.link, value=self.value)

    def load(self, fields: dict[str, Any]) -> None:
        self.take(typed(fields, (ArrowState,)))

    def take(self, state: ArrowState) -> None:
        self.link, self.value = state.link, state.value


class Arrow(Reduction):
    """At first all arrows point up the tree of the forest: the root is the sink."""

    def swap_object(self) -> SwapObject:
        return ArrowSwap(self.site, self.structure.parent(self.site) or self.site)
