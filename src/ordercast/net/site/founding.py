"""The founding of a site: from the cluster file, or from its store, which remembers the founding.

A site of the file is one of the founders. Any other is a newcomer: it knows its address and whom to
ask, and is told the rest once the others have admitted it. A site with a store goes by the store:
the file may have been edited since, and founders that begin differently would disagree for ever. A
store without any row does not count: a site that votes for a founding writes a row first.
"""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Layout, nowhere
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.groups import Site
from ordercast.model.names import nearest, require_name
from ordercast.net.cluster.addresses import parse_address
from ordercast.net.cluster.config import Cluster
from ordercast.net.site.assembly import AnyStore
from ordercast.net.store.events import founding_facts

_log = logging.getLogger("ordercast.net.node")


class _Founded(msgspec.Struct, frozen=True, array_like=True):
    """As the store keeps it. `tie`, the sites preferred in ties, also decides later forests."""

    layout: bytes
    tie: tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Beginning:
    cluster: Cluster
    layout: Layout  # of the first start; later changes are in the records
    address: tuple[str, int]


def begin(cluster: Cluster, site: Site, store: AnyStore, address: str = "") -> Beginning:
    """What the site starts with. `address` is a newcomer's; its store remembers it."""
    at = _address(cluster, site, address or store.address)
    if store.founded and store.begun:
        return _again(cluster, site, store, at)
    layout = cluster.first_layout() if site in cluster.sites else _newcomer(cluster, site)
    remember(store, cluster, layout, at)
    return Beginning(cluster, layout, at)


def _newcomer(cluster: Cluster, site: Site) -> Layout:
    """The newcomer believes the sites of its file, and joins only the cluster that the file
    founded."""
    there = [name for name in cluster.sites if name != site and name not in cluster.retired]
    return nowhere(there, cluster.first_layout().founding)


def remember(
    store: AnyStore, cluster: Cluster, layout: Layout, address: tuple[str, int], founding: str = ""
) -> None:
    """Keep the founding in the store. `founding`: what a newcomer was told."""
    founded = msgspec.msgpack.encode(_Founded(pack_layout(layout), cluster.tie))
    host, port = address
    at = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    known = layout.founding if layout.count >= 0 else ""  # a newcomer is not told yet
    store.keep_founding(founded, founding or known, at)
    store.describe(
        deliver=cluster.deliver, on_failure=cluster.on_failure, epochs=founding_facts(layout)
    )


def require_as_before(cluster: Cluster, described: Mapping[str, Any], path: object) -> None:
    """Refuse another level or policy: earlier deliveries do not keep the promises of the new one.
    `described`: what the store at `path` says of its cluster."""
    for field in ("deliver", "on_failure"):
        before, now = described.get(field), getattr(cluster, field)
        if before not in (None, now):
            raise ConfigError(
                f"{cluster.source}: cluster.{field}: {now!r}, but {path} was run with"
                f" {before!r}, which is fixed; write that, or begin anew with another --dir"
            )


def _again(cluster: Cluster, site: Site, store: AnyStore, address: tuple[str, int]) -> Beginning:
    try:
        founded = msgspec.msgpack.decode(store.founded, type=_Founded)
        cluster = replace(cluster, tie=founded.tie)
        layout = unpack_layout(founded.layout, cluster.build)
    except msgspec.DecodeError as error:
        raise StoreCorrupt(f"{store.path}: what the cluster was founded with: {error}") from None
    if layout.count < 0:
        layout = _newcomer(cluster, site)  # the file may name other sites by now
    if site in cluster.sites and layout.founding not in ("", cluster.first_layout().founding):
        _log.info(
            "%s: sites, groups, voters, protocol or builder differ from what the cluster was"
            " founded with: they are not looked at any more, the cluster is changed while it runs",
            cluster.source,
        )
    require_as_before(cluster, store.described, store.path)
    remember(store, cluster, layout, address, store.founding)
    return Beginning(cluster, layout, address)


def forests_of(layout: Layout) -> str:
    """A digest of the forests that a cluster begins with; "": this site was no founder. Parents are
    in the founding too, but primaries are not, nor which builder `auto` has chosen."""
    if not layout.domains:
        return ""
    forests = [domain.structure.forest for domain in layout.domains.values()]
    told = [(one.builder, sorted(one.primary.items())) for one in forests]
    return hashlib.sha256(msgspec.msgpack.encode(told)).hexdigest()[:32]


def _address(cluster: Cluster, site: Site, newcomer: str) -> tuple[str, int]:
    written = cluster.sites.get(site)
    if written is not None:
        return written.address
    if not newcomer:
        raise _unknown(cluster, site)
    require_name(site, "site")
    return parse_address(newcomer, f"address of site {site!r}", least_port=0)


def require_known(cluster: Cluster, site: Site, directory: Path, address: str) -> None:
    """Before a store is made: a site of the file, or one with an address or with a store."""
    if site not in cluster.sites and not address and not (directory / f"{site}.db").exists():
        raise _unknown(cluster, site)


def _unknown(cluster: Cluster, site: Site) -> ConfigError:
    return ConfigError(
        f"{cluster.source}: there is no site {site!r}{nearest(site, cluster.sites)}; a site that is"
        " added while the cluster runs is started with its address"
    )
