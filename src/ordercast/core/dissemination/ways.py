"""What a way to many offers its driver, which is the same in the simulator and over the network.

A driver calls with integer nanoseconds: `laid_out` when the epoch of its domain, or who is in it,
is another; `share` with every burst of the engine's frames, of which it sends on what it gets back;
`receive` with what came over connections; `connected` and `lost`. Then it `drain`s, sends what is
in the box, hands the packets to the engine, and rings at the alarm.
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
    frames: list[tuple[Site, DisseminationFrame]]  # over connections
    datagrams: list[Datagram]  # to everyone
    packets: list[tuple[Site, list[InEpoch]]]  # for the engine, as if it came from there
    wrong: list[tuple[Site, str]]  # packets that were refused
    alarm: int


class Way(Protocol):
    counts: Counter[str]
    sites: tuple[Site, ...]  # of the domain, as it was laid out last

    def differs(self, epoch: int, sites: tuple[Site, ...]) -> bool:
        """Whether there is something to be laid out anew."""

    def laid_out(
        self, now: int, epoch: int, sites: tuple[Site, ...], epochs: Iterable[int], stream: int,
        key: bytes,
    ) -> None:  # fmt: skip
        """These are the sites of the domain in this epoch; `epochs` are those that still run.
        `stream` and `key` are drawn for it."""

    def share(self, now: int, sends: Sends) -> Sends:
        """Take what is for many; the rest is the caller's to send."""

    def receive(self, now: int, peer: Site, frame: WireFrame) -> bool:
        """Whether the frame was for the way, not for the engine."""

    def take(self, now: int, datagram: Datagram) -> None:
        """One that is authentic."""

    def connected(self, peer: Site) -> None: ...

    def lost(self, peer: Site) -> None: ...

    def reached(self, now: int) -> dict[Site, None]:
        """Who says that what we send gets to it."""

    def full(self, was: bool) -> bool:
        """Whether the engine should wait; `was`: it does."""

    def drain(self, now: int) -> WayBox: ...
