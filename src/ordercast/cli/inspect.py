"""`ordercast inspect CLUSTER [SITE…]`, `ordercast inspect FILE`: what stores hold."""

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.backup import copy_store
from ordercast.cli.command import GOOD, INCOMPLETE, UsageError, print_json
from ordercast.cli.destination import destination, first_word_is_cluster
from ordercast.cli.runtime import as_bytes, cluster_arguments, elsewhere, store_of, table_lines
from ordercast.model.errors import ConfigError
from ordercast.net.client.destinations import LocalDestination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.net.store.inspection import StoreReport

DESCRIPTION = """\
Tell what stores hold, how large they are, and what is damaged in them: of all sites that
have one here, of the sites named, or of one file (a store, or a copy of one). Everything
is read and every checksum verified; nothing is changed. Sites may run meanwhile. The exit
code is 1 when something is damaged. With a context the named sites' stores are copied to
here first, as by 'backup'."""

EXAMPLE = """\
example:
  ordercast inspect cluster.toml
  ordercast inspect cluster.toml a --json
  ordercast inspect a-monday.backup
  ordercast inspect a --context shop"""

_SQLITE = b"SQLite format 3"


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    parser.add_argument("sites", nargs="*", metavar="SITE", help="only these")


def run(args: argparse.Namespace) -> int:
    found = _reports(args)
    if args.json:
        print_json({"stores": [report.as_json() for report in found]})
    else:
        print("\n\n".join("\n".join(_told(report)) for report in found))
    return INCOMPLETE if any(report.damaged for report in found) else GOOD


def _reports(args: argparse.Namespace) -> list["StoreReport"]:
    from ordercast.net.store.inspection import inspect_store

    words = [word for word in (args.cluster, *args.sites) if word is not None]
    if len(words) == 1 and _is_store(Path(words[0])):
        return [inspect_store(Path(words[0]))]
    file = words.pop(0) if first_word_is_cluster(words, args) else None
    place = destination(args, file, "inspect")
    if isinstance(place, RemoteDestination):
        return _fetched(place, words)
    return [inspect_store(path) for path in _stores(place, words)]


def _fetched(place: RemoteDestination, sites: list[str]) -> list["StoreReport"]:
    """Copies of the stores. Each is read when it is here, and goes then."""
    if not sites:
        raise UsageError("inspect: with a context, name the sites whose stores are to be copied")
    found = []
    with tempfile.TemporaryDirectory(prefix="ordercast-inspect-") as scratch:
        for site in sites:
            copy = Path(scratch) / f"{site}.db"
            found.append(copy_store(place, site, copy))
            found[-1].path = Path(f"{place.name}/{site}")
            copy.unlink()
    return found


def _stores(place: LocalDestination, sites: list[str]) -> list[Path]:
    from ordercast.net.cluster.processes import sites_here

    cluster, directory = place.cluster, place.directory
    if sites:
        return [store_of(cluster, site, directory) for site in sites]
    paths = [store_of(cluster, site, directory) for site in sites_here(cluster, directory)]
    there = [path for path in paths if path.exists()]
    if not there:
        raise ConfigError(
            f"{directory}: there is no store of cluster {cluster.name!r}"
            f"{elsewhere(cluster, directory)}"
        )
    return there


def _is_store(file: Path) -> bool:
    """By its first bytes, or by its name where these are damaged."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(_SQLITE)) == _SQLITE or file.suffix == ".db"
    except OSError:
        return False


def _told(report: "StoreReport") -> list[str]:
    at = report.positions
    rows = [
        ("site", f"{report.site} of cluster {report.cluster}"),
        ("store", f"{report.store}, start {report.boot}, incarnation {report.incarnation or '?'}"),
        ("ended", _ended(report.closed)),
        ("epoch", f"{report.epoch:,}"),
        (
            "positions",
            f"{at.get('first', 0):,} to {at.get('logged', 0):,} kept,"
            f" {at.get('delivered', 0):,} delivered, {at.get('confirmed', 0):,} confirmed",
        ),
        ("rows", "{:,} to {:,}".format(*report.rows) + _age(report.oldest_ns)),
        ("bytes", ", ".join(f"{as_bytes(size)} {what}" for what, size in report.bytes.items())),
    ]
    for name, table in report.tables.items():
        rows.append((f"  {name}", f"{table['rows']:,} rows, {as_bytes(table['bytes'])}"))
    for site, (boot, row) in sorted(report.heard.items()):
        rows.append((f"  {site}'s store", f"was at row {row:,} in start {boot}"))
    if report.restored is not None:
        rows.append(("restored", f"from a copy of start {report.restored['boot']}"))
    rows += [("damage", line) for line in report.damage]
    if report.damaged > len(report.damage):
        rows.append(("damage", f"and {report.damaged - len(report.damage):,} more"))
    if not report.damaged:
        rows.append(("damage", "none"))
    return [f"{report.path}:", *(f"  {line}" for line in table_lines(rows))]


def _ended(closed: dict[str, Any] | None) -> str:
    if closed is None:
        return "not closed: the site runs, or was killed"
    return "closed, with nothing left to do" if closed.get("quiet") else "closed"


def _age(oldest_ns: int | None) -> str:
    if oldest_ns is None:
        return ""
    return f", the oldest of {time.strftime('%Y-%m-%d %H:%M', time.gmtime(oldest_ns / 1e9))} UTC"
