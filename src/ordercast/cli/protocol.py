"""`ordercast protocol switch|list`: which protocol orders the messages, while a cluster runs."""

import argparse
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.cli.requests import request_arguments, request_change
from ordercast.cli.runtime import action_arguments, action_of

if TYPE_CHECKING:
    from ordercast.model.epochs import Edit

ACTIONS = {"switch": "NAME", "list": ""}

DESCRIPTION = """\
Switch the ordering protocol of a running cluster, or list the protocols.

  switch  CLUSTER NAME   of all domains, or with --site of the domain that has the site;
                         --builder also chooses how forests are built from now on
  list    [CLUSTER]      the protocols, and the builders that each can use

A switch is ordered among the messages: those before it are in the old protocol's
order, those after it in the new one's, the same at every site."""

EXAMPLE = """\
example:
  ordercast protocol switch cluster.toml centralized
  ordercast protocol switch cluster.toml propagation --site a --builder balanced
  ordercast protocol list"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION [CLUSTER [NAME]]")
    parser.add_argument("--site", metavar="SITE", help="switch: the domain of this site only")
    parser.add_argument(
        "--builder",
        metavar="NAME",
        help="switch: auto, greedy, star, balanced or metagroups (default: as is)",
    )
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.core.order.registry import protocol_named

    if args.words == ["list"]:
        return _list(args)
    action, place, names = action_of(args, "protocol", ACTIONS)
    if action == "list":
        return _list(args)
    protocol_named(names[0])
    return request_change(args, place, _edits(args, names[0]))


def _edits(args: argparse.Namespace, protocol: str) -> list["Edit"]:
    from ordercast.core.order.registry import misfit
    from ordercast.model.epochs import UseBuilder, UseProtocol
    from ordercast.model.names import nearest, require_name
    from ordercast.plan.candidates import NAMED

    site = "" if args.site is None else require_name(args.site, "--site")
    edits: list[Edit] = [UseProtocol(protocol, site)]
    if args.builder is not None:
        known = ("auto", *NAMED)
        if args.builder not in known:
            hint = nearest(args.builder, known)
            raise UsageError(f"--builder: there is no builder {args.builder!r}{hint}")
        if args.builder != "auto" and (unfit := misfit(protocol, builder=args.builder)):
            raise UsageError(f"--builder: {unfit[1]}")
        edits.append(UseBuilder(args.builder, site))
    return edits


def _list(args: argparse.Namespace) -> int:
    from ordercast.core.order.registry import PROTOCOLS

    rows: list[dict[str, Any]] = [
        {"name": info.name, "builders": list(info.builders)} for info in PROTOCOLS.values()
    ]
    if args.json:
        print_json({"protocols": rows})
        return GOOD
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        print(f"{row['name']:<{width}}  builders: {', '.join(row['builders']) or 'any'}")
    return GOOD
