"""Network namespaces on bridges: each site has a network interface and an address of its own."""

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence

_number = itertools.count()


def why_not() -> str:
    """Why there can be none here; empty when there can."""
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip"
    trial = f"oc{os.getpid()}t"
    made = subprocess.run(["ip", "netns", "add", trial], capture_output=True, text=True)
    if made.returncode:
        return f"no network namespaces here: {made.stderr.strip()}"
    try:
        bridge = ["ip", "-n", trial, "link", "add", "br0", "type", "bridge"]
        tried = subprocess.run(bridge, capture_output=True, text=True)
        return f"no bridge here: {tried.stderr.strip()}" if tried.returncode else ""
    finally:
        subprocess.run(["ip", "netns", "del", trial], capture_output=True)


class Namespaces:
    """One for each site, and one with a bridge for each side that they can be on. The machine's own
    network is not touched."""

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

    def cut(self, one: str, two: str, *, both: bool = True) -> None:
        """What site `one` sends to site `two` is lost, and nobody is told: it goes to a hardware
        address that nobody has. With `both`, the other way too."""
        pairs = ((one, two), (two, one)) if both else ((one, two),)
        for source, target in pairs:
            nobody = ("lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "eth0")
            _ip("-n", self._place(source), "neigh", "replace", self.address[target], *nobody)

    def mend(self) -> None:
        """All links that were cut work again."""
        for site in self.sites:
            _ip("-n", self._place(site), "neigh", "flush", "nud", "permanent", "dev", "eth0")

    def _place(self, site: str) -> str:
        return f"{self.name}-{site}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
