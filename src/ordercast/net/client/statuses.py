"""The statuses of all sites of a cluster, asked at the same time, wherever they are.

A status is the object that its daemon tells, with `state`, `reasons`, `warnings` and `asked_ns`. A
site that does not answer has `state` and `reasons` alone. An overview is one view of them all.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Site
from ordercast.model.names import nearest
from ordercast.net.client.client import Client, connect
from ordercast.net.client.destinations import (
    ANSWER_S,
    Destination,
    LocalDestination,
    RemoteDestination,
)
from ordercast.net.client.endpoints import Credentials
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.contexts import Context
from ordercast.net.cluster.processes import (
    is_known,
    is_retired,
    log_file,
    require_site,
    running,
    sites_here,
)
from ordercast.net.cluster.sockets import answers
from ordercast.net.site.status import troubles, warnings

Statuses: TypeAlias = dict[Site, dict[str, Any]]


async def ask_all(place: Destination, site: Site | None = None) -> Statuses:
    """Every site's status, or only this one's."""
    if isinstance(place, RemoteDestination):
        return await _ask_elsewhere(place, site)
    cluster, directory = place.cluster, place.directory
    if site is not None:
        require_site(cluster, site, directory)
    sites = sites_here(cluster, directory) if site is None else [site]
    found = await ask(cluster, sites, directory)
    return {**found, **await _ask_beyond(place, found)}


async def ask(cluster: Cluster, sites: list[Site], directory: Path) -> Statuses:
    """The statuses of these sites, at their sockets on this machine."""
    found = await asyncio.gather(*(_ask_one(cluster, site, directory) for site in sites))
    return dict(zip(sites, found, strict=True))


async def _ask_one(cluster: Cluster, site: Site, directory: Path) -> dict[str, Any]:
    """`state` is up, unwell (with reasons), down, elsewhere or retired."""
    if running(directory, site) is None and not answers(directory / f"{site}.sock"):
        if is_retired(directory, site):
            return {"state": "retired", "reasons": []}
        if not is_known(directory, site):
            return {"state": "elsewhere", "reasons": []}
        log = log_file(directory, site)
        hint = f" (its log: {log})" if log.exists() else ""
        return {"state": "down", "reasons": [f"no process runs it{hint}"]}
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            connect(cluster, site, directory, start_s=ANSWER_S, flush_s=0.1) as client,
        ):
            status = await _status(client)
    except TimeoutError:
        return _down(f"no answer within {ANSWER_S:g} s")
    except Error as error:
        return _down(str(error))
    if is_retired(directory, site):
        return {"state": "retired", "reasons": [], **status}
    return _told(status)


async def _ask_beyond(place: LocalDestination, found: Statuses) -> Statuses:
    """Ask the sites of the file that are on other machines and have an address for clients there,
    with the certificate of a site that is here."""
    tls, sites = place.cluster.tls, place.cluster.sites
    there = {site: sites[site].clients for site in found if site in sites}
    doors = {
        site: f"tls://{door[0]}:{door[1]}"
        for site, door in there.items()
        if door is not None and found[site]["state"] == "elsewhere"
    }
    if tls is None or not doors:
        return {}
    ours = [site for site in sorted(sites) if Credentials(tls.directory / f"{site}.pem").usable()]
    if not ours:
        return {}
    cert = str(tls.directory / f"{ours[0]}.pem")
    beyond = RemoteDestination(Context("", tuple(doors.values()), cert=cert))
    told = await asyncio.gather(*(_ask_door(beyond, site, doors[site]) for site in doors))
    return {site: {**status, "here": False} for site, status in zip(doors, told, strict=True)}


async def _ask_elsewhere(place: RemoteDestination, site: Site | None) -> Statuses:
    """All sites of the cluster, each at its own address for clients, from wherever this is."""
    async with place.client("", start_s=ANSWER_S, flush_s=0.1) as client:
        known = list(client.sites)
        sites = known if site is None else [site]
        first = await _status(client)
    if site is not None and site not in known:
        raise ConfigError(f"there is no site {site!r}{nearest(site, known)}")
    told = await _ask_doors(place, sites, first)
    heard = {
        link["peer"]
        for status in told.values()
        for link in status.get("links", ())
        if link["state"] == "connected"
    }
    return {name: told[name] if name in told else _not_asked(name in heard) for name in sites}


async def _ask_doors(
    place: RemoteDestination, sites: Sequence[Site], first: dict[str, Any]
) -> Statuses:
    """The statuses of these sites, as far as their doors are known, and of the sites that were
    asked for doors. A daemon knows the doors in its cluster file and the doors of sites that it has
    met. So each daemon that answers may know more of them, and so may the daemons at the context's
    other addresses."""
    found = {first["site"]: _told(first)}
    addresses: dict[str, Site] = {}  # the doors that were asked
    doors = place.addresses_of(first.get("doors", {}))
    while True:
        there = {doors[name]: name for name in sites if name in doors and name not in found}
        if not there and any(name not in found for name in sites):
            there = dict.fromkeys(place.context.addresses, "")
        there = {address: name for address, name in there.items() if address not in addresses}
        if not there:
            return found
        addresses |= there
        told = await asyncio.gather(*(_ask_door(place, there[each], each) for each in there))
        for asked, status in zip(there.values(), told, strict=True):
            name = status.get("site", asked)
            if name and name not in found:
                found[name] = status
            for other, door in place.addresses_of(status.get("doors", {})).items():
                doors.setdefault(other, door)


def _not_asked(heard: bool) -> dict[str, Any]:
    """A site whose door nobody knows. If no other site hears it either, it may not run at all."""
    why = "no site that answers knows an address of it for clients"
    if heard:
        return {"state": "elsewhere", "reasons": [why]}
    return _down(f"{why}, or has a connection to it")


async def _ask_door(place: RemoteDestination, site: Site, door: str) -> dict[str, Any]:
    """`site`: "" for whichever answers there."""
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            place.at([door], site, start_s=ANSWER_S, flush_s=0.1) as client,
        ):
            return _told(await _status(client))
    except TimeoutError:
        return _down(f"no answer within {ANSWER_S:g} s")
    except Error as error:
        return _down(str(error))


async def _status(client: Client) -> dict[str, Any]:
    """What the daemon tells, with `asked_ns`: the times of our clock before the question and after
    the answer."""
    before = time.time_ns()
    status = await client.status()
    return {**status, "asked_ns": [before, time.time_ns()]}


def _down(why: str) -> dict[str, Any]:
    return {"state": "down", "reasons": [why]}


def _told(status: dict[str, Any]) -> dict[str, Any]:
    reasons, near = troubles(status), warnings(status)
    state = "unwell" if reasons else "up"
    return {"state": state, "reasons": reasons, "warnings": near, **status}
