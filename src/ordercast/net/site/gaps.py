"""What stands in a stream in place of a message that was shed ([SWAP] §6.3)."""

import json
from typing import NamedTuple

import msgspec

from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch, MessageId


class Gap(NamedTuple):
    """A message that this application did not get, at its place in the order."""

    position: int
    epoch: int
    group: Group
    origin: Site
    incarnation: int
    seq: int

    @property
    def id(self) -> MessageId:
        """Names the message: origin, incarnation, group and seq."""
        return MessageId(self.origin, self.incarnation, self.group, self.seq)


class GapBatch(msgspec.Struct, frozen=True, gc=False):
    """`count` messages in a row that were shed; the first would have been at `position`."""

    position: int
    epoch: int
    group: Group
    origin: Site
    incarnation: int
    seq: int
    count: int

    @property
    def last(self) -> int:
        """The position of the last message."""
        return self.position + self.count - 1

    def deliveries(self) -> list[Gap]:
        """One gap for each message."""
        return [
            Gap(
                self.position + n, self.epoch, self.group, self.origin, self.incarnation,
                self.seq + n,
            )
            for n in range(self.count)
        ]  # fmt: skip


def without_body(batch: DeliveredBatch) -> GapBatch:
    return GapBatch(
        batch.position, batch.epoch, batch.group, batch.origin, batch.incarnation, batch.seq,
        batch.count,
    )  # fmt: skip


def gap_to_json(gap: GapBatch) -> str:
    """The detail of an event in the store; the event itself has the position."""
    told = msgspec.structs.asdict(gap)
    del told["position"]
    return json.dumps(told)


def gap_from_json(position: int, detail: str) -> GapBatch:
    return GapBatch(position, **json.loads(detail))
