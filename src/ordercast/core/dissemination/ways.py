"""What a way to many offers its driver, the same in the simulator and over the network.

A driver calls, with integer nanoseconds: `laid_out` when the epoch of its domain or the sites in it
have changed; `share` with every burst of the engine's frames, and sends the frames that it gets
back; `receive` with frames from connections; `connected` and `lost`. Then it calls `drain`, sends
what is in the box, hands the packets to the engine, and drains again at the alarm.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

import msgspec

from ordercast.core.dissemination.fanout import Sends
from ordercast.model.groups import Site
from ordercast.wire.codec import WireFrame
from ordercast.wire.datagrams import Datagram
from ordercast.wire.dissemination import DisseminationFrame
from ordercast.wire.epochs import InEpoch


class WayBox(msgspec.Struct):
    frames: list[tuple[Site, DisseminationFrame]]  # to send over connections
    datagrams: list[Datagram]  # to send to all sites
    packets: list[tuple[Site, list[InEpoch]]]  # for the engine: origin, and its frames
    wrong: list[tuple[Site, str]]  # packets that were refused: their origin, and why
    alarm: int


class Way(Protocol):
    counts: Counter[str]
    sites: tuple[Site, ...]  # the sites of the domain, as laid out last

    def differs(self, epoch: int, sites: tuple[Site, ...]) -> bool:
        """Whether the epoch or its sites have changed, so that `laid_out` must be called."""

    def laid_out(
        self, now: int, epoch: int, sites: tuple[Site, ...], epochs: Iterable[int], stream: int,
        key: bytes,
    ) -> None:  # fmt: skip
        """These are the sites of the domain in this epoch. `epochs` are the epochs that still run.
        `stream` and `key` are new, drawn by the driver."""

    def share(self, now: int, sends: Sends) -> Sends:
        """Take the frames that go to many; the other frames, which the caller sends."""

    def receive(self, now: int, peer: Site, frame: WireFrame) -> bool:
        """Take a frame; whether it was for the way, not for the engine."""

    def take(self, now: int, datagram: Datagram) -> None:
        """Take an authentic datagram."""

    def connected(self, peer: Site) -> None: ...

    def lost(self, peer: Site) -> None: ...

    def reached(self, now: int) -> dict[Site, None]:
        """The sites that say that this site's packets reach them."""

    def full(self, was: bool) -> bool:
        """Whether the engine should wait; `was`: whether it waits now."""

    def drain(self, now: int) -> WayBox: ...
