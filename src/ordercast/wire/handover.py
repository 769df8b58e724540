"""How the application's state of a group reaches a site that joins it: asked for piece by piece.

The core knows nothing of these frames: they are between the drivers of two sites. A piece names
the whole by its length and checksum, so pieces of two snapshots are never put together.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, Packed, check_named_group, check_text
from ordercast.model.groups import Group
from ordercast.model.limits import PIECE_BYTES

CHECKSUM_BYTES: Final = 32  # SHA-256 of the whole


class SnapshotWanted(Packed, frozen=True, tag="4"):
    """The joiner asks for the group's state at the beginning of the epoch, from `offset` on."""

    epoch: Ordinal
    group: Group
    offset: Natural

    def check(self) -> None:
        check_named_group(self.group, "group")


class SnapshotPiece(Packed, frozen=True, tag="5"):
    """Bytes from `offset` on, of `total`; empty only where the whole is."""

    epoch: Ordinal
    group: Group
    offset: Natural
    total: Natural
    checksum: Annotated[bytes, Meta(min_length=CHECKSUM_BYTES, max_length=CHECKSUM_BYTES)]
    data: Annotated[bytes, Meta(max_length=PIECE_BYTES)]

    def check(self) -> None:
        check_named_group(self.group, "group")
        end = self.offset + len(self.data)
        if end > self.total or (self.total and not self.data):
            raise FrameError(f"data ends at {end}, total is {self.total}, offset {self.offset}")


class NoSnapshot(Packed, frozen=True, tag="6"):
    """This site has no snapshot of the group; another may."""

    epoch: Ordinal
    group: Group
    why: str

    def check(self) -> None:
        check_named_group(self.group, "group")
        check_text(self.why, "why")


HandoverFrame: TypeAlias = SnapshotWanted | SnapshotPiece | NoSnapshot
