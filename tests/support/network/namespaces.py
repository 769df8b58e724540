"""Network namespaces on a bridge: each site has a network interface and an address of its own."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence

NETWORK = "10.99.0"


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


@contextlib.contextmanager
def bridged(sites: Sequence[str]) -> Iterator[dict[str, tuple[str, str]]]:
    """Namespace and address of each site. The bridge has a namespace too: the machine's own network
    is not touched."""
    prefix = f"oc{os.getpid()}"
    switch = f"{prefix}s"
    names = {site: f"{prefix}{site}" for site in sites}
    try:
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for number, name in enumerate(names.values(), 1):
            port = f"p{number}"
            _ip("netns", "add", name)
            peer = ["peer", "name", port, "netns", switch]
            _ip("-n", name, "link", "add", "eth0", "type", "veth", *peer)
            _ip("-n", switch, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "addr", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")
        yield {
            site: (name, f"{NETWORK}.{number}")
            for number, (site, name) in enumerate(names.items(), 1)
        }
    finally:
        for name in (*names.values(), switch):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
