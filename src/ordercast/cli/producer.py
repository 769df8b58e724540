"""`ordercast producer list|remove`: the named producers of a running cluster."""

import argparse
import asyncio
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.requests import (
    request_arguments,
    request_change,
    site_to_ask,
    status_of,
)
from ordercast.cli.runtime import action_arguments, action_of, say, table_lines
from ordercast.model.names import require_name
from ordercast.net.client.destinations import Destination

if TYPE_CHECKING:
    from ordercast.model.epochs import Edit

WINDOWS = ("+ids", "+clients")  # in the place of a producer's name: what a group remembers
ACTIONS = {"list": "", "remove": "NAME..."}

DESCRIPTION = """\
List the named producers of a running cluster, or remove one. A producer numbers its
messages to a group, and each number is delivered once ('ordercast docs producers').

  list    CLUSTER                    each producer and group, with the last number in the
                                     log of the group; of a group that the asked site is
                                     no member of, the last when its epoch began
  remove  CLUSTER NAME [GROUP...]    forget what the producer has sent: to these groups,
                                     or to all

Remove a producer when nothing of it is under way: what it sends again afterwards is
new to the cluster. Groups that remember ids of senders' own ('ordercast docs ids') are
listed as +ids, groups that remember their clients ('ordercast docs requests') as
+clients; both can be made to forget them in the same way."""

EXAMPLE = """\
example:
  ordercast producer list cluster.toml
  ordercast producer remove cluster.toml sink
  ordercast producer remove cluster.toml sink alpha"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER [NAME [GROUP...]]")
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    action, place, names = action_of(args, "producer", ACTIONS)
    if action == "list":
        return _list(args, place)
    for name in names:
        if name not in WINDOWS:
            require_name(name, f"producer {action}")
    return request_change(args, place, _edits(*names))


def _edits(name: str, *groups: str) -> list["Edit"]:
    from ordercast.model.epochs import RemoveProducer

    return [RemoveProducer(name, group) for group in groups or ("",)]


def _list(args: argparse.Namespace, place: Destination) -> int:
    status = asyncio.run(status_of(place, site_to_ask(place, args.via)))
    rows = status["producers"]
    if args.json:
        print_json({"cluster": place.name, "via": status["site"], "producers": rows})
        return GOOD
    lines = [("producer", "group", "number", "generation")]
    lines += [
        (row["producer"], row["group"], str(row["number"]), str(row.get("generation", "")))
        for row in rows
    ]
    print("\n".join(table_lines(lines)))
    say(f"of the running cluster, as site {status['site']} knows it")
    return GOOD
