"""What a driver notes while it runs a world, if somebody wants a trace: frames, faults, Closes.

Noting changes nothing in the run: the same seed gives the same history with and without it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ordercast.core.epochs.records import Kept, MemberBox
from ordercast.core.order.interface import CLOSING
from ordercast.core.structure import Structure
from ordercast.model.groups import Site
from ordercast.sim.injections import Injection

MOST_FRAMES = 1_000_000


class LoggedFrame(NamedTuple):
    """A frame as it left. `arrives` is negative if it was lost on the way."""

    sent: int
    source: Site
    peer: Site
    arrives: int
    frame: Any


class FrameLog:
    """`unlogged`: how many frames came after the last one that is kept."""

    def __init__(self, most: int = MOST_FRAMES) -> None:
        self.frames: list[LoggedFrame] = []
        self.unlogged = 0
        self.injections: list[tuple[int, Injection]] = []
        self.closes: list[tuple[int, Site, int]] = []
        self.calm_at = 0
        self.structures: dict[int, Structure] = {}  # of each epoch
        self._most = most
        self._shared: dict[int, tuple[int, Any]] = {}  # frames that a way took, by identity

    def carried(
        self, now: int, source: Site, peer: Site, frame: Any, arrivals: Sequence[int]
    ) -> None:
        """A frame that arrives several times is doubled, one that does not arrive is lost."""
        if len(self.frames) >= self._most:
            self.unlogged += 1
            return
        for at in arrivals or (-1,):
            self.frames.append(LoggedFrame(now, source, peer, at, frame))

    def shared(self, now: int, frame: Any) -> None:
        """A way to many takes the frame; it arrives when the way hands it up."""
        self._shared[id(frame)] = (now, frame)

    def handed(self, now: int, source: Site, peer: Site, frame: Any) -> None:
        sent, _ = self._shared.get(id(frame), (now, frame))
        self.carried(sent, source, peer, frame, (now,))

    def injected(self, now: int, injection: Injection) -> None:
        self.injections.append((now, injection))

    def persisted(self, now: int, site: Site, box: MemberBox) -> None:
        for record in box.persist:
            if isinstance(record, Kept) and record.passed.placed.batch.incarnation == CLOSING:
                self.closes.append((now, site, record.epoch))
