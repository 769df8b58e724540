"""Connections without an accepted hello: how many there may be, and which go first.

A stranger costs little. But anybody who can connect could take every place, and keep out a site
that has just restarted. So a new connection, which may be a site's, is always taken, and an old one
is dropped if all places are taken. Some places are kept for hosts where peers are: strangers from
elsewhere cannot take them. The host with most strangers loses its oldest one. A stranger that said
nothing goes before one that has spoken: a site speaks at once. While there is a crowd, strangers
also get less time.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, Generic, Protocol, TypeVar

from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.cluster.addresses import plain_host
from ordercast.net.cluster.sockets import share_of_files
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import TOO_SLOW, LinkLimits, LinkTimes

TOO_MANY: Final = "too many connections without a hello"
HOSTS: Final = 4  # the last hosts that are remembered of each peer


class PeerHosts:
    """The hosts where peers are: their addresses, and the hosts at which they were met."""

    def __init__(self) -> None:
        self._hosts: dict[Site, list[str]] = {}
        self._all: frozenset[str] = frozenset()
        self._lookups: dict[asyncio.Task[None], None] = {}

    def __contains__(self, host: str) -> bool:
        return host in self._all

    def learn(self, site: Site, host: str) -> None:
        """The site was met at this host. The latest hosts of a site count."""
        known = self._hosts.setdefault(site, [])
        if host not in known:
            known.append(host)
            del known[:-HOSTS]
            self._changed()

    def look_up(self, addresses: Mapping[Site, tuple[str, int]]) -> None:
        """Learn the hosts of addresses. A name is learned when the system has resolved it."""
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
        except OSError:  # a dial complains of it, and a connection shows the host
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


class Stranger(Protocol):
    """A connection whose other end has not said who it is."""

    host: str
    bytes_in: int

    def fail(self, trouble: LinkTrouble, /) -> None: ...


S = TypeVar("S", bound=Stranger)


class Strangers(Generic[S]):
    """The strangers, the oldest first."""

    def __init__(self, limits: LinkLimits, times: LinkTimes) -> None:
        self._limits = limits
        self._most = share_of_files(limits.strangers)
        self._elsewhere = min(limits.strangers_elsewhere, max(1, self._most // 2))
        self._hurry_s = min(times.hurry, times.handshake) / SECOND
        self._there: dict[S, float] = {}  # with the time of its connection
        self.hosts = PeerHosts()

    def add(self, one: S, now: float) -> None:
        """Take one more stranger. Another one may be dropped for it."""
        self.hurry(now)
        elsewhere = [each for each in self._there if each.host not in self.hosts]
        if one.host not in self.hosts and len(elsewhere) >= self._elsewhere:
            self._drop(elsewhere)
        elif len(self._there) >= self._most:
            self._drop(elsewhere or list(self._there))
        self._there[one] = now

    def discard(self, one: S) -> None:
        self._there.pop(one, None)

    def hurry(self, now: float) -> None:
        """While there is a crowd, drop the strangers that have had the shorter time."""
        while len(self._there) >= self._limits.crowd:
            oldest, since = next(iter(self._there.items()))
            if now - since < self._hurry_s:
                return
            del self._there[oldest]
            detail = f"{self._hurry_s:g} s are enough while there is a crowd"
            oldest.fail(LinkTrouble(TOO_SLOW, detail))

    def _drop(self, among: Iterable[S]) -> None:
        """Drop a stranger of the host that has most: a silent one, else the oldest."""
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
