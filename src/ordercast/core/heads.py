"""Headers that pass a site before what they head (`tom`): their places are known, and held.

A header is forwarded at once and counted on its links; its batch enters the log when its body is
there, behind those before it. Retention holds both as one, from the header on. The Close of an
epoch seals a site by its header, so that nothing is placed behind it; the site has closed when all
before it is logged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ordercast.core.order.interface import Environment, Ordering
from ordercast.core.outbox import Headed, Passed
from ordercast.core.retention import Held
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.frames import Item


class HeadOrdering(Ordering, Protocol):
    """An ordering object on a tree whose headers travel without bodies."""

    def check_control(self, peer: Site, item: Item) -> None:
        """As `Ordering.check`, of such an item."""

    def control(self, peer: Site, item: Item) -> None:
        """An item on the lane CONTROL that is the protocol's own."""

    def flush(self, now: int) -> int:
        """The end of a burst, or the time that was asked for: when to be called next."""

    def note(self, record: Headed) -> None:
        """Replay, among the records in the order in which they were written."""

    def completes(self, record: Passed) -> bool:
        """Whether the record's header was noted before."""

    def heads(self) -> Sequence[Headed]:
        """Those that the state had which was restored."""

    def replayed(self) -> None:
        """All records are."""

    def early(self) -> int:
        """Bodies that are here before their headers."""


class HeadEnvironment(Environment, Protocol):
    """What a site does for such an object."""

    def headed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> Held:
        """A header passes. `filled` comes when it and all before it are complete."""

    def filled(self, held: Held, entry: Passed, *, mine: bool) -> None:
        """What was held since its header passed is complete, and passes."""

    def lost_control(self, peer: Site) -> Iterable[Item]:
        """What was on its way to the peer, on the lane CONTROL, when it started anew."""

    def submitted(self) -> Mapping[Site, Sequence[Batch]]:
        """This site's own batches that their ordering nodes have not placed, the oldest first."""
