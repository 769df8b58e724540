"""What clients of a daemon ask for is told to nobody before it is durable (docs/core.md).

Under `exclude` relays leave before the disk has them. A client repeats what a killed daemon has not
told it of; what nobody stored would then go out again, under another number. So the burst in which
such a request was accepted relays nothing before it is stored, whatever its frames carry; and what
later bursts relay stays behind that, so that lanes are in order.
"""

from ordercast.model.groups import Site
from ordercast.wire.epochs import SiteFrame

Sends = list[tuple[Site, SiteFrame]]

MEMBER: tuple[int, Site] = (0, "")
"""Stands among what a box has `counted` for the fence; epochs begin at 1."""


class Fence:
    """State: whether a request was accepted in this burst; earlier bursts that are not stored."""

    def __init__(self) -> None:
        self._accepted = False
        self._unstored = 0  # that accepted requests, or whose relays wait

    def accepted(self) -> None:
        """A batch of a client's requests, with this burst's records. It may be relayed later, in
        another epoch too: also then not before they are durable."""
        self._accepted = True

    def end(self, send: Sends, late: Sends, counted: list[tuple[int, Site]]) -> tuple[Sends, Sends]:
        """Of a burst: what leaves at once, and what leaves when it is durable."""
        if not (self._accepted or (self._unstored and send)):
            return send, late
        self._accepted = False
        self._unstored += 1
        counted.append(MEMBER)
        return [], [*send, *late]

    def stored(self) -> None:
        """One more of these bursts is durable, and what waited for that has left."""
        self._unstored -= 1
