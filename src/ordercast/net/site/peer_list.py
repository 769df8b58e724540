"""The transport's peers, which follow the layout: added sites are met, retired ones parted with.

A retired site stays a peer for a while: the manager has to tell it that it is retired.
"""

import asyncio
import logging
from collections.abc import Mapping

from ordercast.core.epochs.layout import Layout
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.net.cluster.addresses import parse_address
from ordercast.net.site.assembly import AnyTransport

_log = logging.getLogger("ordercast.net.node")

PART_S = 3.0


class PeerList:
    """`peers`: those that the transport was made with."""

    def __init__(
        self, site: Site, transport: AnyTransport, peers: Mapping[Site, object], layout: Layout
    ) -> None:
        self._site = site
        self._transport = transport
        self._peers = dict.fromkeys(peers)  # also those that are parted with soon
        self._addresses: dict[Site, str] = {}  # as they were met
        self._roster: Mapping[Site, int] = {}
        self._timers: list[asyncio.TimerHandle] = []
        if layout.count >= 0:  # a newcomer has only the file to go by
            self._meet(layout)
            self._part([site for site in self._peers if site not in layout.roster])

    def follow(self, layout: Layout) -> None:
        if layout.roster is self._roster or layout.count < 0:
            return
        self._meet(layout)
        gone = [site for site in self._peers if site not in layout.roster]
        if gone:
            loop = asyncio.get_running_loop()
            self._timers = [timer for timer in self._timers if timer.when() > loop.time()]
            self._timers.append(loop.call_later(PART_S, self._part, gone))

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def _meet(self, layout: Layout) -> None:
        self._roster = layout.roster
        for site in layout.roster:
            address = layout.addresses.get(site, "")
            if site == self._site or (site in self._peers and not address):
                continue  # the file says where it is
            if self._addresses.get(site) != address:
                self._addresses[site] = address
                self._peers[site] = None
                self._transport.meet(site, _where(site, address))

    def _part(self, sites: list[Site]) -> None:
        for site in sites:
            if site not in self._roster and self._peers.pop(site, self) is None:
                self._addresses.pop(site, None)
                self._transport.part(site)


def _where(site: Site, address: str) -> tuple[str, int] | None:
    try:
        return parse_address(address, f"address of site {site!r}") if address else None
    except ConfigError as error:
        _log.warning("%s", error)
        return None
