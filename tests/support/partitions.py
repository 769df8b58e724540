"""Processes that dial each other through a proxy for each pair: the network can be split."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.processes import Processes, free_ports, write_cluster
from support.proxy import Manners, Proxy, in_thread


class Network:
    """`proxies[a, b]`: through which site a reaches site b."""

    def __init__(self, proxies: Mapping[tuple[str, str], Proxy]) -> None:
        self.proxies = proxies

    def split(self, *sides: Sequence[str]) -> None:
        """Nothing passes between two sides, and nobody is told: frames are just lost."""
        side_of = {site: number for number, side in enumerate(sides) for site in side}
        for (a, b), proxy in self.proxies.items():
            proxy.stalled = side_of.get(a) != side_of.get(b)

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.stalled = False


@contextmanager
def partitionable(
    folder: Path,
    groups: Mapping[str, Sequence[str]],
    options: Mapping[str, object],
    *,
    messages: int,
    seed: int,
) -> Iterator[tuple[Processes, Network]]:
    sites = sorted({site for members in groups.values() for site in members})
    real = dict(zip(sites, free_ports(len(sites)), strict=True))
    proxies = {
        (a, b): Proxy(("127.0.0.1", real[b]), f"{a} {b}", Manners(kinds=("delay",), delay_s=0.0))
        for a in sites
        for b in sites
        if a != b
    }
    with ExitStack() as stack:
        stack.enter_context(in_thread(list(proxies.values())))
        files: dict[str, Path] = {}
        for a in sites:
            addresses = {
                b: f"127.0.0.1:{real[b] if a == b else proxies[a, b].address[1]}" for b in sites
            }
            files[a] = write_cluster(
                folder, groups, options, tls=False, addresses=addresses, name=f"{a}.toml"
            )
        running = Processes(
            folder, files[sites[0]], messages=messages, seed=seed, cluster_of=files.__getitem__
        )
        stack.enter_context(running)
        yield running, Network(proxies)
