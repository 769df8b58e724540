"""What a peer may say of a batch: checks that raise `PeerMistake` before anything changes.

A site believes a peer about the peer's own batches. It believes a peer about others' batches only
if the structure of the epoch makes the peer pass them on. Items are checked before they are taken.
"""

from ordercast.core.structure import Structure
from ordercast.model.errors import Error, FrameError, PeerMistake
from ordercast.model.groups import Site
from ordercast.model.messages import Batch, Vector, check_body

FAR = 1 << 60
"""How far a peer's clock, place or term may be ahead of what is known here. One step above a larger
number might not fit on the wire."""

FAR_OUTSIDE = 1 << 40
"""How far the clock of an origin outside the domain may move a site's own clock. So the site's
clock is not too far ahead for others."""


def check_origin(peer: Site, batch: Batch) -> None:
    """The batch is the peer's own."""
    if batch.origin != peer:
        raise PeerMistake(f"it sends a batch of {batch.origin!r} as its own")


def check_addressed(structure: Structure, batch: Batch) -> Site:
    """The batch goes to a group of this epoch, or to a list of sites under its right name. Returns
    its primary."""
    try:
        if batch.members and batch.group != structure.list_name(batch.members):
            raise PeerMistake(f"{batch.group!r} is not the name of its list of sites")
        return structure.primary(batch.group, batch.members)
    except PeerMistake:
        raise
    except Error as error:
        raise PeerMistake(str(error)) from None


def check_past(structure: Structure, past: Vector, most: int) -> None:
    """The causal past is of groups and lists of this epoch, and not longer than `most`: a site that
    delivers the batch says it of its own next one."""
    if len(past) > most:
        raise PeerMistake(f"a causal past of {len(past):,} groups; the limit is {most:,}")
    for group, _, members in past:
        try:
            known = group == structure.list_name(members) if members else group in structure.groups
        except Error:
            known = False
        if not known:
            raise PeerMistake(f"{group!r} in a causal past is no group of this epoch")


def check_whole(batch: Batch) -> None:
    """The body can be delivered. A body that does not unpack would stop every member, also after
    restarts."""
    try:
        check_body(batch)
    except FrameError as error:
        raise PeerMistake(f"it passes on a batch of {batch.origin!r}: {error}") from None


def check_close(root: Site, batch: Batch) -> None:
    """The Close of an epoch comes from the root of its tree."""
    if batch.origin != root:
        raise PeerMistake(f"a Close of {batch.origin!r}; the root is {root!r}")


def check_ahead(number: int, known: int, what: str) -> None:
    if number > known + FAR:
        raise PeerMistake(f"{what} {number} is far ahead of {known}")
