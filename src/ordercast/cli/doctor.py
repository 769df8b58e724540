"""`ordercast doctor CLUSTER`: what is wrong with a cluster as seen from here, and what to do."""

import argparse
import asyncio
import errno
import shutil
import socket
import time
from collections.abc import Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ordercast.cli.colours import BAD_WORDS, GOOD_WORDS, WARNING_WORDS, coloured
from ordercast.cli.command import GOOD, INCOMPLETE, print_json
from ordercast.cli.destination import destination
from ordercast.cli.runtime import cluster_arguments, elsewhere, table_lines
from ordercast.net.client.destinations import RemoteDestination

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

DESCRIPTION = """\
Look at a cluster from this machine: its file, its directory, the ports and certificates
of its sites, and what the running sites say. For each thing that is wrong it says what
to do next. It changes nothing. With a context it tells what the daemons say, from any
machine; files, ports and disks it sees on their machines only."""

EXAMPLE = """\
example:
  ordercast doctor cluster.toml
  ordercast doctor --context shop

exit code: 0 when nothing is wrong (there may be warnings), 1 when something is"""

Statuses: TypeAlias = dict[str, dict[str, Any]]

OK, WARNING, WRONG = "ok", "warning", "wrong"
_COLOURS = {OK: GOOD_WORDS, WARNING: WARNING_WORDS, WRONG: BAD_WORDS}
_LEAST_DISK = 1 << 30  # bytes
OURS = "our certificate"
_CLOCKS_S = 1.0  # clocks that differ by more make logs of two sites hard to read together


class Diagnosis(NamedTuple):
    level: str
    about: str
    found: str
    cure: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)


def run(args: argparse.Namespace) -> int:
    from ordercast.net.client.statuses import ask_all

    place = destination(args, args.cluster, "doctor")
    sites = asyncio.run(ask_all(place))
    if isinstance(place, RemoteDestination):
        directory = ""
        findings = list(examine_elsewhere(place, sites))
    else:
        directory = str(place.directory)
        findings = list(examine(place.cluster, place.directory, sites))
    well = all(finding.level != WRONG for finding in findings)
    if args.json:
        rows = [finding._asdict() for finding in findings]
        print_json({"cluster": place.name, "dir": directory, "ok": well, "findings": rows})
    else:
        print("\n".join(_lines(findings)))
    return GOOD if well else INCOMPLETE


def examine_elsewhere(place: RemoteDestination, sites: Statuses) -> Iterator[Diagnosis]:
    """The reports of a context's daemons, and the things that cannot be seen from here."""
    yield Diagnosis(OK, place.source, f"cluster {place.name}, {_counted(sites, 'site')}")
    ours, _ = place.credentials.certificates() if place.credentials.cert else (None, "")
    if ours is not None:
        yield _good_for(
            OURS,
            ours.ends_at - int(time.time()),
            "ordercast certs CLUSTER --client NAME --renew, where the authority is",
        )
    for site, status in sites.items():
        if status["state"] == "elsewhere":
            cure = "look at it on its machine, or write 'clients' for it in the cluster file"
            yield Diagnosis(WARNING, site, "; ".join(status["reasons"]), cure)
        yield from _site(None, None, site, sites)
        if (left_s := status.get("certificate_ends_s")) is not None:
            yield _good_for(site, left_s, f"on its machine: ordercast certs CLUSTER --site {site}")
    yield from _together(None, sites)
    yield from _clocks(sites)
    told = "files, ports and disks are not seen from here: run it with the cluster file there too"
    yield Diagnosis(OK, "not seen", told)


def examine(cluster: "Cluster", directory: Path, sites: Statuses) -> Iterator[Diagnosis]:
    """What is found, in the order in which it is best mended."""
    here = {site: status.get("here", True) for site, status in sites.items()}
    counts = f"{_counted(cluster.sites, 'site')}, {_counted(cluster.groups, 'group')}"
    yield Diagnosis(OK, str(cluster.source), counts)
    states = {site: sites[site]["state"] for site in sites if here[site]}
    yield from _place(cluster, directory, states)
    for site, status in sites.items():
        yield from _site(cluster, directory, site, sites)
        away = not here[site] or status["state"] in ("elsewhere", "retired")
        if cluster.tls is not None and not away:
            yield from _certificate(cluster, site)
    yield from _together(cluster, sites)
    yield from _clocks(sites)


def _counted(things: Sized, word: str) -> str:
    return f"{len(things):,} {word}{'s' if len(things) != 1 else ''}"


