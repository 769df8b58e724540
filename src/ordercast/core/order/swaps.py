"""A distributed swap object as one site sees it ([SWAP] §3): requests in, steps out, nothing else.

`swap(ask)` changes the object's value and finds, somewhere in its tree, the value before: the name
of the message right before. What a call leads to at this site are its steps. A request carries the
body of its first message to the site where the predecessor shows, which multicasts both: the dead
origin of a message that has its predecessor would otherwise stop everyone (errata SWAP-7).

Counting objects ([SWAP] §3) give numbers instead of predecessors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ordercast.core.order.bodies import name_of
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.tom import MessageName


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A request: the first message, the last of those combined behind it, and who issued it."""

    batch: Batch
    last: MessageName
    issuer: Site


@dataclass(frozen=True, slots=True)
class SwapSend:
    """The request goes to a neighbour in the tree."""

    peer: Site
    ask: Ask


@dataclass(frozen=True, slots=True)
class SendCount:
    """So many places are asked of the parent."""

    peer: Site
    count: int


@dataclass(frozen=True, slots=True)
class Tell:
    """The count goes on at a peer: with the message of this name, or in answer to its request."""

    peer: Site
    name: MessageName
    value: int


@dataclass(frozen=True, slots=True)
class Found:
    """The message's predecessor is known here: multicast both."""

    batch: Batch
    after: MessageName


@dataclass(frozen=True, slots=True)
class NumberKnown:
    """The message's number is known here: multicast both."""

    batch: Batch
    place: int


Step = SwapSend | SendCount | Tell | Found | NumberKnown


class SwapObject(Protocol):
    def swap(self, ask: Ask) -> Sequence[Step]:
        """This site's own request."""

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        """A neighbour's."""

    def count(self, peer: Site, count: int) -> Sequence[Step]:
        """A child asks for so many places."""

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:
        """The count goes on here."""

    def waiting(self) -> int:
        """Requests that have gathered here, and may go on combined."""

    def turn(self) -> Sequence[Step]:
        """Combine what has gathered and let it go on."""

    def state(self, kept: Callable[[Batch], Batch]) -> msgspec.Struct:
        """For `load`. `kept`: own batches go without bodies, which are kept elsewhere."""

    def load(self, packed: Any) -> None:
        """The state, or its fields as a store has them."""


class Uncounted:
    """What a swap object has no use for."""

    def count(self, peer: Site, count: int) -> Sequence[Step]:  # noqa: ARG002
        return ()

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:  # noqa: ARG002
        return ()


def ask_of(batch: Batch, issuer: Site) -> Ask:
    return Ask(batch, name_of(batch), issuer)
