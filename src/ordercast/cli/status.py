"""`ordercast status CLUSTER`: what each site of this machine does, and what holds it up."""

import argparse
import asyncio
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, INCOMPLETE, complain, print_json
from ordercast.cli.runtime import (
    absences,
    broken_links,
    cluster_arguments,
    cluster_of,
    elsewhere,
    print_line,
    table_lines,
)
from ordercast.cli.screen import Screen, coloured, has_colours

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

_COLOURS = {"up": "green", "unwell": "yellow", "down": "red"}
_WELL = ("up", "elsewhere", "retired")
EVERY_S = 2.0
ANSWER_S = 2.0

DESCRIPTION = """\
Ask the running sites of a cluster how they are: those of the file, and those that were
added and have a store here. Sites of which this directory has nothing (they run on
other machines) are shown as 'elsewhere', those that have left as 'retired'. The exit
code is 1 when a site that belongs here does not answer or is not healthy, and when
the directory has nothing of the cluster at all; then the last line says where it is."""

EXAMPLE = """\
example:
  ordercast status cluster.toml
  ordercast status cluster.toml --watch"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("--site", metavar="SITE", help="this site only")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="again every two seconds, until Ctrl-C; with --json one object per line",
    )


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.processes import require_site, sites_here

    cluster, directory = cluster_of(args)
    if args.site is not None:
        require_site(cluster, args.site, directory)
    in_place = args.watch and not args.json and sys.stdout.isatty()
    with Screen() if in_place else nullcontext() as screen:
        while True:
            sites = sites_here(cluster, directory) if args.site is None else [args.site]
            found = asyncio.run(ask(cluster, sites, directory))
            whole = {"cluster": cluster.name, "dir": str(directory), "sites": found}
            if args.watch and args.json:
                print_line(whole)
            elif args.json:
                print_json(whole)
            elif screen is not None:
                now = time.strftime("%H:%M:%S")
                screen.draw(f"{as_table(found)}\n\n{cluster.name} at {now}; Ctrl-C ends")
            else:
                print(as_table(found), flush=True)
            if not args.watch:
                return _verdict(cluster, directory, found)
            time.sleep(EVERY_S)


def _verdict(cluster: "Cluster", directory: Path, found: dict[str, dict[str, Any]]) -> int:
    from ordercast.net.cluster.processes import is_known, sites_here

    if not any(is_known(directory, site) for site in sites_here(cluster, directory)):
        told = elsewhere(cluster, directory) or "; --dir, ORDERCAST_DIR or 'dir' names another one"
        complain(f"looked in {directory.absolute()}: nothing of cluster {cluster.name!r}{told}")
        return INCOMPLETE
    well = all(site["state"] in _WELL for site in found.values())
    return GOOD if well else INCOMPLETE


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
    from ordercast.net.site.status import troubles

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
    reasons = troubles(status)
    return {"state": "unwell" if reasons else "up", "reasons": reasons, **status}


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
        lines.extend(f"{site}: {warning}" for warning in _warnings(status))
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


def _warnings(status: dict[str, Any]) -> list[str]:
    from ordercast.net.site.status import warnings

    return warnings(status) if "certificate_ends_s" in status else []


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
        _bytes(status["store"]["bytes"]),
        _time(status["uptime_s"]),
    )


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def _time(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