def _place(cluster: "Cluster", directory: Path, states: dict[str, str]) -> Iterator[Diagnosis]:
    """`states`: of the sites that this directory has something of."""
    if all(state in ("elsewhere", "retired") for state in states.values()):
        there = elsewhere(cluster, directory).removeprefix("; ")
        cure = there or f"ordercast cluster up {cluster.source} --detach"
        yield Diagnosis(WRONG, str(directory), "nothing of this cluster is here", cure)
        return
    if all(state in ("down", "elsewhere", "retired") for state in states.values()):
        cure = f"ordercast cluster up {cluster.source} --detach"
        if any(_store(cluster, directory, site) for site in states if states[site] == "down"):
            cure = f"mend the stores that are named below; then {cure}"
        yield Diagnosis(WRONG, str(directory), "no site runs here", cure)
    free = shutil.disk_usage(directory).free
    level = OK if free >= _LEAST_DISK else WARNING
    cure = "" if level == OK else "make room: a site whose store cannot be written is excluded"
    yield Diagnosis(level, str(directory), f"{free / 1e9:.1f} GB free", cure)


def _site(
    cluster: "Cluster | None", directory: Path | None, site: str, sites: Statuses
) -> Iterator[Diagnosis]:
    """Without a cluster file all sites are elsewhere."""
    status = sites[site]
    state = status["state"]
    if state in ("elsewhere", "retired"):
        return
    if state == "up":
        yield Diagnosis(OK, site, f"up, position {status['position']:,}")
    for reason in status["reasons"]:
        if state != "down":
            yield _unwell(cluster, directory, site, reason, sites)
        elif cluster is not None and directory is not None and status.get("here", True):
            yield _down(cluster, directory, site, reason)
        else:
            yield Diagnosis(WRONG, site, reason, "start it on its machine, or mend the way")
    for warning in status.get("warnings", ()):
        if not warning.startswith("its certificate"):  # which is read below
            file = "CLUSTER" if cluster is None else cluster.source
            cure = f"read on; ordercast reader list {file} {site} shows who is how far"
            yield Diagnosis(WARNING, site, warning, cure)


def _unwell(
    cluster: "Cluster | None", directory: Path | None, site: str, reason: str, sites: Statuses
) -> Diagnosis:
    """A site that runs, and says itself what is wrong."""
    from ordercast.net.cluster.processes import log_file
    from ordercast.net.site.presence import NOT_FOUNDED, awaited

    kind = reason.partition(":")[0]
    if kind == NOT_FOUNDED:
        return Diagnosis(WRONG, site, reason, _starts(cluster, awaited(reason), sites))
    if kind.startswith("link to "):
        cure = "see that the peer runs and its address is right"
        return Diagnosis(WARNING, site, reason, cure)
    if kind == "no majority":
        voters = sites[site].get("voters", list(sites))
        away = [one for one in voters if not _runs(sites.get(one))]
        cure = _starts(cluster, away, sites) if away else "mend the network between the voters"
    elif kind == "store":
        cure = f"mend the disk or make room on it; then {_restart(cluster, site)}"
    elif kind.startswith("replica of "):
        cure = "ordercast docs operations: 'replica of ...: diverged' says how to find the cause"
    else:
        cure = "it returns by itself when a majority of the voters answers"
        if directory is not None and (log := log_file(directory, site)).exists():
            cure += f"; if it does not, its log says why: {log}"
    return Diagnosis(WRONG, site, reason, cure)


def _runs(status: dict[str, Any] | None) -> bool:
    return status is not None and status["state"] in ("up", "unwell")


def _starts(cluster: "Cluster | None", names: list[str], sites: Statuses) -> str:
    """The commands that start these sites, each where it is."""
    from ordercast.net.cluster.addresses import is_loopback

    steps = []
    for name in names:
        status = sites.get(name)
        written = None if cluster is None else cluster.sites.get(name)
        here = status is not None and status.get("here", True) and status["state"] == "down"
        if _runs(status):
            steps.append(f"{name} runs: see that its address is right, and mend the way to it")
        elif cluster is None:
            steps.append(f"on its machine: {_restart(None, name)}")
        elif here or (written is not None and is_loopback(written.address[0])):
            steps.append(_restart(cluster, name))
        else:
            steps.append(f"on its machine: ordercast node {cluster.source} --site {name}")
    return "; ".join(steps)


def _restart(cluster: "Cluster | None", site: str) -> str:
    return f"ordercast cluster restart {'CLUSTER' if cluster is None else cluster.source} {site}"


def _down(cluster: "Cluster", directory: Path, site: str, reason: str) -> Diagnosis:
    """The site cannot use its store, its port is taken, or it only has to be started."""
    from ordercast.net.cluster.processes import running

    written = cluster.sites.get(site)
    if running(directory, site) is not None:
        return Diagnosis(WRONG, site, reason, _restart(cluster, site))
    if (wrong := _store(cluster, directory, site)) is not None:
        return wrong
    if written is not None and (taken := _is_taken(*written.address)):
        cure = f"{taken}: end the program that listens there, or give the site another address"
        return Diagnosis(WRONG, site, reason, cure)
    return Diagnosis(WRONG, site, reason, _restart(cluster, site))


