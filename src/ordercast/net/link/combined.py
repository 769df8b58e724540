"""A transport that sends to many in a way of its own, beside one over TCP that does the rest."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from ordercast.core.dissemination.fanout import Sends
from ordercast.core.dissemination.registry import UNICAST
from ordercast.model.groups import Site
from ordercast.net.link.peers import LinkStatus
from ordercast.net.link.transport import Transport
from ordercast.wire.codec import WireFrame

MakeTransport: TypeAlias = "Callable[[Beside], Transport]"


class Listener(Protocol):
    """What a transport tells the site that it serves."""

    def frames(self, peer: Site, frames: list[WireFrame]) -> None: ...
    def connected(self, peer: Site) -> None: ...
    def lost(self, peer: Site) -> None: ...
    def congested(self, peer: Site, congested: bool) -> None: ...


class Host(Listener, Protocol):
    """The site, and who its packets to many go to."""

    @property
    def site(self) -> Site: ...

    @property
    def on_layout(self) -> list[Callable[[], None]]:
        """Called after the layout has changed."""

    def members(self) -> tuple[int, tuple[Site, ...]]:
        """The epoch of its domain, and all sites of that."""

    def epochs(self) -> Collection[int]:
        """In which the site has a part."""


class Beside(ABC):
    """What a site asks of a transport is asked of the `inner` one; what that tells comes here."""

    def __init__(self, host: Host, make: MakeTransport) -> None:
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

    def retell(self, terms: Mapping[str, str]) -> None:
        self.inner.retell(terms)

    def links(self) -> Sequence[LinkStatus]:
        return self.inner.links()

    async def close(self) -> None:
        await self.inner.close()

    @abstractmethod
    def share(self, sends: Sends) -> Sends:
        """Send to many what is for many; the rest is the caller's."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """For operators."""

    def told(self, chosen: str, reached: Mapping[Site, None], silence: str) -> dict[str, Any]:
        """For operators: who is served in which way, and why not in the chosen one."""
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
