"""`ordercast plan GROUPS`: which forest suits these groups, and why."""

import argparse
import time

from ordercast.cli.command import GOOD, add_options, print_json, read_text
from ordercast.cli.groups_file import group_table
from ordercast.plan.advice import advise, check_options
from ordercast.plan.options import TABLE
from ordercast.plan.protocols import advise_protocol
from ordercast.plan.report import as_json, as_text, trade_off_lines
from ordercast.plan.trade_off import Step, trade_off
from ordercast.sim.network_model import model_of
from ordercast.sim.networks import parse_network, with_network_tree

DESCRIPTION = """\
Choose the propagation forest and the ordering protocol for the groups of a file (TOML,
or JSON of the same shape; - reads standard input; a cluster file has groups, too) and
say why."""

EXAMPLE = """\
example:
  groups.toml:
    [groups]
    alpha = ["a", "b"]
    beta = ["b", "c"]

  ordercast plan groups.toml --objective load --draw forest.svg"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUPS", help="the groups file, a cluster file, or -")
    add_options(parser, TABLE, at_once=True)


def run(args: argparse.Namespace) -> int:
    check_options(args.builder, args.objective, args.branching, args.tie)
    if args.draw is not None:
        from ordercast.plan.canvas import require_drawable  # matplotlib is slow to load

        require_drawable(args.draw)
    started = time.perf_counter()
    network = parse_network(args.network, read_text)
    table = with_network_tree(group_table(args.groups), args.builder, network)
    model = model_of(network, table.sites)
    plan = advise(
        table,
        builder=args.builder,
        objective=args.objective,
        branching=args.branching,
        tie=args.tie,
        rebalance=args.rebalance,
        model=model,
    )
    advice = advise_protocol(plan, table, args.builder, model)
    steps: tuple[Step, ...] = ()
    if args.trade_off:
        steps = trade_off(table, args.builder, args.branching, args.tie, model)
    seconds = time.perf_counter() - started
    if args.draw is not None:
        from ordercast.plan.drawing import draw

        draw(plan.forest, table, args.draw)
    if args.json:
        print_json(as_json(plan, table, advice, seconds=seconds, full=args.full, steps=steps))
        return GOOD
    print(as_text(plan, table, advice))
    if steps:
        print("\n" + "\n".join(trade_off_lines(steps)))
    if args.draw is not None:
        print(f"\nDrawn to {args.draw}.")
    print(f"\n{seconds:.3f} s")
    return GOOD
