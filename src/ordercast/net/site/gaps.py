"""What a reader gets in place of messages that were shed ([SWAP] §6.3) or are no longer kept."""

import json
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch, MessageId


class Gap(NamedTuple):
    """A message that this application did not get, at its place in the order. Or, in the stream of
    a named reader, `positions` whose messages are no longer kept: then nothing else is known
    of them, and `group` and `origin` are empty."""

    position: int
    epoch: int
    group: Group
    origin: Site
    incarnation: int
    seq: int
    positions: int = 1

    @property
    def last(self) -> int:
        """The last position of the gap."""
        return self.position + self.positions - 1

    @property
    def id(self) -> MessageId:
        """Names the message: origin, incarnation, group and seq."""
        return MessageId(self.origin, self.incarnation, self.group, self.seq)


class GapBatch(msgspec.Struct, frozen=True, gc=False):
    """`count` messages in a row that were shed; the first would have been at `position`. If
    `origin` is empty: `count` positions whose messages are no longer kept."""

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

    @property
    def audience(self) -> tuple[Group, ...]:
        """The groups whose readers are told of the gap. The other groups of a send to several
        groups are not known any more."""
        return (self.group,)

    def between(self, first: int, last: int) -> "GapBatch":
        """Its messages at the positions from `first` to `last`, as `DeliveredBatch.between`."""
        skipped = max(0, first - self.position)
        end = min(self.count, last + 1 - self.position)
        seq = self.seq + skipped if self.origin else 0
        return replace(self, position=self.position + skipped, seq=seq, count=end - skipped)

    def deliveries(self) -> list[Gap]:
        """One gap for each message; one for all that are no longer kept."""
        if not self.origin:
            return [Gap(self.position, 0, "", "", 0, 0, self.count)]
        return [
            Gap(
                self.position + n, self.epoch, self.group, self.origin, self.incarnation,
                self.seq + n,
            )
            for n in range(self.count)
        ]  # fmt: skip


def forgotten(first: int, last: int) -> GapBatch:
    """These positions are no longer kept."""
    return GapBatch(first, 0, "", "", 0, 0, last - first + 1)


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
