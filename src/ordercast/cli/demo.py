"""`ordercast demo`: a first look, on the example that the idea was published with."""

import argparse
import textwrap
import time
from pathlib import Path

from ordercast.cli.frame import GOOD, INCOMPLETE, UsageError, print_json, reason
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import Plan, advise
from ordercast.plan.canvas import ENDINGS, can_draw, require_drawable
from ordercast.plan.report import as_json, bullet, compared, comparison, tree
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate

DESCRIPTION = """\
Plan a small example, draw it, and simulate it on a bad network: the nine sites and
eight groups of Figure 3 in Garcia-Molina and Spauster's "Ordered and Reliable
Multicast Communication" (1988)."""

EXAMPLE = """\
example:
  ordercast demo --out pictures"""

FIGURE_3 = {
    "alpha1": "cd",
    "alpha2": "abc",
    "alpha3": "bcde",
    "alpha4": "def",
    "alpha5": "ef",
    "alpha6": "bg",
    "alpha7": "ch",
    "alpha8": "dj",
}
# The paper decides ties "arbitrarily"; these preferences give its figure (errata GS-7).
FIGURE_3_TIE = ("d", "c", "e")

SIMULATION = SimConfig(
    GroupTable.of({group: list(members) for group, members in FIGURE_3.items()}),
    tie=FIGURE_3_TIE,
    messages=400,
    faults=(Fault("loss", probability=0.1), Fault("partition", count=1)),
)
AGAIN = (
    "ordercast sim examples/groups/figure3.toml --tie d,c,e --messages 400"
    " --faults loss=0.1,partition=1"
)

INTRODUCTION = """\
Nine sites, a to j, form eight groups that overlap: alpha3 is b, c, d and e, alpha4 is
d, e and f, and so on. Any two sites that both get two messages must get them in the
same order, whichever groups these were sent to.

ordercast lets messages travel down a tree of sites. Each group's messages enter at one
site, its primary, and every site passes on what it gets in one merged order: so
messages for different groups are ordered where their paths meet, and only there."""


EXPLANATION = """\
A message to alpha3 goes to d, which orders it and sends it to c and e; c sends it on to
b. What c gets for alpha1 and alpha3 comes in d's order, and c merges alpha2 and alpha7
into it: a, b and h never see two messages in an order that contradicts c's or d's."""

SIMULATED = """\
Now nine sites run this in the simulator: {messages} messages, from any site to any group, while
one frame in ten is lost and a partition cuts the sites in two for a while."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="out/demo",
        help="where the drawings go (default: out/demo)",
    )


def run(args: argparse.Namespace) -> int:
    started = time.perf_counter()
    table = SIMULATION.table
    paper = advise(table, builder="greedy", tie=FIGURE_3_TIE)
    advised = advise(table, tie=FIGURE_3_TIE)
    seconds = time.perf_counter() - started
    drawings = _draw(paper, table, Path(args.out))
    result = simulate(SIMULATION, 1)
    code = GOOD if result.ok else INCOMPLETE
    if args.json:
        report = as_json(paper, table, seconds=seconds)
        found = {"compared": compared(advised), "drawings": drawings}
        print_json({**report, **found, "simulation": result.as_json()})
        return code
    print(INTRODUCTION)
    print("\nThe tree of the paper's Figure 3, built by 'greedy':\n")
    print("\n".join(tree(paper, table)))
    print(f"\n{EXPLANATION}\n")
    print("The builders compared; '*' marks what the planner would choose by itself:\n")
    print("\n".join(comparison(advised, table)))
    print()
    print("\n".join(bullet(sentence) for sentence in advised.reasons))
    print()
    if drawings:
        print(f"Drawn to {' and '.join(drawings)}.")
    else:
        print("For a drawing: pip install 'ordercast[plot]', then 'ordercast demo' again.")
    print()
    print("\n".join(_told(result)))
    print("\nNext: 'ordercast plan --help' and 'ordercast sim --help', with groups of your own.")
    return code


def _told(result: SimResult) -> list[str]:
    """What the simulation did and what came of it, for a newcomer."""
    cut = result.faults.get("cut", 0)
    lines = [
        *textwrap.wrap(SIMULATED.format(messages=result.sent), 88),
        "",
        f"  sent        {result.sent} messages in {result.virtual_ns / 1e9:.1f} simulated seconds",
        f"  lost        {result.faults.get('loss', 0)} frames, and {cut} more at the partition",
        f"  delivered   {result.delivered} times, once to every member of each message's group",
        f"  waiting     {result.latency.p50:.0f} ms in the median, {result.latency.p99:.0f} ms"
        " for the unluckiest hundredth",
    ]
    if result.ok:
        return [
            *lines,
            "  verdict     no message lost or doubled; no two sites disagree on an order,",
            "              and all their orders together have no cycle",
            "",
            f"The same again, in a checkout: {AGAIN}",
        ]
    found = [
        f"  VIOLATION   {violation.check}: {violation.witness}" for violation in result.violations
    ]
    return [*lines[:-2], *found, f"  again       {result.replay}"]


def _draw(plan: Plan, table: GroupTable, folder: Path) -> list[str]:
    """The files drawn; none without the extra `plot`."""
    if not can_draw():
        return []
    from ordercast.plan.drawing import draw  # matplotlib is slow to load

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {reason(error)}") from None
    files = [str(folder / f"figure3{ending}") for ending in ENDINGS]
    for file in files:
        require_drawable(file, "--out")
        draw(plan.forest, table, file)
    return files
