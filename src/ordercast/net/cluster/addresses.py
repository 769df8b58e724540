"""Where sites listen: what is allowed without certificates, and errors of the network in words."""

from collections.abc import Mapping
from ipaddress import ip_address

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site


def require_loopback(addresses: Mapping[Site, tuple[str, int]]) -> None:
    """Without certificates anybody who reaches a port can pretend to be a site."""
    for site, (host, _) in addresses.items():
        if not is_loopback(host):
            raise ConfigError(
                f"address of site {site!r}: {host} is not loopback, and there are no certificates"
                " (give [tls] a directory, or set insecure = true)"
            )


def why_not_dialled(site: Site, address: tuple[str, int] | None, *, loopback_only: bool) -> str:
    """Of a site that was added while running: its address is as good as it was asked for."""
    if address is None:
        return "no address is known"
    try:
        if loopback_only:
            require_loopback({site: address})
    except ConfigError as error:
        return str(error)
    return ""


def is_loopback(host: str) -> bool:
    """Only this machine reaches it. Names are the same in capitals."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error)
