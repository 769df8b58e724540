"""Transports that reach each other through one proxy for each pair and direction, so that any link
can be cut while the others stay."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from support.network.links import End, connected, started, until
from support.network.proxy import Manners, Proxy


@dataclass
class Mesh:
    """`proxies[a, b]`: through which site a dials site b."""

    ends: Mapping[str, End]
    proxies: Mapping[tuple[str, str], Proxy]

    def cut(self, one: str, two: str) -> None:
        self._stall(one, two, True)

    def heal(self, one: str, two: str) -> None:
        self._stall(one, two, False)

    def _stall(self, one: str, two: str, stalled: bool) -> None:
        for pair in ((one, two), (two, one)):
            self.proxies[pair].stalled = stalled

    def cut_one_way(self, one: str, two: str, *, cut: bool = True) -> None:
        """Nothing of site `one` gets to site `two`; what two says still gets to one."""
        self.proxies[two, one].stalled_back = cut
        self.proxies[one, two].stalled_forth = cut

    def through(self, one: str, two: str) -> str:
        links = self.ends[one].transport.links()
        return next(link.through for link in links if link.peer == two)

    def joined(self, one: str, two: str, relay: str) -> bool:
        """Whether both ends say that their link goes through the relay."""
        ends = (self.ends[one], self.ends[two])
        return connected(*ends) and self.through(one, two) == self.through(two, one) == relay


@asynccontextmanager
async def mesh(*ends: End) -> AsyncIterator[Mesh]:
    """All of them connected to each other."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(started(*ends))
        proxies = {}
        for one in ends:
            for two in ends:
                if one is not two:
                    target, manners = two.transport.address, Manners(("delay",), delay_s=0.0)
                    proxy = Proxy(target, f"{one.name} {two.name}", manners)
                    proxies[one.name, two.name] = await stack.enter_async_context(proxy)
                    one.transport.addresses[two.name] = proxy.address
        for one in ends:
            for two in ends:
                if one.name < two.name:
                    one.transport.connect(two.name)
        await until(lambda: connected(*ends), "connected")
        try:
            yield Mesh({end.name: end for end in ends}, proxies)
        finally:
            for proxy in proxies.values():
                proxy.stalled = proxy.stalled_back = proxy.stalled_forth = False
            for end in ends:
                await end.transport.close()
