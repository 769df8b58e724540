"""Processes whose network can be split: they dial each other through a proxy for each pair, or each
runs in a network namespace of its own (Linux, as root), whose link goes down."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from support.clusters.processes import Processes, write_cluster
from support.harness.ports import free_ports
from support.network.namespaces import Namespaces
from support.network.proxy import Manners, Proxy, in_thread


class Network(Protocol):
    def split(self, *sides: Sequence[str]) -> None:
        """Nothing passes between two sides, and nobody is told."""

    def heal(self) -> None: ...


class Proxies:
    """`proxies[a, b]`: through which site a reaches site b."""

    def __init__(self, proxies: Mapping[tuple[str, str], Proxy]) -> None:
        self.proxies = proxies

    def split(self, *sides: Sequence[str]) -> None:
        side_of = {site: number for number, side in enumerate(sides) for site in side}
        for (a, b), proxy in self.proxies.items():
            proxy.stalled = side_of.get(a) != side_of.get(b)

    def heal(self) -> None:
        for proxy in self.proxies.values():
            proxy.stalled = False


@contextmanager
def by_proxies(
    folder: Path,
    groups: Mapping[str, Sequence[str]],
    options: Mapping[str, object],
    *,
    messages: int,
    seed: int,
    timeouts: Mapping[str, object] | None = None,
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
                folder, groups, options,
                tls=False, addresses=addresses, timeouts=timeouts, name=f"{a}.toml",
            )  # fmt: skip
        running = Processes(
            folder,
            files[sites[0]],
            messages=messages,
            seed=seed,
            steady=True,
            cluster_of=files.__getitem__,
        )
        stack.enter_context(running)
        yield running, Proxies(proxies)


@contextmanager
def by_links(
    folder: Path,
    groups: Mapping[str, Sequence[str]],
    options: Mapping[str, object],
    *,
    messages: int,
    seed: int,
    timeouts: Mapping[str, object] | None = None,
) -> Iterator[tuple[Processes, Network]]:
    sites = sorted({site for members in groups.values() for site in members})
    with Namespaces(sites) as network:
        addresses = {site: f"{address}:7100" for site, address in network.address.items()}
        cluster = write_cluster(folder, groups, options, addresses=addresses, timeouts=timeouts)
        with Processes(
            folder, cluster, messages=messages, seed=seed, steady=True, place_of=network.words
        ) as running:
            yield running, network
