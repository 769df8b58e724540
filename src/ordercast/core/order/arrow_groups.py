"""Arrow groups in place of lower nodes of a combining tree ([SWAP] §6.1): a site of such a group.

The group's sites run `arrow` among themselves. A site combines its own requests with those from
below it, and issues them as one request of that arrow. The group hands up one request for a chain
of messages, as a node of the tree does for all that met there: its first message and its last.
Both are found with marks, which the group's top (the site nearest to the root) puts into the arrow
as if they were messages. The first request behind a mark ends at the top. Then the top issues the
next mark. It ends where the last message before it was issued, and that message's name comes back
from parent to parent.

One chain is open at a time; what comes meanwhile is the next chain. So chains go up in order. Why
it holds: docs/swap.md.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.combining import PendingSwaps
from ordercast.core.order.kept_states import Ask, GroupState
from ordercast.core.order.swaps import (
    Found,
    SendMark,
    Step,
    SwapSend,
    TellMark,
    Uncounted,
)
from ordercast.core.outbox import typed
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.swap import NOBODY, ChainMark, MarkValue
from ordercast.wire.tom import MessageName


class GroupSwap(Uncounted):
    """State: requests that wait; the arrow, in which NOBODY is the name of every mark. At the top:
    the first request behind the last mark (`begun`); the first of the chain whose last message is
    sought (`open`); the number of marks. Elsewhere `mark`: the mark that has passed here and was
    not answered; 0: none. `group`: the neighbours in the same group."""

    def __init__(self, site: Site, parent: Site, group: Collection[Site]) -> None:
        self.site = site
        self.parent = parent
        self._group = group
        self._top = parent not in group
        self._arrow = ArrowSwap(site, site if self._top else parent)
        self._gathered = PendingSwaps()
        self._begun: Ask | None = None
        self._open: Ask | None = None
        self._mark = 0

    def swap(self, ask: Ask) -> Sequence[Step]:
        self._gathered.add(ask)
        return ()

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        if peer in self._group:
            return self._placed(ask, self._arrow.receive(peer, ask))
        return self.swap(ask)

    def _placed(self, ask: Ask, steps: Sequence[Step]) -> Sequence[Step]:
        """Behind a mark, which is at the top, a request begins a chain."""
        (step,) = steps
        if isinstance(step, Found) and step.after == NOBODY:
            self._begun = ask
            return ()
        return steps

    def waiting(self) -> int:
        return len(self._gathered) + int(self._begun is not None and self._open is None)

    def turn(self) -> Sequence[Step]:
        steps: list[Step] = []
        if self._gathered:
            ask, found = self._gathered.combine()
            steps += [*found, *self._placed(ask, self._arrow.swap(ask))]
        if self._begun is not None and self._open is None:
            self._open, self._begun = self._begun, None
            self._mark += 1
            to, before = self._arrow.issue(NOBODY)
            if to == self.site:
                steps += self._close(before)
            else:
                steps.append(SendMark(to, self._mark))
        return steps

    def _close(self, last: MessageName) -> Sequence[Step]:
        """The open chain ends with this message: it goes up as one request."""
        chain, self._open = self._open, None
        return () if chain is None else (SwapSend(self.parent, replace(chain, last=last)),)

    # --- marks ------------------------------------------------------------------------------------

    def check_mark(self, peer: Site, item: ChainMark | MarkValue) -> None:
        if peer not in self._group:
            raise PeerMistake("it speaks of a mark and is no neighbour in the arrow group")
        if isinstance(item, ChainMark):
            if peer != self.parent:
                raise PeerMistake("a mark from below: only the top of an arrow group issues marks")
            if self._mark or self._arrow.link == peer:
                raise PeerMistake("a mark where none can pass")
        elif peer == self.parent:
            raise PeerMistake("it answers a mark from above")
        elif item.mark != self._mark or (self._top and self._open is None):
            raise PeerMistake(f"it answers mark {item.mark}, which is not open")

    def marked(self, peer: Site, mark: int) -> Sequence[Step]:
        to, value = self._arrow.turn_to(peer)
        if to == self.site:
            return (TellMark(peer, mark, value),)
        self._mark = mark
        return (SendMark(to, mark),)

    def mark_told(self, peer: Site, mark: int, last: MessageName) -> Sequence[Step]:  # noqa: ARG002
        if self._top:
            return self._close(last)
        self._mark = 0
        return (TellMark(self.parent, mark, last),)

    # --- what survives a restart ------------------------------------------------------------------

    def state(self, kept: Callable[[Batch], Batch]) -> GroupState:
        def slim(ask: Ask | None) -> Ask | None:
            return None if ask is None else replace(ask, batch=kept(ask.batch))

        return GroupState(
            link=self._arrow.link,
            value=self._arrow.value,
            gathered=self._gathered.state(kept),
            begun=slim(self._begun),
            open=slim(self._open),
            mark=self._mark,
        )

    def load(self, fields: dict[str, Any]) -> None:
        state = typed(fields, (GroupState,))
        self._arrow.take(state)
        self._gathered.load(state.gathered)
        self._begun, self._open, self._mark = state.begun, state.open, state.mark
