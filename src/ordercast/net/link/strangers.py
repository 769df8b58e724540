"""Connections whose hello is not accepted yet: how many there may be, and which go first.

A stranger costs little, but whoever may open connections could take every place and keep a site
out that has just started again. So a full house drops a connection that is there and takes the new
one, which may be a site's. Places are kept for hosts where peers are: strangers from elsewhere
cannot take them. Of the host with most strangers the oldest goes, and one that said nothing before
one that has spoken: a site says its first word at once. While there is a crowd, strangers also get
less time.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.cluster.addresses import plain_host
from ordercast.net.cluster.sockets import share_of_files
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import TOO_SLOW, Connection, LinkLimits, LinkTimes

TOO_MANY: Final = "too many connections without a hello"
HOSTS: Final = 4  # that are remembered of a peer


class PeerHosts:
    """The hosts where peers are: their addresses, and where they were met."""

    def __init__(self) -> None:
        self._hosts: dict[Site, list[str]] = {}
        self._all: frozenset[str] = frozenset()
        self._lookups: dict[asyncio.Task[None], None] = {}

    def __contains__(self, host: str) -> bool:
        return host in self._all

    def learn(self, site: Site, host: str) -> None:
        """The site was met there. The latest hosts of a site count."""
        known = self._hosts.setdefault(site, [])
        if host not in known:
            known.append(host)
            del known[:-HOSTS]
            self._changed()

    def look_up(self, addresses: Mapping[Site, tuple[str, int]]) -> None:
        """Learn the hosts of addresses; those of names when the system has resolved them."""
        for site, (host, port) in addresses.items():
            if _is_number(host):
                self.learn(site, plain_host(host))
            else:
                task = asyncio.create_task(self._resolve(site, host, port))
                self._lookups[task] = None
                task.add_done_callback(lambda done: self._lookups.pop(done, None))

    async def _resolve(self, site: Site, host: str, port: int) -> None:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port)
        except OSError:  # a dial complains of it, and a connection teaches the host
            return
        for *_, where in found:
            self.learn(site, plain_host(str(where[0])))

    def part(self, site: Site) -> None:
        self._hosts.pop(site, None)
        self._changed()

    def _changed(self) -> None:
        self._all = frozenset(host for hosts in self._hosts.values() for host in hosts)

    def close(self) -> None:
        for task in self._lookups:
            task.cancel()


class Strangers:
    """Connections without an accepted hello, the oldest first."""

    def __init__(self, limits: LinkLimits, times: LinkTimes) -> None:
        self._limits = limits
        self._most = share_of_files(limits.strangers)
        self._elsewhere = min(limits.strangers_elsewhere, max(1, self._most // 2))
        self._hurry_s = min(times.hurry, times.handshake) / SECOND
        self._there: dict[Connection, float] = {}  # since when
        self.hosts = PeerHosts()

    def add(self, one: Connection, now: float) -> None:
        """Take one more in. Others may have to go for it."""
        self.hurry(now)
        elsewhere = [each for each in self._there if each.host not in self.hosts]
        if one.host not in self.hosts and len(elsewhere) >= self._elsewhere:
            self._drop(elsewhere)
        elif len(self._there) >= self._most:
            self._drop(elsewhere or list(self._there))
        self._there[one] = now

    def discard(self, one: Connection) -> None:
        self._there.pop(one, None)

    def hurry(self, now: float) -> None:
        """Where there is a crowd, drop those that have had the shorter time."""
        while len(self._there) >= self._limits.crowd:
            oldest, since = next(iter(self._there.items()))
            if now - since < self._hurry_s:
                return
            del self._there[oldest]
            detail = f"{self._hurry_s:g} s are enough while there is a crowd"
            oldest.fail(LinkTrouble(TOO_SLOW, detail))

    def _drop(self, among: Iterable[Connection]) -> None:
        """The oldest of the host with most; a silent one first."""
        of_host = Counter(each.host for each in among)
        host, count = of_host.most_common(1)[0]
        theirs = [each for each in among if each.host == host]
        silent = [each for each in theirs if not each.bytes_in]
        victim = (silent or theirs)[0]
        total = len(self._there)
        del self._there[victim]
        detail = f"{total} at once, {count} of this host: the oldest go"
        victim.fail(LinkTrouble(TOO_MANY, detail))


def _is_number(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
