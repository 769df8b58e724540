"""What replicas tell each other of their results, so that replicas that diverge are seen.

The core knows nothing of this frame: it is between the drivers of two sites (docs/runtime.md,
"Replicas that diverge").
"""

from typing import Annotated

from msgspec import Meta

from ordercast.model.fields import Natural, Ordinal, Packed, StoreNumber, check_named_group
from ordercast.model.groups import Group

POINTS = 2  # in one frame: the last boundary, and the last message

Crc = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class DigestPoint(Packed, frozen=True):
    """After message `number` of the group in the epoch. `ids`, `results` and `errors` are of the
    messages since the last boundary: a digest of their names, a digest of their results, and the
    number of them that raised. `state`: a digest of the application's state, at a boundary; 0 for
    none."""

    epoch: Ordinal
    number: Natural
    ids: Crc
    results: Crc
    errors: Natural
    state: StoreNumber = 0


class ReplicaDigest(Packed, frozen=True, tag="P"):
    """How far the sender's replica of the group has come, and with what results."""

    group: Group
    points: Annotated[tuple[DigestPoint, ...], Meta(min_length=1, max_length=POINTS)]

    def check(self) -> None:
        check_named_group(self.group, "group")
