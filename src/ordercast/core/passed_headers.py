"""Headers that pass a site before the bodies of their batches (`tom`): places are known, and held.

A header is forwarded at once, and has its number on the links. Its batch enters the log when its
body is there and all batches before it are logged. Retention holds both as one, from the header on.
The header of the Close seals a site: nothing is placed behind it. The site has closed when all
before the Close is logged.
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
        """As `Ordering.check`, for an item of `control`."""

    def control(self, peer: Site, item: Item) -> None:
        """Take an item of this protocol that came on the lane CONTROL."""

    def flush(self, now: int) -> int:
        """The burst ends, or the time asked for has come. Returns when to be called next."""

    def note(self, record: Headed) -> None:
        """Replay a header. Records are replayed in the order in which they were written."""

    def completes(self, record: Passed) -> bool:
        """Whether the record's header was noted before."""

    def heads(self) -> Sequence[Headed]:
        """The headers of the restored state."""

    def replayed(self) -> None:
        """All records are replayed."""

    def early(self) -> int:
        """How many bodies are here before their headers."""


class HeadEnvironment(Environment, Protocol):
    """The services of a site for such an object."""

    def headed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> Held:
        """A header passes. `filled` comes when it and all before it are complete."""

    def filled(self, held: Held, entry: Passed, *, mine: bool) -> None:
        """A batch whose header has passed is complete, and passes now."""

    def lost_control(self, peer: Site) -> Iterable[Item]:
        """The items that were on their way to the peer, on the lane CONTROL, when it restarted."""

    def submitted(self) -> Mapping[Site, Sequence[Batch]]:
        """This site's own batches that have no place yet, by the site that orders them."""