def _store(cluster: "Cluster", directory: Path, site: str) -> Diagnosis | None:
    """Why the site would refuse its store, as it would say it."""
    from ordercast.model.errors import Error
    from ordercast.net.site.founding import require_as_before
    from ordercast.net.store.places import cures, store_elsewhere
    from ordercast.net.store.start_check import require_startable

    path = directory / f"{site}.db"
    if cluster.durability == "memory":
        return None
    if not path.exists():
        there = store_elsewhere(cluster, site, directory)
        if there is None:
            return None
        found = f"{directory}: has no store of it, but {there.parent} has"
        return Diagnosis(WRONG, site, found, cures(there.parent))
    try:
        described = require_startable(path, cluster.name, site)
        require_as_before(cluster, described, path)
    except Error as error:
        found, _, cure = str(error).partition("; ")
        return Diagnosis(WRONG, site, found, cure or f"ordercast inspect {path}")
    return None


def _is_taken(host: str, port: int) -> str:
    """`HOST:PORT is taken`, or nothing."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return f"{host}:{port} is taken" if error.errno == errno.EADDRINUSE else ""
    return ""


def _certificate(cluster: "Cluster", site: str) -> Iterator[Diagnosis]:
    from ordercast.model.errors import ConfigError
    from ordercast.net.link.tls import Certificates, TlsConfig

    assert cluster.tls is not None
    try:
        found = Certificates(TlsConfig(cluster.tls.directory), cluster.name, site)
    except ConfigError as error:
        yield Diagnosis(WRONG, site, str(error), f"ordercast certs {cluster.source}")
        return
    cure = f"ordercast certs {cluster.source} --site {site} --renew"
    yield _good_for(site, found.ends_at - int(time.time()), cure)


def _good_for(whose: str, left_s: float, cure: str) -> Diagnosis:
    from ordercast.net.link.tls import EXPIRES_SOON_DAYS

    days = int(left_s // 86_400)
    level = OK if days >= EXPIRES_SOON_DAYS else WARNING
    its = "its certificate is" if whose != OURS else "is"
    return Diagnosis(level, whose, f"{its} good for {days:,} days", "" if level == OK else cure)


def _together(cluster: "Cluster | None", sites: Statuses) -> Iterator[Diagnosis]:
    """What the running sites say of each other."""
    known = {site: status for site, status in sites.items() if "records" in status}
    versions: dict[str, list[str]] = {}
    for site, status in known.items():
        versions.setdefault(status["version"], []).append(site)
    if len(versions) > 1:
        told = "; ".join(f"{one}: {', '.join(where)}" for one, where in sorted(versions.items()))
        yield Diagnosis(WARNING, "versions", told, "install one version everywhere")
    if not known:
        return
    latest = max(known.values(), key=lambda status: int(status["records"]))
    for site in latest["excluded"]:
        cure = "it returns by itself"
        if not _runs(sites.get(site)):
            cure = f"start it: {cure} ({_starts(cluster, [site], sites)})"
        yield Diagnosis(WARNING, site, "is excluded", cure)
    for group in latest["frozen"]:
        who = " or ".join(latest["frozen"][group])
        yield Diagnosis(WRONG, group, "is frozen: all its members are excluded", f"start {who}")
    pairs = {tuple(pair): None for status in known.values() for pair in status["apart"]}
    for one, other in pairs:
        cure = "if it stays so, mend the network between them"
        yield Diagnosis(WARNING, f"{one}, {other}", "do not hear each other", cure)


def _clocks(sites: Statuses) -> Iterator[Diagnosis]:
    """Only certificates, and people who compare logs, depend on clocks that agree."""
    from ordercast.net.client.overview import clocks_apart

    found = clocks_apart(sites)
    if found is not None and found[2] > _CLOCKS_S:
        fast, slow, apart = found
        told = f"the clocks differ by {apart:,.1f} s: {fast} is ahead of {slow}"
        yield Diagnosis(WARNING, f"{fast}, {slow}", told, "let NTP set both; order does not suffer")


def _lines(findings: list[Diagnosis]) -> list[str]:
    lines = table_lines([(finding.level, finding.about, finding.found) for finding in findings])
    told = []
    for line, finding in zip(lines, findings, strict=True):
        level = coloured(finding.level, _COLOURS[finding.level])
        told.append(level + line[len(finding.level) :])
        if finding.cure:
            told.append(f"         -> {finding.cure}")
    return told
