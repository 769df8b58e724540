"""`ordercast demo`: a first look, on the example that the idea was published with.

Nine real sites, traffic from all of them, one killed and restarted; what every site delivered is
exported, and judged on Spark.
"""

import argparse
import asyncio
import textwrap
import time
from pathlib import Path
from typing import Any

from ordercast.cli.audit import as_text
from ordercast.cli.command import (
    GOOD,
    INCOMPLETE,
    UsageError,
    complain,
    print_json,
    reason,
    whole_number,
)
from ordercast.cli.demo_cluster import HISTORY, DemoTraffic, OnDemoEvent, prepare, running, traffic
from ordercast.cli.runtime import say
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import Plan, advise
from ordercast.plan.canvas import ENDINGS, can_draw, require_drawable
from ordercast.plan.report import as_json, tree

DESCRIPTION = """\
Run a small cluster for a minute: the nine sites and eight groups of Figure 3 in
Garcia-Molina and Spauster's "Ordered and Reliable Multicast Communication" (1988), each
site a process on this machine. All of them send; one is killed with SIGKILL and
restarted; then everything that any site delivered is judged on Spark."""

EXAMPLE = """\
example:
  ordercast demo

exit code: 0 when nothing is wrong, 1 when something is or could not be done"""

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
VICTIM = "d"  # on top of the tree: half of the groups have their messages ordered there
MESSAGES = 9_000

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

DRAWN = """\
Drawn to {files}: the tree that the paper prints. (c and d are in four groups each; the
paper leaves open who comes first, and the cluster file says: d.)"""

MEANING = {
    "integrity": "no message twice, changed, or where it does not belong",
    "agreement": "what one member of a group has got, all have got",
    "lost": "every message that a site accepted has arrived",
    "fifo": "each sender's messages to a group in the order it sent them",
    "pairwise_order": "no two sites have got two messages in different orders",
    "acyclic_order": "all nine orders fit into one",
    "positions": "no site's numbering has a hole, also over the crash",
    "resent": "nothing that a client asked for became two messages",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="out/demo",
        help="where the drawings go (default: out/demo)",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="where the sites' stores and logs go, and the history (default: OUT/cluster)",
    )
    parser.add_argument(
        "--messages",
        metavar="N",
        type=whole_number(90),
        default=MESSAGES,
        help=f"how many are sent in all (default: {MESSAGES})",
    )


def run(args: argparse.Namespace) -> int:
    begun = time.perf_counter()

    def tell(text: str) -> None:
        say(f"{time.perf_counter() - begun:5.1f} s  {text}")

    out = Path(args.out)
    directory = out / "cluster" if args.dir is None else Path(args.dir)
    table = GroupTable.of({group: list(members) for group, members in FIGURE_3.items()})
    plan = advise(table, builder="greedy", tie=FIGURE_3_TIE)
    drawings = _draw(table, out)
    cluster = prepare(directory, table.groups, tell, FIGURE_3_TIE)
    obstacle = _obstacle()
    if not args.json:
        _introduce(plan, table, drawings)
    try:
        tell(f"starting nine sites as processes; their stores and logs are in {directory}")
        with running(cluster, directory) as daemons:
            tell("all are ready")
            sent = asyncio.run(traffic(daemons, VICTIM, args.messages, tell))
            daemons.stop()
    except ConfigError:
        raise
    except Error as error:
        complain(f"{error}; the sites' logs are in {directory}")
        return INCOMPLETE
    tell("the sites are stopped")
    found: dict[str, Any] = {
        **as_json(plan, table, seconds=0.0),
        "drawings": drawings,
        "dir": str(directory),
        "traffic": sent.as_json(),
        "export": None,
        "audit": None,
    }
    shown = _summary(sent)
    if obstacle is None:
        exported, verdict = _judge(directory, tell)
        found |= {"export": exported, "audit": verdict}
        obstacle = _shortfall(sent, exported, verdict)
        shown += _delivered(exported)
        shown += ["", f"Next: 'ordercast cluster up {cluster.source} --dir {directory}',"]
        shown += ["and 'ordercast --help' for what to do with it.", "", *_verdict(verdict)]
    else:
        obstacle = f"the history was not exported and not audited: {obstacle}"
    found["seconds"] = round(time.perf_counter() - begun, 3)
    found["ok"] = obstacle is None and found["audit"]["ok"]
    if args.json:
        print_json({**found, "not_done": obstacle})
    else:
        print("\n".join(shown), flush=True)
    if obstacle is not None:
        complain(obstacle)
    return GOOD if found["ok"] else INCOMPLETE


