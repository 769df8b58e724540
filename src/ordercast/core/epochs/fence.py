"""Requests of a daemon's clients leave the site only when they are durable; and what is sent in an
epoch, only when the site has stored that the epoch is open (docs/core.md).

Under `exclude` relays and submissions leave before the disk has them. A client repeats a request
that a killed daemon has not confirmed. If it was relayed and not stored, it would then go out
again, under another seq. So a burst that accepts a request, or opens an epoch, relays and submits
nothing before it is durable, whatever its frames carry. The relays of later bursts wait too, so
that lanes are in order.
"""

from ordercast.core.epochs.records import MemberBox
from ordercast.model.groups import Site

MEMBER: tuple[int, Site] = (0, "")
"""The fence's entry among the `counted` of a box. Epochs begin at 1."""


class Fence:
    """State: whether this burst must wait; how many earlier bursts that wait are not durable.
    `waits`: one of these is the case."""

    def __init__(self) -> None:
        self.waits = False
        self._raised = False
        self._unstored = 0  # bursts that raised it, or whose relays wait

    def up(self) -> None:
        """This burst accepts a client's request, or opens an epoch. The batch may be relayed later,
        even in another epoch, but not before the burst is durable."""
        self._raised = self.waits = True

    def end(self, box: MemberBox) -> None:
        """The burst ends: if its relays must wait, they leave when it is durable."""
        if self._raised or box.send:
            self._raised = False
            self._unstored += 1
            box.counted = [*box.counted, MEMBER]
            box.then_send = [*box.send, *box.then_send]
            box.send = []

    def stored(self) -> None:
        """One of these bursts is durable, and its relays have left."""
        self._unstored -= 1
        self.waits = self._raised or self._unstored > 0
