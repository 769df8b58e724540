"""Addresses of sites: how they are read, which need no certificates, and what went wrong there."""

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import shown

_ALL: Final = ("0.0.0.0", "::")  # addresses of a machine


def parse_address(value: Any, where: str, least_port: int = 1) -> tuple[str, int]:
    """Host and port; the error names `where` it was written."""
    problem = f"{where}: {shown(value)} is not an address (write HOST:PORT, or [IPV6]:PORT)"
    if not isinstance(value, str):
        raise ConfigError(problem)
    host, colon, port = value.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(problem)
    usable = host.isascii() and host.isprintable() and not any(c in host for c in " /[]@")
    if not colon or not host or not usable or not (port.isascii() and port.isdigit()):
        raise ConfigError(problem)
    if len(port) > 5 or not least_port <= int(port) <= 65_535:
        raise ConfigError(f"{where}: {shown(value)}: a port is a number from 1 to 65535")
    return host, int(port)


def door_at(clients: tuple[str, int], host: str) -> str:
    """The address at which clients of other machines reach a site that listens for them there, and
    that others reach at `host`. It is "" if it is not known, because both stand for all addresses
    of the machine."""
    named, port = clients
    named = host if named in _ALL else named
    if named in _ALL:
        return ""
    return f"[{named}]:{port}" if ":" in named else f"{named}:{port}"


def require_loopback(addresses: Mapping[Site, tuple[str, int]]) -> None:
    """Without certificates anybody who reaches a port can pretend to be a site."""
    for site, (host, _) in addresses.items():
        if not is_loopback(host):
            raise ConfigError(
                f"address of site {site!r}: {host} is not loopback, and there are no certificates"
                " (give [tls] a directory, or set insecure = true)"
            )


def why_not_dialled(site: Site, address: tuple[str, int] | None, *, loopback_only: bool) -> str:
    """Why an address that was given while running must not be dialled; empty: it may be."""
    if address is None:
        return "no address is known"
    try:
        if loopback_only:
            require_loopback({site: address})
    except ConfigError as error:
        return str(error)
    return ""


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host. Capitals do not matter in names."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def plain_host(host: str) -> str:
    """One text for one host: without a scope, and IPv4 as such."""
    host = host.partition("%")[0]
    try:
        number = ip_address(host)
    except ValueError:
        return host
    if isinstance(number, IPv6Address) and number.ipv4_mapped is not None:
        return str(number.ipv4_mapped)
    return str(number)


def why(error: BaseException) -> str:
    """An error of the network in words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error)
