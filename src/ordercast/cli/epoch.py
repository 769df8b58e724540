"""`ordercast epoch CLUSTER`: the open epochs of a running cluster, and the changes under way."""

import argparse
import asyncio
from typing import Any

from ordercast.cli.command import GOOD, INCOMPLETE, complain, print_json
from ordercast.cli.destination import destination
from ordercast.cli.requests import request_arguments, site_to_ask, status_of, with_managers_view
from ordercast.cli.runtime import (
    absences,
    broken_links,
    cluster_arguments,
    table_lines,
)
from ordercast.net.client.destinations import Destination

DESCRIPTION = """\
Show the open epoch of every domain of a running cluster: its protocol, sites and
groups; who the manager is, who votes, which changes are under way and wait for whom
(that the manager alone knows: it is asked too, if it runs here), who is excluded, and
which groups are frozen because all their members are."""

EXAMPLE = """\
example:
  ordercast epoch cluster.toml
  ordercast epoch --context shop
  ordercast epoch cluster.toml --via b --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    place = destination(args, args.cluster, "epoch")
    via = site_to_ask(place, args.via)
    try:
        view = asyncio.run(_ask(place, via, args.timeout))
    except TimeoutError:
        complain(f"site {via} does not answer" if via else "no daemon answers")
        return INCOMPLETE
    if args.json:
        print_json(view)
    else:
        print(as_text(view))
    return GOOD


async def _ask(place: Destination, via: str, patience_s: float) -> dict[str, Any]:
    async with asyncio.timeout(patience_s):
        status = await status_of(place, via)
        status = await with_managers_view(place, status)
    fields = (
        "sites", "records", "manager", "voters", "epochs", "changes", "suspects", "apart",
        "standing", "excluded", "frozen", "flush",
    )  # fmt: skip
    found = {"cluster": status["cluster"], "via": status["site"]}
    return {**found, **{name: status[name] for name in fields}}


_COLUMNS = ("epoch", "protocol", "builder", "sites", "groups")


def as_text(view: dict[str, Any]) -> str:
    lines = table_lines([_COLUMNS, *(_row(epoch) for epoch in view["epochs"])])
    lines.append(f"manager: {view['manager'] or 'none'}; voters: {', '.join(view['voters'])}")
    inside = {site for epoch in view["epochs"] for site in epoch["sites"]}
    away = view["excluded"]
    idle = [site for site in view["sites"] if site not in inside and site not in away]
    if idle:
        lines.append(f"in no group: {', '.join(idle)}")
    if view["suspects"]:
        lines.append(f"silent for longer than usual: {', '.join(view['suspects'])}")
    lines.extend(broken_links(view["apart"]))
    if view["standing"] not in ("present", "flushing", "outside"):
        lines.append(f"site {view['via']}: {view['standing']}; what it says may be old")
    if away:
        since = ", ".join(
            f"{site} (since epoch {epoch} was closed)" for site, epoch in away.items()
        )
        lines.append(f"excluded: {since}")
    lines.extend(absences((), view["frozen"]))
    if view["flush"]:
        lines.append(_flush(view["flush"]))
    lines.extend(_change(change) for change in view["changes"])
    return "\n".join(lines)


def _row(epoch: dict[str, Any]) -> tuple[str, ...]:
    number = f"{epoch['epoch']}{' (closing)' if epoch['closing'] else ''}"
    sites, groups = ", ".join(epoch["sites"]), ", ".join(epoch["groups"])
    return number, epoch["protocol"], epoch["builder"], sites, groups


def _change(change: dict[str, Any]) -> str:
    waits = change["waits_for"]
    if waits is None:
        whom = "who has not closed, its manager knows"
    else:
        whom = f"waits for {', '.join(waits)}" if waits else "all have closed"
    return f"under way: {'; '.join(change['edits'])} ({whom})"


def _flush(flush: dict[str, Any]) -> str:
    closes = ", ".join(str(epoch) for epoch in flush["closes"])
    found = f"being closed because of a failure or a return: epoch {closes}"
    if flush["returning"]:
        found += f"; {', '.join(flush['returning'])} returns"
    return found
