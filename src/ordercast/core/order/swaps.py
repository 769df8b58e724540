"""A distributed swap object as one site sees it ([SWAP] §3): requests in, steps out, nothing else.

`swap(ask)` changes the object's value and finds, somewhere in the tree, the value before it: the
name of the preceding message. A call returns the steps that this site has to take. A request
carries the body of its first message to the site where the predecessor is found, and that site
multicasts both. Otherwise an origin that dies after its predecessor is found would stop everyone
(errata SWAP-7).

Counting objects ([SWAP] §3) give numbers instead of predecessors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ordercast.core.order.bodies import name_of
from ordercast.core.order.kept_states import Ask
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.swap import ChainMark, MarkValue
from ordercast.wire.tom import MessageName


@dataclass(frozen=True, slots=True)
class SwapSend:
    """Send the request to a neighbour in the tree."""

    peer: Site
    ask: Ask


@dataclass(frozen=True, slots=True)
class SendCount:
    """Ask the parent for `count` places."""

    peer: Site
    count: int


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell a peer a number: of the message of this name, or the first number it has asked for."""

    peer: Site
    name: MessageName
    value: int


@dataclass(frozen=True, slots=True)
class SendMark:
    """Send an arrow group's mark on, to a neighbour in the group."""

    peer: Site
    mark: int


@dataclass(frozen=True, slots=True)
class TellMark:
    """Tell the parent the last message before the mark."""

    peer: Site
    mark: int
    last: MessageName


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


Step = SwapSend | SendCount | Tell | SendMark | TellMark | Found | NumberKnown


class SwapObject(Protocol):
    def swap(self, ask: Ask) -> Sequence[Step]:
        """Take this site's own request."""

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        """Take a neighbour's request."""

    def count(self, peer: Site, count: int) -> Sequence[Step]:
        """A child asks for `count` places."""

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:
        """A peer tells a number (`Tell`)."""

    def check_mark(self, peer: Site, item: ChainMark | MarkValue) -> None:
        """PeerMistake unless the peer may send this mark, or this answer to one."""

    def marked(self, peer: Site, mark: int) -> Sequence[Step]:
        """A mark comes from the parent (`SendMark`)."""

    def mark_told(self, peer: Site, mark: int, last: MessageName) -> Sequence[Step]:
        """A child tells the last message before a mark (`TellMark`)."""

    def waiting(self) -> int:
        """The number of requests that wait here and may go on combined."""

    def turn(self) -> Sequence[Step]:
        """Combine the requests that wait, and let them go on."""

    def state(self, kept: Callable[[Batch], Batch]) -> msgspec.Struct:
        """For `load`. `kept` takes the body off an own batch: the site keeps it elsewhere."""

    def load(self, fields: dict[str, Any]) -> None:
        """Go on from a state, given by its fields."""


class Unmarked:
    """The methods of an arrow group, for swap objects that have no marks."""

    def check_mark(self, peer: Site, item: ChainMark | MarkValue) -> None:  # noqa: ARG002
        raise PeerMistake(f"a {type(item).__name__} is not of this protocol")

    def marked(self, peer: Site, mark: int) -> Sequence[Step]:  # noqa: ARG002
        return ()

    def mark_told(self, peer: Site, mark: int, last: MessageName) -> Sequence[Step]:  # noqa: ARG002
        return ()


class Uncounted(Unmarked):
    """The methods of a counting object, for swap objects that do not count."""

    def count(self, peer: Site, count: int) -> Sequence[Step]:  # noqa: ARG002
        return ()

    def told(self, peer: Site, name: MessageName, value: int) -> Sequence[Step]:  # noqa: ARG002
        return ()


def ask_of(batch: Batch, issuer: Site) -> Ask:
    return Ask(batch, name_of(batch), issuer)
