"""Headers that pass a site before what they head (`tom`): their places are known, and held.

A header is forwarded at once and counted on its links; its batch enters the log when its body is
there, behind those before it. Retention holds both as one, from the header on. The Close of an
epoch seals a site by its header, so that nothing is placed behind it; the site has closed when all
before it is logged.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ordercast.core.lanes import Outgoing
from ordercast.core.order.interface import CLOSING, Environment, Ordering
from ordercast.core.outbox import Headed, Passed
from ordercast.core.retention import Held
from ordercast.model.groups import Site as SiteName
from ordercast.model.messages import Batch
from ordercast.wire.frames import DOWN, UP, Item, Submit

if TYPE_CHECKING:
    from ordercast.core.epochs.engine import Engine
    from ordercast.core.site import Site

__all__ = ["HeadEnvironment", "HeadOrdering", "Heads", "Held"]


class HeadOrdering(Ordering, Protocol):
    """An ordering object on a tree whose headers travel without bodies."""

    def check_control(self, peer: SiteName, item: Item) -> None:
        """As `Ordering.check`, of such an item."""

    def control(self, peer: SiteName, item: Item) -> None:
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


class Heads:
    """What a site does for such an object beside `Environment`."""

    def __init__(self, site: "Site") -> None:
        self._site = site
        self.ahead = 0  # messages for this site whose headers have passed, and that are not logged
        self._completes = False  # what passes next is held already, since its header passed

    def headed(self, entry: Passed, children: Sequence[SiteName], *, mine: bool) -> Held:
        """A header passes; `Site.passed` comes when it and all before it are complete."""
        site, batch = self._site, entry.placed.batch
        if batch.incarnation == CLOSING:
            held = cast("Engine", site).hold_close(entry, children)
        else:
            if mine:
                self.ahead += batch.count
            held = site.retention.hold(
                entry, self.owed(children), site.gate.logged + self.ahead if mine else 0
            )
            if not entry.from_parent and batch.members:
                site.stability.concerns(batch.group, batch.members)
        held.pending = True
        return held

    def filled(self, held: Held, entry: Passed, *, mine: bool) -> None:
        held.entry, held.pending = entry, False
        batch = entry.placed.batch
        if mine and batch.incarnation != CLOSING:
            self.ahead -= batch.count
        self._completes = True
        self._site.passed(entry, (), mine=mine)

    def were_held(self) -> bool:
        """Whether what passes now is held since its header passed; asked once."""
        completes, self._completes = self._completes, False
        return completes

    def owed(self, children: Sequence[SiteName]) -> list[tuple[Outgoing, int, SiteName]]:
        """Under which number each child gets what was last sent to it."""
        links = self._site.links
        return [(out := links[child].outgoing[DOWN], out.last, child) for child in children]

    def lost(self, peer: SiteName) -> Iterable[Item]:
        """What was on its way to the peer, on the lane CONTROL, when it started anew."""
        return self._site.links[peer].lost

    def unplaced(self) -> dict[SiteName, list[Batch]]:
        """This site's own batches that their ordering nodes have not placed, the oldest first."""
        found: dict[SiteName, list[Batch]] = {}
        for peer, link in self._site.links.items():
            batches = [i.batch for i in link.outgoing[UP].items if type(i) is Submit]
            if batches:
                found[peer] = batches
        return found


class HeadEnvironment(Environment, Protocol):
    @property
    def heads(self) -> Heads: ...
