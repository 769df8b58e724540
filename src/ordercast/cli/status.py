"""`ordercast status CLUSTER`: what each site of this machine does, and what holds it up."""

import argparse
import asyncio
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, INCOMPLETE, complain, print_json
from ordercast.cli.destination import (
    Destination,
    LocalDestination,
    RemoteDestination,
    destination,
)
from ordercast.cli.runtime import (
    absences,
    as_bytes,
    broken_links,
    cluster_arguments,
    elsewhere,
    print_line,
    table_lines,
)
from ordercast.cli.screen import Screen, coloured, has_colours
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

_COLOURS = {"up": "green", "unwell": "yellow", "down": "red"}
_WELL = ("up", "elsewhere", "retired")
EVERY_S = 2.0
ANSWER_S = 2.0

DESCRIPTION = """\
Ask the running sites of a cluster how they are: those of the file, and those that were
added and have a store here. Sites of which this directory has nothing (they run on
other machines) are asked at their addresses for clients, with the certificate of a
site that is here, or shown as 'elsewhere'; those that have left as 'retired'. With a
context all sites of the cluster are asked, from any machine. The exit code is 1 when
a site that is not elsewhere does not answer or is not healthy, and when the directory
has nothing of the cluster at all; then the last line says where it is."""

EXAMPLE = """\
example:
  ordercast status cluster.toml
  ordercast status cluster.toml --watch
  ordercast status --context shop"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    parser.add_argument("--site", metavar="SITE", help="this site only")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again every two seconds, until Ctrl-C; with --json one object per line",
    )


def run(args: argparse.Namespace) -> int:
    place = destination(args, args.cluster, "status")
    in_place = args.watch and not args.json and sys.stdout.isatty()
    with Screen() if in_place else nullcontext() as screen:
        while True:
            found = asyncio.run(_ask_all(place, args.site))
            directory = str(place.directory) if isinstance(place, LocalDestination) else ""
            whole = {"cluster": place.name, "dir": directory, "sites": found}
            if args.watch and args.json:
                print_line(whole)
            elif args.json:
                print_json(whole)
            elif screen is not None:
                now = time.strftime("%H:%M:%S")
                screen.draw(f"{as_table(found)}\n\n{place.name} at {now}; Ctrl-C ends")
            else:
                print(as_table(found), flush=True)
            if not args.watch:
                return _verdict(place, found)
            time.sleep(EVERY_S)


def _verdict(place: Destination, found: dict[str, dict[str, Any]]) -> int:
    if isinstance(place, LocalDestination) and not _anything(place, found):
        cluster, directory = place.cluster, place.directory
        told = elsewhere(cluster, directory) or "; --dir, ORDERCAST_DIR or 'dir' names another one"
        complain(f"looked in {directory.absolute()}: nothing of cluster {cluster.name!r}{told}")
        return INCOMPLETE
    well = all(site["state"] in _WELL for site in found.values())
    return GOOD if well else INCOMPLETE


def _anything(place: LocalDestination, found: dict[str, dict[str, Any]]) -> bool:
    """Whether the directory has something of the cluster, or a site answers from elsewhere."""
    from ordercast.net.cluster.processes import is_known, sites_here

    here = sites_here(place.cluster, place.directory)
    known = any(is_known(place.directory, site) for site in here)
    return known or any("position" in status for status in found.values())


async def _ask_all(place: Destination, site: str | None) -> dict[str, dict[str, Any]]:
    if isinstance(place, RemoteDestination):
        return await _ask_elsewhere(place, site)
    from ordercast.net.cluster.processes import require_site, sites_here

    cluster, directory = place.cluster, place.directory
    if site is not None:
        require_site(cluster, site, directory)
    sites = sites_here(cluster, directory) if site is None else [site]
    found = await ask(cluster, sites, directory)
    return {**found, **await _ask_beyond(place, found)}


async def _ask_beyond(
    place: LocalDestination, found: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Sites of the file that are on other machines, and have an address for clients there: with the
    certificate of a site that is here."""
    from ordercast.net.client.endpoints import Credentials
    from ordercast.net.cluster.contexts import Context

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
    answers = await asyncio.gather(*(_ask_door(beyond, site, doors[site]) for site in doors))
    return dict(zip(doors, answers, strict=True))


async def _ask_elsewhere(place: RemoteDestination, site: str | None) -> dict[str, dict[str, Any]]:
    """All sites of the cluster, each at its own address for clients, from wherever this is."""
    async with place.client("", start_s=ANSWER_S, flush_s=0.1) as client:
        sites = list(client.sites) if site is None else [site]
        first = await client.status()
    doors = await place.doors(start_s=ANSWER_S, flush_s=0.1)
    if site is not None and site not in client.sites:
        raise ConfigError(f"there is no site {site!r}{nearest(site, client.sites)}")

    async def one(name: str) -> dict[str, Any]:
        if name == first["site"]:
            return _told(first)
        if name not in doors:
            return {"state": "elsewhere", "reasons": ["has no address for clients"]}
        return await _ask_door(place, name, doors[name])

    answers = await asyncio.gather(*map(one, sites))
    return dict(zip(sites, answers, strict=True))


