"""A transport that sends to many sites in its own way, and everything else over TCP."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ordercast.core.dissemination.fanout import Sends
from ordercast.core.dissemination.registry import UNICAST
from ordercast.core.dissemination.ways import WayBox
from ordercast.model.groups import Site
from ordercast.net.link.peers import LinkStatus
from ordercast.net.link.pipes import RelayCounts
from ordercast.net.link.transport import Transport
from ordercast.wire.codec import WireFrame

log = logging.getLogger("ordercast.net.transport")

MakePlainTransport: TypeAlias = "Callable[[CombinedTransport], Transport]"


class TransportListener(Protocol):
    """What a transport tells the site that it serves."""

    def frames(self, peer: Site, frames: list[WireFrame]) -> None: ...
    def connected(self, peer: Site) -> None: ...
    def lost(self, peer: Site) -> None: ...
    def congested(self, peer: Site, congested: bool) -> None: ...
    def detoured(self, peers: tuple[Site, ...]) -> None: ...


class TransportHost(TransportListener, Protocol):
    """The site that a transport serves, with the sites that its packets for many go to."""

    @property
    def site(self) -> Site: ...

    @property
    def on_layout(self) -> list[Callable[[], None]]:
        """Functions to call after the layout has changed."""

    def members(self) -> tuple[int, tuple[Site, ...]]:
        """The epoch of its domain, and all sites of that epoch."""

    def epochs(self) -> Collection[int]:
        """The epochs in which the site has a part."""


class CombinedTransport(ABC):
    """Hands the calls of its site on to the `inner` transport over TCP, whose listener it is."""

    def __init__(self, host: TransportHost, make: MakePlainTransport) -> None:
        self._host = host
        self.inner = make(self)

    @property
    def address(self) -> tuple[str, int]:
        return self.inner.address

    async def start(self) -> None:
        await self.inner.start()

    def send(self, peer: Site, frames: Sequence[WireFrame]) -> None:
        self.inner.send(peer, frames)

    def refuse(self, peer: Site, why: str) -> None:
        self.inner.refuse(peer, why)

    def meet(self, site: Site, address: tuple[str, int] | None = None) -> None:
        self.inner.meet(site, address)

    def part(self, site: Site) -> None:
        self.inner.part(site)

    def retell(self, terms: Mapping[str, str], uses: tuple[str, ...]) -> None:
        self.inner.retell(terms, uses)

    def revoke(self, revoked: Mapping[str, str]) -> None:
        self.inner.revoke(revoked)

    def links(self) -> Sequence[LinkStatus]:
        return self.inner.links()

    def relayed(self) -> RelayCounts:
        return self.inner.relayed()

    @property
    def refusals(self) -> Mapping[str, int]:
        return self.inner.refusals

    @property
    def certificate_ends_at(self) -> int | None:
        return self.inner.certificate_ends_at

    async def close(self) -> None:
        await self.inner.close()

    @abstractmethod
    def share(self, sends: Sends) -> Sends:
        """Send the frames that go to many sites at once. Returns the others, which the caller
        sends."""

    def _hand_out(self, box: WayBox) -> None:
        """Send the frames of the way, log the packets that it refuses, and hand up the others."""
        for peer, frame in box.frames:
            self.inner.send(peer, [frame])
        for origin, why in box.wrong:
            log.error("packet from %s refused: %s", origin, why)
        for origin, frames in box.packets:
            self._host.frames(origin, list(frames))

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """The state of the transport, for operators."""

    def ways_status(
        self, chosen: str, reached: Mapping[Site, None], silence: str
    ) -> dict[str, Any]:
        """For operators: the way in which each peer is served, and why some are not served in the
        chosen way."""
        peers = [site for site in self._host.members()[1] if site != self._host.site]
        silent = [site for site in peers if site not in reached]
        return {
            "chosen": chosen,
            "ways": {site: UNICAST if site in silent else chosen for site in peers},
            "why": f"{', '.join(silent)}: {silence}" if silent else "",
        }

    # --- what the transport over TCP tells --------------------------------------------------------

    def frames(self, peer: Site, frames: list[WireFrame]) -> None:
        self._host.frames(peer, frames)

    def connected(self, peer: Site) -> None:
        self._host.connected(peer)

    def lost(self, peer: Site) -> None:
        self._host.lost(peer)

    def congested(self, peer: Site, congested: bool) -> None:
        self._host.congested(peer, congested)

    def detoured(self, peers: tuple[Site, ...]) -> None:
        self._host.detoured(peers)
