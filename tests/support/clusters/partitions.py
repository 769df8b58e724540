"""Processes whose network can be split: they dial each other through a proxy for each pair, or each
runs in a network namespace of its own (Linux, as root), whose link goes down."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from support.clusters.processes import Processes, write_cluster
from support.harness.ports import free_ports
from support.network.proxy import Manners, Proxy, in_thread

_number = itertools.count()


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


# --- network namespaces ---------------------------------------------------------------------------


def why_no_namespaces() -> str | None:
    """Why this machine cannot have them, for who skips a test; None where it can."""
    if shutil.which("ip") is None:
        return "network namespaces need Linux and the command ip"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"oc{os.getpid()}-try"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"network namespaces are not allowed here: {done.stderr.strip()}"
    _ip("netns", "del", name)
    return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Namespaces:
    """One for each site, and one with a bridge for each side that they can be on."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.sites = list(sites)
        self.name = f"oc{os.getpid()}-{next(_number)}"
        self.address = {site: f"10.77.0.{n}" for n, site in enumerate(sites, 1)}

    def __enter__(self) -> "Namespaces":
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for place in (*self.sites, "hub"):
            words = ["ip", "netns", "del", f"{self.name}-{place}"]
            subprocess.run(words, capture_output=True, check=False)

    def words(self, site: str) -> list[str]:
        """What runs a command there."""
        return ["ip", "netns", "exec", f"{self.name}-{site}"]

    def _make(self) -> None:
        _ip("netns", "add", f"{self.name}-hub")
        for side in range(len(self.sites)):
            self._hub("link", "add", f"side{side}", "type", "bridge")
            self._hub("link", "set", f"side{side}", "up")
        for n, site in enumerate(self.sites):
            place = f"{self.name}-{site}"
            _ip("netns", "add", place)
            self._hub("link", "add", f"port{n}", "type", "veth", "peer", "name", "eth0")
            self._hub("link", "set", "eth0", "netns", place)
            for words in (
                ("addr", "add", f"{self.address[site]}/24", "dev", "eth0"),
                ("link", "set", "eth0", "up"),
                ("link", "set", "lo", "up"),
            ):
                _ip("-n", place, *words)
        self.heal()

    def _hub(self, *words: str) -> None:
        _ip("-n", f"{self.name}-hub", *words)

    def split(self, *sides: Sequence[str]) -> None:
        """The link of a site that is alone goes down; others are plugged in on their side."""
        for number, side in enumerate(sides):
            for site in side:
                port = f"port{self.sites.index(site)}"
                self._hub("link", "set", port, "master", f"side{number}")
                self._hub("link", "set", port, "up" if len(side) > 1 else "down")

    def heal(self) -> None:
        self.split(self.sites)


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
