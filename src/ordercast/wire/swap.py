"""Items of the swap family ([SWAP]), all of them on the lane UP.

Requests between two sites (`Swap`, `Count`, `ChainMark`) and answers (`CountValue`, `MarkValue`)
bear a `number` that goes on through restarts, so that a repeat is recognised. A repeated header is
recognised by its batch.
"""

from typing import ClassVar

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, check_site
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.items import BatchItem, LaneItem, SmallItem
from ordercast.wire.tom import MessageName, check_message_name

NOBODY: MessageName = ("", 0, "", 0)
"""The value of a swap object before the first swap: the first message has no predecessor."""

_NAMES = 256  # the weight of what stands beside a batch


class Swap(LaneItem, frozen=True, tag="x"):
    """swap(batch … last) on its way: combined behind the batch are others, up to `last`."""

    number: Natural  # 0 only in a store: the site's own request
    batch: Batch
    last: MessageName
    issuer: Site

    def weight(self) -> int:
        return self.batch.weight() + _NAMES

    def carried(self) -> Batch:
        return self.batch

    def check(self) -> None:
        if not self.number:
            raise FrameError("number is 0, not at least 1")
        self.batch.check()
        check_message_name(self.last, "last")
        check_site(self.issuer, "issuer")


class Count(SmallItem, frozen=True, tag="y"):
    """The sender asks its parent for this many consecutive places."""

    number: Ordinal
    count: Ordinal


class CountValue(SmallItem, frozen=True, tag="z"):
    """The count goes on: the batch of this name has `value`. With nobody's name: `value` is the
    first of the places that the receiver has asked for."""

    number: Ordinal
    name: MessageName
    value: Ordinal

    def check(self) -> None:
        if self.name != NOBODY:
            check_message_name(self.name, "name")


class ChainMark(SmallItem, frozen=True, tag="T"):
    """A mark of an arrow group's top, on its way to the last message that was issued there."""

    number: Ordinal
    mark: Ordinal


class MarkValue(SmallItem, frozen=True, tag="U"):
    """The mark follows the message of this name: the answer, on its way up to the group's top."""

    number: Ordinal
    mark: Ordinal
    last: MessageName

    def check(self) -> None:
        check_message_name(self.last, "last")


class Follows(BatchItem, frozen=True, tag="k"):
    """The batch comes right after the one of this name. A site that is no member gets it without
    its body."""

    beside: ClassVar[int] = _NAMES

    after: MessageName

    def check(self) -> None:
        self.batch.check()
        if self.after != NOBODY:
            check_message_name(self.after, "after")


class Counted(BatchItem, frozen=True, tag="j"):
    """The batch has this number in the domain's chain. A site that is no member gets it without
    its body."""

    beside: ClassVar[int] = _NAMES

    place: Ordinal


class Reached(SmallItem, frozen=True, tag="e"):
    """The sender has chained this many batches: their origins may go on."""

    place: Ordinal
