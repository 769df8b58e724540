"""Messages of rounds as items of a link, with arrays as differences.

To each peer, and of each kind, the last message is remembered: the next array goes as what has
changed in it since. The lane CONTROL hands items over once and in order, until either side starts
anew: then both forget what they had of each other, and the sender says its last message again, with
the whole array. Of older ones nothing is lost: a message of a later round takes their place.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from ordercast.core.stability.arrays import LogArray, LogCounts
from ordercast.core.stability.rounds import Ack, Info, Message, Start
from ordercast.model.groups import Site
from ordercast.model.limits import VECTOR_ENTRIES
from ordercast.wire.stability import RoundAck, RoundInfo, RoundItem, RoundStart

Kind: TypeAlias = type[Any]
"""`RoundStart`, `RoundAck` or `RoundInfo`: as it is on the wire."""

_ARRAYS = LogCounts()


class Differences:
    """What went to each peer, and came from it, since either side started."""

    def __init__(self) -> None:
        self._sent: dict[Site, dict[Kind, tuple[int, Message[LogArray]]]] = {}
        self._heard: dict[Site, dict[Kind, tuple[int, LogArray]]] = {}

    def told(self, peer: Site, message: Message[LogArray]) -> Iterator[RoundItem]:
        """The items that tell the peer the message."""
        sent = self._sent.setdefault(peer, {})
        if isinstance(message, Start):
            sent[RoundStart] = (0, message)
            yield RoundStart(message.round)
            return
        kind: Kind = RoundAck if isinstance(message, Ack) else RoundInfo
        array = message.array
        base, before = sent.get(kind, (0, None))
        if before is not None and not isinstance(before, Start):
            if before.array.keys() <= array.keys():
                array = _ARRAYS.difference(array, before.array)
            else:
                base = 0  # a difference cannot take entries away
        counts = tuple((group, *entry) for group, entry in array.items())
        at = 0
        while len(counts) - at > VECTOR_ENTRIES:
            yield kind(message.round, base, True, counts[at : at + VECTOR_ENTRIES])
            at += VECTOR_ENTRIES
            base += 1
        yield kind(message.round, base, False, counts[at:])
        sent[kind] = (base + 1, message)

    def taken(self, peer: Site, item: RoundItem) -> Message[LogArray] | None:
        """The message that an item ends; None: there is more to come, or it is of no use."""
        if isinstance(item, RoundStart):
            return Start(item.round)
        if not isinstance(item, (RoundAck, RoundInfo)):
            return None
        heard = self._heard.setdefault(peer, {})
        number, before = heard.get(type(item), (0, {}))
        if item.base not in (0, number):
            return None  # it was made for one who had heard something else
        changes: LogArray = {entry[0]: entry[1:] for entry in item.counts}
        array = _ARRAYS.changed(before, changes) if item.base else changes
        heard[type(item)] = (item.base + 1, array)
        if item.more:
            return None
        return Ack(item.round, array) if isinstance(item, RoundAck) else Info(item.round, array)

    def again(self, peer: Site) -> list[Message[LogArray]]:
        """Either side has started anew: what must be told again."""
        self._heard.pop(peer, None)
        return [message for _, message in self._sent.pop(peer, {}).values()]