def _introduce(plan: Plan, table: GroupTable, drawings: list[str]) -> None:
    print(INTRODUCTION)
    print("\nThe tree that the nine sites build:\n")
    print("\n".join(tree(plan, table)))
    print(f"\n{EXPLANATION}\n")
    if drawings:
        print(textwrap.fill(DRAWN.format(files=" and ".join(drawings)), 88))
    else:
        print("For a drawing: pip install 'ordercast[plot]', then 'ordercast demo' again.")
    print(flush=True)


def _obstacle() -> str | None:
    """What stands in the way of exporting and auditing: the line that says how to mend it."""
    from ordercast.pipeline.java import require_java
    from ordercast.pipeline.session import require_pyspark

    try:
        require_pyspark()
        require_java()
    except ConfigError as error:
        return str(error)
    return None


def _judge(directory: Path, tell: OnDemoEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    """Export all stores as one history, and audit it."""
    from ordercast.history.tables import TABLES
    from ordercast.net.export.history import export
    from ordercast.pipeline.audits.audit import audit_tables
    from ordercast.pipeline.session import open_session

    done = export(directory, directory / HISTORY)
    tell(f"exported {done.deliveries:,} deliveries; starting Spark to judge them")
    folder = (directory / HISTORY).resolve()
    with open_session("ordercast demo", brief=True) as spark:
        tables = {name: spark.read.parquet(str(folder / name)) for name in TABLES}
        result = audit_tables(spark, tables, causal=False)
    tell("judged")
    exported = {"sent": done.sent, "deliveries": done.deliveries, "ended": done.ended}
    return exported, result.as_json()


def _shortfall(sent: DemoTraffic, exported: dict[str, Any], verdict: dict[str, Any]) -> str | None:
    """What the verdict does not cover although it should."""
    if exported["sent"] != sent.sent:
        return f"{exported['sent']} of {sent.sent} messages are in the history"
    if len(exported["ended"]) != verdict["sites"]:
        return f"only {len(exported['ended'])} of {verdict['sites']} sites ended quietly"
    if verdict["informative"]["pending"]:
        return f"{verdict['informative']['pending']} deliveries are missing at the end"
    return None


def _summary(sent: DemoTraffic) -> list[str]:
    """What happened, for a newcomer."""
    return [
        f"  sent        {sent.sent:,} messages, from all nine sites to all eight groups",
        f"  killed      {sent.killed}, with SIGKILL; back on its store after {sent.down_s:.1f} s",
        f"  meanwhile   the others took {sent.meanwhile:,} messages; {sent.went_on:,} of them were"
        f" everywhere before {sent.killed} was",
        f"              back, the rest needs {sent.killed} and waited for it",
    ]


def _delivered(exported: dict[str, Any]) -> list[str]:
    return [
        f"  delivered   {exported['deliveries']:,} times: each message once to every member of its"
        " group"
    ]


def _verdict(found: dict[str, Any]) -> list[str]:
    """The audit's, with what each check means; with witnesses when something is wrong."""
    if not found["ok"]:
        return [as_text(found)]
    lines = [f"{check:<16} ok   {MEANING[check]}" for check in found["checks"]]
    return [
        f"Judged on Spark: {found['rows']:,} deliveries of {found['messages']:,} messages at"
        f" {found['sites']} sites.",
        "",
        *lines,
        "verdict          no violation",
    ]


def _draw(table: GroupTable, folder: Path) -> list[str]:
    """The files drawn; none without the extra `plot`."""
    if not can_draw():
        return []
    from ordercast.forest.greedy import build_greedy
    from ordercast.plan.drawing import draw  # matplotlib is slow to load

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {reason(error)}") from None
    files = [str(folder / f"figure3{ending}") for ending in ENDINGS]
    for file in files:
        require_drawable(file, "--out")
        draw(build_greedy(table, tie=FIGURE_3_TIE), table, file)
    return files
