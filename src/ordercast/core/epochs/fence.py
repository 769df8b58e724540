"""What clients of a daemon ask for is told to nobody before it is durable (docs/core.md).

Under `exclude` relays leave before the disk has them. A client repeats what a killed daemon has not
told it of; what nobody stored would then go out again, under another number. So the burst in which
such a request was accepted relays nothing before it is stored, whatever its frames carry; and what
later bursts relay stays behind that, so that lanes are in order.
"""

from ordercast.core.epochs.records import MemberBox
from ordercast.model.groups import Site

MEMBER: tuple[int, Site] = (0, "")
"""Stands among what a box has `counted` for the fence; epochs begin at 1."""


class Fence:
    """State: whether a request was accepted in this burst; earlier bursts that are not stored.
    `waits`: there is something of either."""

    def __init__(self) -> None:
        self.waits = False
        self._accepted = False
        self._unstored = 0  # that accepted requests, or whose relays wait

    def accepted(self) -> None:
        """A batch of a client's requests, with this burst's records. It may be relayed later, in
        another epoch too: also then not before they are durable."""
        self._accepted = self.waits = True

    def end(self, box: MemberBox) -> None:
        """Of a burst: let what must wait leave when the burst is durable, not at once."""
        if self._accepted or box.send:
            self._accepted = False
            self._unstored += 1
            box.counted = [*box.counted, MEMBER]
            box.send, box.then_send = [], [*box.send, *box.then_send]

    def stored(self) -> None:
        """One more of these bursts is durable, and what waited for that has left."""
        self._unstored -= 1
        self.waits = self._accepted or self._unstored > 0
