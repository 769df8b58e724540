"""How the application's state of a group reaches a site that joins it: asked for piece by piece.

The core knows nothing of these frames: they are between the drivers of two sites. A piece names
the whole by its length and checksum, so pieces of two snapshots are never put together.
"""

from typing import Final, TypeAlias

import msgspec

from ordercast.model.groups import Group

CHECKSUM_BYTES: Final = 32  # SHA-256 of the whole


class SnapshotWanted(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="4"
):
    """The joiner asks for the group's state at the beginning of the epoch, from `offset` on."""

    epoch: int
    group: Group
    offset: int


class SnapshotPiece(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="5"
):
    """Bytes from `offset` on, of `total`; empty only where the whole is."""

    epoch: int
    group: Group
    offset: int
    total: int
    checksum: bytes
    data: bytes


class NoSnapshot(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="6"):
    """This site has none to give; another may."""

    epoch: int
    group: Group
    why: str


Handover: TypeAlias = SnapshotWanted | SnapshotPiece | NoSnapshot
