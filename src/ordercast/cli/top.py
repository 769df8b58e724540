"""`ordercast top CLUSTER`: the running cluster on one screen, live."""

import argparse
import asyncio
import sys
import time

from ordercast.cli.command import GOOD, UsageError
from ordercast.cli.destination import destination
from ordercast.cli.requests import seconds
from ordercast.cli.runtime import cluster_arguments, print_line
from ordercast.net.client.destinations import Destination

EVERY_S = 1.0

DESCRIPTION = """\
Show the running cluster on one screen, again every second: its sites with deliveries
per second, lag, queues, unstable messages and who holds the window; its groups; the
epochs as they pass, with reason and pause; the links. The facts are those of 'status'.
Keys: q or Ctrl-C ends it, arrows scroll. It needs a terminal and the extra 'top';
with --json it needs neither, and prints one object per look."""

EXAMPLE = """\
example:
  ordercast top cluster.toml
  ordercast top --context shop --every 5"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    parser.add_argument(
        "--every",
        type=seconds,
        default=EVERY_S,
        metavar="SECONDS",
        help=f"how often to look (default: {EVERY_S:g})",
    )


def run(args: argparse.Namespace) -> int:
    place = destination(args, args.cluster, "top")
    if args.json:
        asyncio.run(_print(place, args.every))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("top: needs a terminal; 'ordercast status' prints the same once")
    try:
        from ordercast.cli.top_screen import TopScreen
    except ImportError:
        raise UsageError("top: needs the extra 'top': pip install 'ordercast[top]'") from None
    screen = TopScreen(place, args.every)
    screen.run()
    if screen.failure is not None:
        raise screen.failure
    if screen.interrupted:
        raise KeyboardInterrupt
    return GOOD


async def _print(place: Destination, every_s: float) -> None:
    import msgspec

    from ordercast.net.client.overview import overview
    from ordercast.net.client.statuses import ask_all

    view = None
    while True:
        found = await ask_all(place)
        view = overview(place.name, found, time.monotonic(), view)
        print_line(msgspec.to_builtins(view))
        await asyncio.sleep(every_s)
