"""`ordercast reader list|reset|remove`: the named readers of a running site."""

import argparse
import asyncio
from typing import Any

from ordercast.cli.command import GOOD, UsageError, print_json, without_separators
from ordercast.cli.runtime import action_arguments, action_of, as_bytes, say, table_lines
from ordercast.model.names import require_name
from ordercast.net.client.destinations import Destination, LocalDestination

ACTIONS = {"list": "SITE", "reset": "SITE NAME", "remove": "SITE NAME"}
FIRST, END = "first", "end"

DESCRIPTION = """\
Look after the named readers of a running site: programs that read its deliveries under
a name, each name with a position of its own in the site's store.

  list    CLUSTER SITE        how far each reader is, and how much is kept for it
  reset   CLUSTER SITE NAME   let it go on elsewhere: --to POSITION, 'first' (what is
                              still kept, the default) or 'end' (what comes from now on)
  remove  CLUSTER SITE NAME   forget it: nothing is kept for it any more

Programs that follow a reader get an error when it is reset or removed, and may follow it
anew."""

EXAMPLE = """\
example:
  ordercast reader list cluster.toml a
  ordercast reader reset cluster.toml a billing --to end
  ordercast reader remove cluster.toml a billing"""

_COLUMNS = ("reader", "groups", "confirmed", "lag", "followers", "kept", "of limit")


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER SITE [NAME]")
    parser.add_argument(
        "--to",
        metavar="POSITION",
        help=f"reset: the position to go on with, '{FIRST}' or '{END}' (default: {FIRST})",
    )


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.processes import require_site

    action, place, names = action_of(args, "reader", ACTIONS)
    if args.to is not None and action != "reset":
        raise UsageError(f"reader {action}: --to belongs to 'reader reset'")
    position = _position(args.to)
    if isinstance(place, LocalDestination):
        require_site(place.cluster, names[0], place.directory)
    told = asyncio.run(_do(action, place, names, position))
    if args.json:
        print_json({"cluster": place.name, "site": names[0], **told})
    elif action == "list":
        print("\n".join(_table(told["readers"])))
    elif action == "reset":
        say(f"reader {names[1]} of site {names[0]} goes on with position {told['position']:,}")
    else:
        say(f"reader {names[1]} of site {names[0]} is removed")
    return GOOD


def _position(text: str | None) -> int | None:
    """0: the first that is kept. None: the end."""
    if text in (None, FIRST):
        return 0
    if text == END:
        return None
    text = None if text is None else without_separators(text)
    if text is None or not text.isascii() or not text.isdecimal() or int(text[:20]) < 1:
        raise UsageError(f"--to: {text!r} is no position, '{FIRST}' or '{END}'")
    return int(text[:20])


async def _do(
    action: str, place: Destination, names: list[str], position: int | None
) -> dict[str, Any]:
    async with place.client(names[0]) as client:
        if action == "list":
            return {"readers": (await client.status())["readers"]}
        name = require_name(names[1], f"reader {action}")
        if action == "remove":
            await client.remove_reader(name)
            return {"reader": name, "removed": True}
        return {"reader": name, "position": await client.reset_reader(name, position)}


def _table(readers: dict[str, dict[str, Any]]) -> list[str]:
    if not readers:
        return ["no reader has a name here"]
    rows = [_COLUMNS]
    for name, told in sorted(readers.items()):
        groups = told["groups"] if isinstance(told["groups"], str) else ", ".join(told["groups"])
        rows.append(
            (
                name,
                groups,
                f"{told['confirmed']:,}",
                f"{told['lag']:,}",
                f"{told['followers']:,}",
                f"{as_bytes(told['held_bytes'])}, {told['held_s']:,.0f} s",
                f"{told['limit_used']:.0%}",
            )
        )
    return table_lines(rows)
