"""`ordercast group add|remove|join|leave|list`: the groups of a cluster, while it runs."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.requests import (
    request_arguments,
    request_change,
    site_that_answers,
    site_to_ask,
    status_of,
)
from ordercast.cli.runtime import absences, action_arguments, action_of, say, table_lines
from ordercast.model.names import require_name
from ordercast.net.client.destinations import Destination, LocalDestination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.model.epochs import Edit

ACTIONS = {
    "list": "",
    "add": "NAME SITE...",
    "remove": "NAME",
    "join": "NAME SITE...",
    "leave": "NAME SITE...",
}

DESCRIPTION = """\
Change the groups of a running cluster, or list them.

  add     CLUSTER NAME SITE...   a new group of these sites
  remove  CLUSTER NAME           what was sent to it and is not ordered yet is refused
  join    CLUSTER NAME SITE...   sites become members
  leave   CLUSTER NAME SITE...   sites are members no longer
  list    CLUSTER                members, the primary (the site that orders the group's
                                 messages) and relays that are no members: of the
                                 running cluster, or of its file if no site answers here

A change is ordered among the messages of the groups that it touches: all their sites
must be there for it, but those that are excluded. It waits for one that is not, until
--timeout: then the exit code is 1 and the change may still be done. A change that is
impossible is refused (2)."""

EXAMPLE = """\
example:
  ordercast group add cluster.toml gamma a c
  ordercast group join cluster.toml alpha c
  ordercast group leave cluster.toml alpha c
  ordercast group list cluster.toml"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER [NAME [SITE...]]")
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    action, place, names = action_of(args, "group", ACTIONS)
    if action == "list":
        return _list(args, place)
    for name in names:
        require_name(name, f"group {action}")
    return request_change(args, place, _edits(action, *names))


def _edits(action: str, name: str, *sites: str) -> list["Edit"]:
    from ordercast.model.epochs import AddGroup, JoinGroup, LeaveGroup, RemoveGroup

    if action == "add":
        return [AddGroup(name, sites)]
    if action == "remove":
        return [RemoveGroup(name)]
    if action == "join":
        return [JoinGroup(name, site) for site in sites]
    return [LeaveGroup(name, site) for site in sites]


# --- the list -------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, place: Destination) -> int:
    from ordercast.net.site.layout_view import epochs_told

    if args.via is not None or isinstance(place, RemoteDestination):
        via: str | None = site_to_ask(place, args.via)
    else:
        via = site_that_answers(place.cluster, place.directory)
    excluded: list[str] = []
    frozen: dict[str, list[str]] = {}
    if via is not None:
        status = asyncio.run(status_of(place, via))
        via = status["site"]
        epochs, excluded, frozen = status["epochs"], list(status["excluded"]), status["frozen"]
    else:
        assert isinstance(place, LocalDestination)
        epochs = epochs_told(place.cluster.first_layout())
    rows: dict[str, dict[str, Any]] = {
        group: {**row, "epoch": epoch["epoch"]}
        for epoch in epochs
        for group, row in epoch["groups"].items()
    }
    rows = {group: rows[group] for group in sorted(rows)}
    if args.json:
        builders = sorted({epoch["builder"] for epoch in epochs})
        print_json(
            {
                "cluster": place.name,
                "source": "file" if via is None else "running",
                "via": via,
                "builder": ",".join(builders),
                "groups": rows,
                "excluded": excluded,
                "frozen": frozen,
            }
        )
        return GOOD
    lines = [("group", "primary", "members")]
    for group, row in rows.items():
        relays = f" (relays: {', '.join(row['extra'])})" if row["extra"] else ""
        lines.append((group, row["primary"], ", ".join(row["members"]) + relays))
    print("\n".join([*table_lines(lines), *absences(excluded, frozen)]))
    if via is None:
        say(f"of {place.source}, with which the cluster is founded: no site of it answers here")
    else:
        say(f"of the running cluster, as site {via} knows it")
    return GOOD
