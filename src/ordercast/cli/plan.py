"""`ordercast plan GROUPS`: which forest suits these groups, and why."""

import argparse
import time

from ordercast.cli.frame import GOOD, one_of, print_json, read_text, whole_number
from ordercast.model.groups import parse_groups
from ordercast.plan.advice import AUTO, advise, check_options
from ordercast.plan.candidates import NAMED
from ordercast.plan.objectives import OBJECTIVES
from ordercast.plan.protocols import advise_protocol
from ordercast.plan.report import as_json, as_text
from ordercast.sim.model_of import model_of
from ordercast.sim.networks import parse_network

DESCRIPTION = """\
Choose the propagation forest and the ordering protocol for the groups of a file (TOML,
or JSON of the same shape; - reads standard input) and say why."""

EXAMPLE = """\
example:
  groups.toml:
    [groups]
    alpha = ["a", "b"]
    beta = ["b", "c"]

  ordercast plan groups.toml --objective load --draw forest.svg"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUPS", help="the groups file, or -")
    parser.add_argument(
        "--builder",
        type=one_of(*NAMED, AUTO),
        default=AUTO,
        metavar="NAME",
        help="greedy, star, balanced or auto (default: auto, the best by the objective)",
    )
    parser.add_argument(
        "--objective",
        type=one_of(*OBJECTIVES),
        default="delay",
        metavar="NAME",
        help="delay, load or messages (default: delay)",
    )
    parser.add_argument(
        "--branching",
        type=whole_number(2),
        metavar="N",
        help="balanced: children per site (default: chosen for the objective)",
    )
    parser.add_argument(
        "--tie",
        type=_names,
        default=(),
        metavar="A,B,...",
        help="greedy: sites preferred in ties (default: the name that sorts first)",
    )
    parser.add_argument(
        "--rebalance",
        action="store_true",
        help="move children of busy sites deeper: less load, more depth, no extra sites",
    )
    parser.add_argument(
        "--network",
        default="lan",
        metavar="SPEC",
        help="what a hop and a message take: lan (the default), p2p:P=1ms,L=5ms, wan[:FILE] or"
        " tree:b=3,p=4, as for 'sim'",
    )
    parser.add_argument(
        "--draw", metavar="FILE", help="draw the forest to FILE.svg or FILE.png (extra: plot)"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="with --json: name extra sites even when there are more than a million",
    )


def run(args: argparse.Namespace) -> int:
    check_options(args.builder, args.objective, args.branching, args.tie)
    if args.draw is not None:
        from ordercast.plan.canvas import require_drawable  # matplotlib is slow to load

        require_drawable(args.draw)
    started = time.perf_counter()
    table = parse_groups(read_text(args.groups), source=args.groups)
    model = model_of(parse_network(args.network, read_text), table.sites)
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
    seconds = time.perf_counter() - started
    if args.draw is not None:
        from ordercast.plan.drawing import draw

        draw(plan.forest, table, args.draw)
    if args.json:
        print_json(as_json(plan, table, advice, seconds=seconds, full=args.full))
        return GOOD
    print(as_text(plan, table, advice))
    if args.draw is not None:
        print(f"\nDrawn to {args.draw}.")
    print(f"\n{seconds:.3f} s")
    return GOOD


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name between its commas")
    return names
