"""`ordercast status CLUSTER`: what each site of this machine does, and what holds it up."""

import argparse
import asyncio
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ordercast.cli.colours import BAD_WORDS, GOOD_WORDS, WARNING_WORDS, coloured
from ordercast.cli.command import GOOD, INCOMPLETE, complain, print_json
from ordercast.cli.destination import destination
from ordercast.cli.runtime import (
    absences,
    as_bytes,
    broken_links,
    cluster_arguments,
    elsewhere,
    print_line,
    table_lines,
)
from ordercast.cli.screen import Screen
from ordercast.net.client.destinations import Destination, LocalDestination

if TYPE_CHECKING:
    from ordercast.net.client.overview import Overview, SiteOverview

_COLOURS = {"up": GOOD_WORDS, "unwell": WARNING_WORDS, "down": BAD_WORDS}
_WELL = ("up", "elsewhere", "retired")
EVERY_S = 2.0

DESCRIPTION = """\
Ask the running sites of a cluster how they are: those of the file, and those that were
added and have a store here. Sites of which this directory has nothing (they run on
other machines) are asked at their addresses for clients, with the certificate of a
site that is here, or shown as 'elsewhere'; those that have left as 'retired'. With a
context all sites of the cluster are asked, from any machine; one that no site hears,
and that nobody knows how to ask, is 'down'. The exit code is 1 when a site that is not
elsewhere does not answer or is not healthy, and when nothing is known: no site answers,
and the directory has nothing of the cluster. If it has nothing, the last line says so,
and where it is."""

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
    from ordercast.net.client.overview import overview
    from ordercast.net.client.statuses import ask_all

    place = destination(args, args.cluster, "status")
    in_place = args.watch and not args.json and sys.stdout.isatty()
    view: Overview | None = None
    with Screen() if in_place else nullcontext() as screen:
        while True:
            found = asyncio.run(ask_all(place, args.site))
            view = overview(place.name, found, time.monotonic(), view)
            directory = str(place.directory) if isinstance(place, LocalDestination) else ""
            whole = {"cluster": place.name, "dir": directory, "sites": found}
            if args.watch and args.json:
                print_line(whole)
            elif args.json:
                print_json(whole)
            elif screen is not None:
                now = time.strftime("%H:%M:%S")
                screen.draw(f"{as_table(found, view)}\n\n{place.name} at {now}; Ctrl-C ends")
            else:
                print(as_table(found, view), flush=True)
            if not args.watch:
                return _verdict(place, found)
            time.sleep(EVERY_S)


def _verdict(place: Destination, found: dict[str, dict[str, Any]]) -> int:
    well = all(site["state"] in _WELL for site in found.values())
    if isinstance(place, LocalDestination) and not _anything(place):
        cluster, directory = place.cluster, place.directory
        told = elsewhere(cluster, directory) or "; --dir, ORDERCAST_DIR or 'dir' names another one"
        complain(f"looked in {directory.absolute()}: nothing of cluster {cluster.name!r}{told}")
        well = well and any("position" in site for site in found.values())
    return GOOD if well else INCOMPLETE


def _anything(place: LocalDestination) -> bool:
    """Whether the directory has something of the cluster. A user who meant this directory must hear
    that it is the wrong one, also if sites answer from elsewhere."""
    from ordercast.net.cluster.processes import is_known, sites_here

    here = sites_here(place.cluster, place.directory)
    return any(is_known(place.directory, site) for site in here)


_COLUMNS = (
    "site", "state", "position", "per s", "epoch", "lag", "window", "held by", "links", "store",
    "up for",
)  # fmt: skip


def as_table(found: dict[str, dict[str, Any]], view: "Overview") -> str:
    lines = table_lines([_COLUMNS, *map(_row, view.sites.values())])
    states = [site.state for site in view.sites.values()]
    lines[1:] = [_painted(*each) for each in zip(lines[1:], states, strict=True)]
    for site in view.sites.values():
        lines.extend(f"{site.site}: {told}" for told in (*site.reasons, *site.warnings))
        lines.extend(
            f"{site.site}: link to {link.peer} goes through {link.through}"
            for link in view.links
            if link.site == site.site and link.through
        )
    lines += broken_links(view.apart)  # the manager says it, if it was asked
    lines += absences(view.excluded, _frozen(view), decided=view.manager is not None)
    return "\n".join([*lines, *_programs(found)])


def _frozen(view: "Overview") -> dict[str, tuple[str, ...]]:
    return {group.group: group.frozen for group in view.groups.values() if group.frozen}


def _painted(line: str, state: str) -> str:
    """The row with its state in a colour."""
    if state not in _COLOURS:
        return line
    site, rest = line.split(maxsplit=1)
    gap = line[len(site) : len(line) - len(rest)]
    return site + gap + coloured(state, _COLOURS[state]) + rest.removeprefix(state)


def _programs(found: dict[str, dict[str, Any]]) -> list[str]:
    """The sites' programs, if they differ or are compiled; features that not all sites have."""
    known = {site: each for site, each in found.items() if "features" in each and _founded(each)}
    versions: dict[str, list[str]] = {}
    has: dict[str, list[str]] = {}
    for site, status in known.items():
        code = status.get("code", "pure")
        told = status["version"] if code == "pure" else f"{status['version']} ({code})"
        versions.setdefault(told, []).append(site)
        for feature in status["features"]["program"]:
            has.setdefault(feature, []).append(site)
    used = {name: None for status in known.values() for name in status["features"]["used"]}
    lines = [f"version {one}: {', '.join(sites)}" for one, sites in sorted(versions.items())]
    plain = len(lines) < 2 and not any(one.endswith(")") for one in versions)
    return [*(() if plain else lines), *_features(has, list(known), list(used))]


def _founded(status: dict[str, Any]) -> bool:
    """Features are agreed on after the founding."""
    from ordercast.net.site.presence import NOT_FOUNDED

    return not any(reason.startswith(NOT_FOUNDED) for reason in status["reasons"])


def _features(has: dict[str, list[str]], sites: list[str], used: list[str]) -> list[str]:
    lines = []
    for feature in sorted(name for name in has if name not in used):
        without = [site for site in sites if site not in has[feature]]
        why = f"{', '.join(without)} without it" if without else "not all sites have told it yet"
        lines.append(f"feature {feature} is not used: {why}")
    return lines


def _row(site: "SiteOverview") -> tuple[str, ...]:
    if not site.known:
        return (site.site, site.state, *[""] * (len(_COLUMNS) - 2))
    return (
        site.site,
        site.state,
        f"{site.position:,}",
        "-" if site.rate is None else f"{site.rate:,.0f}",
        f"{site.epoch:,}",
        f"{site.lag:,}",
        f"{site.window.value:,}/{site.window.limit:,}",
        ",".join(site.held_by) or "-",
        f"{site.links_up}/{site.links}",
        as_bytes(site.store_bytes),
        _time(site.uptime_s),
    )


def _time(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
