"""`ordercast stability`: one round of a stability protocol on the tree network of [STAB] §5.1."""

import argparse
import time
from collections.abc import Callable

from ordercast.cli.command import GOOD, UsageError, add_options, print_json
from ordercast.cli.progress_line import ProgressLine
from ordercast.pipeline.sweeps.stability_rounds import DEFAULT_TREE, TABLE
from ordercast.sim.rounds.tracking import PLACEMENTS, Setting, Tracked, track
from ordercast.sim.rounds.tree import TreeShape, parse_random_tree, parse_tree
from ordercast.sim.rounds.vectors import numpy

DESCRIPTION = """\
Run one round of a stability protocol in a group whose members sit at the nodes of a
tree, and measure it under the cost model of Guo, van Renesse, Vogels and Birman
(section 5.1): processors, links and routers of a local network of their time."""

EXAMPLE = """\
example:
  ordercast stability --protocol s_coordp --tree b=4,p=5,z=4
  ordercast stability --protocol train --tree n=20000,b=4,p=7
  ordercast stability --protocol coordp --random-tree n=1109,b=4,p=5,seed=3

trees: b children per node, height p, z children at the last level but one (default: b);
       or n members, filled level by level"""

_QUIET_S = 2.0  # between two lines about progress


def arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser, TABLE, at_once=True)


def run(args: argparse.Namespace) -> int:
    numpy()  # that it is missing is told before anything else
    setting = Setting(
        args.protocol, _shape(args), args.placement, args.links, args.array, args.router
    )
    setting.check()
    begun = time.perf_counter()
    with ProgressLine(_QUIET_S) as lines:
        tracked = track(setting, args.seed, progress=_progress(lines))
    seconds = time.perf_counter() - begun
    if args.json:
        shown = tracked.as_json()
        print_json({**shown, "tree": setting.shape.text(), "seconds": round(seconds, 3)})
    else:
        print(as_text(tracked))
        print(f"\n{seconds:.3f} s")
    return GOOD


def _shape(args: argparse.Namespace) -> TreeShape:
    if args.random_tree is not None:
        if args.tree is not None:
            raise UsageError("--tree and --random-tree exclude each other")
        return parse_random_tree(args.random_tree)
    return parse_tree(DEFAULT_TREE if args.tree is None else args.tree)


def _progress(lines: ProgressLine) -> Callable[[int, int], None]:
    def tell(now: int, hops: int) -> None:
        lines.tell(lambda: f"{now / 1e9:.3f} s simulated, {hops:,} messages on hops")

    return tell


def as_text(tracked: Tracked) -> str:
    setting = tracked.setting
    where = f"{'random ' if setting.shape.random else ''}tree {setting.shape.text()}"
    if setting.placement != PLACEMENTS[0]:
        where += ", members shuffled"
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in tracked.on_hops.items())
    sent = ", ".join(f"{count:,} {kind}" for kind, count in tracked.sent.items())
    roles = ", ".join(
        f"{role} {least:,}" if least == most else f"{role} {least:,} to {most:,}"
        for role, (least, most) in tracked.processed.items()
    )
    return "\n".join(
        [
            f"protocol     {setting.protocol}, {tracked.members:,} members, {where},"
            f" {setting.links} links",
            f"round trip   {tracked.rtt_ns / 1e6:,.3f} ms at the first member,"
            f" {tracked.slowest_rtt_ns / 1e6:,.3f} ms at the slowest",
            f"rounds       {tracked.rounds:,}",
            f"on all hops  {tracked.messages_on_hops:,} messages: {kinds}",
            f"sent         {sent}",
            f"processed    {roles}",
            f"queues       at most {tracked.longest_link:,} on a link,"
            f" {tracked.longest_cpu:,} at a processor",
        ]
    )