async def _ask_door(place: RemoteDestination, site: str, door: str) -> dict[str, Any]:
    from ordercast.model.errors import Error

    try:
        async with (
            asyncio.timeout(ANSWER_S),
            place.at([door], site, start_s=ANSWER_S, flush_s=0.1) as client,
        ):
            return _told(await client.status())
    except TimeoutError:
        return {"state": "down", "reasons": [f"no answer within {ANSWER_S:g} s"]}
    except Error as error:
        return {"state": "down", "reasons": [str(error)]}


def _told(status: dict[str, Any]) -> dict[str, Any]:
    from ordercast.net.site.status import troubles, warnings

    reasons, near = troubles(status), warnings(status)
    state = "unwell" if reasons else "up"
    return {"state": state, "reasons": reasons, "warnings": near, **status}


async def ask(cluster: "Cluster", sites: list[str], directory: Path) -> dict[str, dict[str, Any]]:
    """Every site's status, asked at the same time."""
    answers = await asyncio.gather(*(_ask_one(cluster, site, directory) for site in sites))
    return dict(zip(sites, answers, strict=True))


async def _ask_one(cluster: "Cluster", site: str, directory: Path) -> dict[str, Any]:
    """`state` is up, unwell (with reasons), down, elsewhere or retired."""
    from ordercast.model.errors import Error
    from ordercast.net.client.client import connect
    from ordercast.net.cluster.processes import is_known, is_retired, log_file, running
    from ordercast.net.cluster.sockets import answers

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
            status = await client.status()
    except TimeoutError:
        return {"state": "down", "reasons": [f"no answer within {ANSWER_S:g} s"]}
    except Error as error:
        return {"state": "down", "reasons": [str(error)]}
    if is_retired(directory, site):
        return {"state": "retired", "reasons": [], **status}
    return _told(status)


_COLUMNS = (
    "site", "state", "position", "epoch", "lag", "window", "held by", "links", "store", "up for",
)  # fmt: skip


def as_table(found: dict[str, dict[str, Any]]) -> str:
    lines = table_lines([_COLUMNS, *(_row(site, status) for site, status in found.items())])
    if has_colours():
        states = [status["state"] for status in found.values()]
        lines[1:] = [_painted(*each) for each in zip(lines[1:], states, strict=True)]
    for site, status in found.items():
        lines.extend(f"{site}: {reason}" for reason in status["reasons"])
        lines.extend(f"{site}: {warning}" for warning in status.get("warnings", ()))
        lines.extend(
            f"{site}: link to {link['peer']} goes through {link['through']}"
            for link in status.get("links", ())
            if link["through"]
        )
    return "\n".join([*lines, *_broken(found), *_absences(found), *_programs(found)])


def _painted(line: str, state: str) -> str:
    """The row with its state in a colour."""
    if state not in _COLOURS:
        return line
    site, rest = line.split(maxsplit=1)
    gap = line[len(site) : len(line) - len(rest)]
    return site + gap + coloured(state, _COLOURS[state]) + rest.removeprefix(state)


def _broken(found: dict[str, dict[str, Any]]) -> list[str]:
    """Which sites do not hear each other: the manager says it, if it runs here."""
    pairs = {tuple(pair): None for status in found.values() for pair in status.get("apart", ())}
    return broken_links(pairs)


def _absences(found: dict[str, dict[str, Any]]) -> list[str]:
    """Who is excluded and what is frozen, by the site that has heard most."""
    known = [status for status in found.values() if "records" in status]
    if not known:
        return []
    latest = max(known, key=lambda status: int(status["records"]))
    decided = any(status["manager"] is not None for status in known)
    return absences(latest["excluded"], latest["frozen"], decided=decided)


def _programs(found: dict[str, dict[str, Any]]) -> list[str]:
    """The versions of the sites' programs, if they differ; features that not all sites have."""
    known = {site: status for site, status in found.items() if "features" in status}
    versions: dict[str, list[str]] = {}
    has: dict[str, list[str]] = {}
    for site, status in known.items():
        versions.setdefault(status["version"], []).append(site)
        for feature in status["features"]["program"]:
            has.setdefault(feature, []).append(site)
    used = {name: None for status in known.values() for name in status["features"]["used"]}
    lines = [f"version {one}: {', '.join(sites)}" for one, sites in sorted(versions.items())]
    return [*(lines if len(lines) > 1 else ()), *_features(has, list(known), list(used))]


def _features(has: dict[str, list[str]], sites: list[str], used: list[str]) -> list[str]:
    lines = []
    for feature in sorted(name for name in has if name not in used):
        without = [site for site in sites if site not in has[feature]]
        why = f"{', '.join(without)} without it" if without else "not all sites have told it yet"
        lines.append(f"feature {feature} is not used: {why}")
    return lines


def _row(site: str, status: dict[str, Any]) -> tuple[str, ...]:
    if "position" not in status:
        return (site, status["state"], *[""] * (len(_COLUMNS) - 2))
    window = status["window"]
    links = status["links"]
    connected = sum(link["state"] == "connected" for link in links)
    return (
        site,
        status["state"],
        str(status["position"]),
        str(status["epoch"]),
        str(status["lag"]),
        f"{window['messages']}/{window['limit_messages']}",
        ",".join(window["held_by"]) or "-",
        f"{connected}/{len(links)}",
        as_bytes(status["store"]["bytes"]),
        _time(status["uptime_s"]),
    )


def _time(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
