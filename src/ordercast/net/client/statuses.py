"""The statuses of all sites of a cluster, asked at the same time, wherever they are.

A status is the object that its daemon tells, with `state`, `reasons`, `warnings` and `asked_ns`. A
site that does not answer has `state` and `reasons` alone. An overview is one view of them all.
"""

import asyncio
import time
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
    """Sites of the file that are on other machines, and have an address for clients there: with the
    certificate of a site that is here."""
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
        sites = list(client.sites) if site is None else [site]
        first = await _status(client)
    doors = await place.doors(start_s=ANSWER_S, flush_s=0.1)
    if site is not None and site not in client.sites:
        raise ConfigError(f"there is no site {site!r}{nearest(site, client.sites)}")

    async def one(name: Site) -> dict[str, Any]:
        if name == first["site"]:
            return _told(first)
        if name not in doors:
            return {"state": "elsewhere", "reasons": ["has no address for clients"]}
        return await _ask_door(place, name, doors[name])

    told = await asyncio.gather(*map(one, sites))
    return dict(zip(sites, told, strict=True))


async def _ask_door(place: RemoteDestination, site: Site, door: str) -> dict[str, Any]:
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
    """What the daemon tells, with `asked_ns`: between these two times of our clock it answered."""
    before = time.time_ns()
    status = await client.status()
    return {**status, "asked_ns": [before, time.time_ns()]}


def _down(why: str) -> dict[str, Any]:
    return {"state": "down", "reasons": [why]}


def _told(status: dict[str, Any]) -> dict[str, Any]:
    reasons, near = troubles(status), warnings(status)
    state = "unwell" if reasons else "up"
    return {"state": state, "reasons": reasons, "warnings": near, **status}
