"""Which frames of a burst go to many in one packet.

Frames of one epoch and lane that share a batch are packed together: every batch once, and for each
peer its own numbers (`wire.dissemination.Many`). A lane that was shared lately stays with the
packets for a while, also for a batch to one peer alone: a frame that overtakes others on a faster
way would look like a loss. Frames that a link repeats go by unicast: they are needed because the
packets failed. Riders of a shared frame go by unicast too: their lane stays on one way.
"""

from collections.abc import Container, Sequence
from typing import TypeAlias

from ordercast.model.groups import Site
from ordercast.model.limits import ITEMS
from ordercast.model.options import SECOND
from ordercast.wire.dissemination import Head, Many
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import CONTROL, Data, Item
from ordercast.wire.items import total_weight

Sends: TypeAlias = Sequence[tuple[Site, SiteFrame]]
_Lane: TypeAlias = tuple[Site, int, int]  # peer, epoch, lane
_Place: TypeAlias = tuple[int, int, int]  # epoch, lane, how many frames of it the peer had before

SHARED_FOR = SECOND


class Fanout:
    def __init__(self, packet_bytes: int) -> None:
        self._most = packet_bytes // 2  # half, because weights are rough
        self._sent: dict[_Lane, int] = {}  # the last number sent, by any way
        self._shared: dict[_Lane, int] = {}  # until when the lane stays with the packets

    def split(self, now: int, sends: Sends, reached: Container[Site]) -> tuple[list[Many], Sends]:
        """The packets, and the frames that go by unicast."""
        places: dict[_Place, list[tuple[Site, Data]]] = {}
        had: dict[_Lane, int] = {}
        rest: list[tuple[Site, SiteFrame]] = []
        for peer, frame in sends:
            data = frame.frame if type(frame) is InEpoch else None
            if type(data) is not Data or (data.lane == CONTROL and not _has_batch(data)):
                rest.append((peer, frame))
                continue
            assert type(frame) is InEpoch
            lane = (peer, frame.epoch, data.lane)
            before = self._sent.get(lane, 0)
            again = data.number <= before
            self._sent[lane] = max(before, data.number + len(data.items) - 1)
            if again or peer not in reached or total_weight(data.items) > self._most:
                rest.append((peer, frame))
                continue
            count = had[lane] = had.get(lane, -1) + 1
            places.setdefault((frame.epoch, data.lane, count), []).append((peer, data))
        packets: list[Many] = []
        for (epoch, _, _), frames in places.items():
            self._pack(now, epoch, frames, packets, rest)
        return packets, rest

    def _pack(
        self,
        now: int,
        epoch: int,
        frames: list[tuple[Site, Data]],
        packets: list[Many],
        rest: list[tuple[Site, SiteFrame]],
    ) -> None:
        items: list[Item] = []
        places: dict[tuple[object, ...], int] = {}
        heads: list[tuple[Site, Data, tuple[int, ...]]] = []
        uses: list[int] = []
        for peer, data in frames:
            mine = []
            for item in data.items:
                name = _name(item)
                place = places.get(name)
                if place is None or (items[place] is not item and items[place] != item):
                    place = places[name] = len(items)
                    items.append(item)
                    uses.append(0)
                uses[place] += 1
                mine.append(place)
            heads.append((peer, data, tuple(mine)))
        going = []
        for peer, data, mine_too in heads:
            lane = (peer, epoch, data.lane)
            if any(uses[place] > 1 for place in mine_too):
                self._shared[lane] = now + SHARED_FOR
            elif self._shared.get(lane, 0) <= now:
                rest.append((peer, InEpoch(epoch, data)))
                continue
            going.append((peer, data, mine_too))
        fits = len(items) <= ITEMS and total_weight(items) <= self._most
        if not going or not fits:
            rest.extend((peer, InEpoch(epoch, data)) for peer, data, _ in going)
            return
        packets.append(_many(epoch, items, going))
        rest.extend(
            (peer, InEpoch(epoch, Data(data.boot, data.of, CONTROL, rider.number, rider.items)))
            for peer, data, _ in going
            if (rider := data.rider) is not None
        )

    def forget(self, epochs: Container[int]) -> None:
        """Forget the lanes of all other epochs: they have ended."""
        self._sent = {lane: last for lane, last in self._sent.items() if lane[1] in epochs}
        self._shared = {lane: at for lane, at in self._shared.items() if lane[1] in epochs}

    def restarted(self, peer: Site) -> None:
        """The peer may have started anew: the numbers of its lanes may begin anew."""
        self._sent = {lane: last for lane, last in self._sent.items() if lane[0] != peer}


def _many(epoch: int, items: list[Item], going: list[tuple[Site, Data, tuple[int, ...]]]) -> Many:
    wanted = sorted({place for _, _, mine in going for place in mine})
    moved = {place: new for new, place in enumerate(wanted)}
    everything = tuple(range(len(wanted)))
    heads = []
    for peer, data, mine in going:
        places = tuple(moved[place] for place in mine)
        if places == everything:
            places = ()
        heads.append(Head(peer, data.of, data.number, places, data.acks))
    first = going[0][1]
    return Many(
        epoch, first.boot, first.lane, tuple(heads), tuple(items[place] for place in wanted)
    )


def _has_batch(data: Data) -> bool:
    """Of the lane CONTROL only bodies, which [TOM] sends beside their headers, are for many."""
    return any(item.carried() is not None for item in data.items)


def _name(item: Item) -> tuple[object, ...]:
    batch = item.carried()
    if batch is None:
        return (item,)
    return (batch.origin, batch.incarnation, batch.group, batch.seq)
