"""`[multicast]` of a cluster file: where datagrams go, how far and how large."""

import hashlib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ordercast.model.errors import ConfigError
from ordercast.model.names import require_keys, shown
from ordercast.net.cluster.addresses import parse_address

FURTHEST: Final = 32
SMALLEST, LARGEST = 576, 9_000  # bytes of a datagram
KEYS: Final = ("address", "ttl", "datagram_bytes")


@dataclass(frozen=True, slots=True)
class MulticastConfig:
    """`datagram_bytes` is without the headers of UDP and IP."""

    address: tuple[str, int]
    ttl: int
    datagram_bytes: int = 1_400


def read_multicast(
    given: Mapping[str, Any],
    name: str,
    source: str,
    *,
    local: bool,
) -> MulticastConfig:
    """`local`: all sites are on one machine, and datagrams stay there."""
    where = f"{source}: multicast"
    require_keys(given, KEYS, where)
    address = _default(name)
    if "address" in given:
        address = parse_address(given["address"], f"{where}.address")
        if not _is_group(address[0]):
            raise ConfigError(
                f"{where}.address: {shown(given['address'])} is not a multicast address of IPv4"
                " (224.0.1.0 to 239.255.255.255)"
            )
    ttl = _whole(given.get("ttl", 0 if local else 1), 0, FURTHEST, f"{where}.ttl")
    size = _whole(given.get("datagram_bytes", 1_400), SMALLEST, LARGEST, f"{where}.datagram_bytes")
    return MulticastConfig(address, ttl, size)


def _default(name: str) -> tuple[str, int]:
    """An address of the organisation-local block, drawn by the cluster's name: two clusters seldom
    share one."""
    drawn = hashlib.sha256(name.encode("ascii")).digest()
    return f"239.255.{drawn[0]}.{drawn[1]}", 20_000 + int.from_bytes(drawn[2:4]) % 10_000


def _is_group(host: str) -> bool:
    try:
        found = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return found.is_multicast and found >= ipaddress.IPv4Address("224.0.1.0")


def _whole(value: Any, least: int, most: int, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{where}: {shown(value)} is not a whole number from {least} to {most}")
    return value
