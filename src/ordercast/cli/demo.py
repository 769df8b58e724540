"""`ordercast demo`: a first look, on the example that the idea was published with.

Nine real sites, traffic from all of them, the busiest killed and restarted; what every site
delivered is judged, on Spark or in memory.
"""

import argparse
import asyncio
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.check.report import check_history
from ordercast.cli.audit import as_text
from ordercast.cli.colours import GOOD_WORDS, coloured, verdict_words
from ordercast.cli.command import (
    GOOD,
    INCOMPLETE,
    UsageError,
    complain,
    print_json,
    whole_number,
)
from ordercast.cli.demo_cluster import (
    HISTORY,
    DemoTraffic,
    OnDemoEvent,
    prepare,
    running,
    traffic,
)
from ordercast.cli.demo_picture import draw_deliveries, sketch
from ordercast.cli.demo_stream import INTRODUCTION as STREAMED
from ordercast.cli.demo_stream import DemoStream, StreamedDemo, streaming
from ordercast.cli.progress_line import ProgressLine
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError, Error, reason
from ordercast.model.groups import GroupTable
from ordercast.net.export.history import Exported, collect
from ordercast.plan.advice import Plan, advise
from ordercast.plan.canvas import can_draw, require_drawable
from ordercast.plan.report import as_json, tree

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

DESCRIPTION = """\
Run a small cluster for a minute: the nine sites and eight groups of Figure 3 in
Garcia-Molina and Spauster's "Ordered and Reliable Multicast Communication" (1988), each
site a process on this machine. All of them send; the busiest is killed with SIGKILL,
the others go on without it, and it comes back and catches up; then everything that any
site delivered is judged, on Spark if that is installed, else in memory."""

EXAMPLE = """\
example:
  ordercast demo
  ordercast demo --stream

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
PICTURE = "deliveries.svg"

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
    parser.add_argument(
        "--stream",
        action="store_true",
        help="with a query of Spark between two groups, and a live audit; needs the extra 'spark'",
    )


def run(args: argparse.Namespace) -> int:
    begun = time.perf_counter()
    out = Path(args.out)
    directory = out / "cluster" if args.dir is None else Path(args.dir)
    table = GroupTable.of({group: list(members) for group, members in FIGURE_3.items()})
    plan = advise(table, builder="greedy", tie=FIGURE_3_TIE)
    drawings = _draw(table, out)
    lines = ProgressLine(float("inf"))

    def tell(text: str) -> None:
        lines.note(f"{time.perf_counter() - begun:5.1f} s  {text}")

    cluster = prepare(directory, table.groups, tell, FIGURE_3_TIE)
    lacking = _lacking()
    if lacking is not None and args.stream:
        raise lacking
    if not args.json:
        _introduce(plan, table, drawings, lacking)
        if args.stream:
            print(f"{STREAMED}\n", flush=True)
    with ExitStack() as stack:
        stream = None
        if args.stream:
            tell("starting Spark")
            stream = stack.enter_context(streaming(cluster, directory, tell))
        try:
            sent = _run_sites(cluster, directory, args.messages, tell, lines, stream)
        except ConfigError:
            raise
        except Error as error:
            complain(f"{error}; the sites' logs are in {directory}")
            return INCOMPLETE
        done, history = collect(directory)
        streamed = None if stream is None else stream.finish(history)
        if lacking is None:
            lines.show("writing what they delivered")
            write_history(history, directory / HISTORY)
            lines.clear()
            starting = "judging them on Spark" if stream else "starting Spark to judge them"
            tell(f"exported {done.deliveries:,} deliveries; {starting}")
        verdict = _on_spark(directory) if lacking is None else check_history(history).as_json()
    tell("judged")
    if can_draw():
        drawings.append(str(out / PICTURE))
        draw_deliveries(history.deliveries, sent, drawings[-1])
    obstacle = _shortfall(sent, done, verdict, streamed)
    ok = obstacle is None and verdict["ok"]
    if args.json:
        found: dict[str, Any] = {
            **as_json(plan, table, seconds=round(time.perf_counter() - begun, 3)),
            "drawings": drawings,
            "dir": str(directory),
            "traffic": sent.as_json(),
            "export": {"sent": done.sent, "deliveries": done.deliveries, "ended": done.ended},
            "stream": None if streamed is None else streamed._asdict(),
            "judge": "spark" if lacking is None else "memory",
            "audit": verdict,
            "ok": ok,
            "not_done": obstacle,
        }
        print_json(found)
    else:
        told = [*_verdict(verdict, lacking), "", *_summary(sent, done)]
        told += ["", *(streamed.lines() if streamed else []), ""] if streamed else [""]
        told += ["Deliveries from second to second:", *sketch(history.deliveries, sent), ""]
        told += _next(cluster, drawings)
        print("\n".join(told), flush=True)
    if obstacle is not None:
        complain(obstacle)
    return GOOD if ok else INCOMPLETE


def _run_sites(
    cluster: "Cluster",
    directory: Path,
    messages: int,
    tell: OnDemoEvent,
    lines: ProgressLine,
    stream: DemoStream | None,
) -> DemoTraffic:
    tell(f"starting nine sites as processes; their stores and logs are in {directory}")
    with lines, running(cluster, directory) as daemons:
        tell("all are ready")
        if stream is not None:
            stream.start()
        sent = asyncio.run(traffic(daemons, VICTIM, messages, tell, lines.show))
        if stream is not None:
            lines.show("the query sends on what it has read")
            stream.drain()
        lines.show("stopping the sites")
        daemons.stop()
    tell("the sites are stopped")
    return sent


def _introduce(
    plan: Plan, table: GroupTable, drawings: list[str], lacking: ConfigError | None
) -> None:
    print(INTRODUCTION)
    print("\nThe tree that the nine sites build:\n")
    print("\n".join(tree(plan, table)))
    print(f"\n{EXPLANATION}\n")
    if lacking is not None:
        print(textwrap.fill(f"What they deliver is judged in memory, not on Spark: {lacking}", 88))
    if drawings:
        print(textwrap.fill(DRAWN.format(files=" and ".join(drawings)), 88))
    else:
        print("No picture is drawn: that needs the extra 'plot' (pip install 'ordercast[plot]').")
    print(flush=True)


def _lacking() -> ConfigError | None:
    """What Spark lacks here: the line that says how to get it. Then the judge in memory does."""
    from ordercast.pipeline.java import require_java
    from ordercast.pipeline.session import require_pyspark

    try:
        require_pyspark()
        require_java()
    except ConfigError as error:
        return error
    return None


def _on_spark(directory: Path) -> dict[str, Any]:
    from ordercast.history.tables import TABLES
    from ordercast.pipeline.audits.audit import audit_tables
    from ordercast.pipeline.session import open_session

    folder = (directory / HISTORY).resolve()
    # Where there is no terminal, the demo's own lines have said that Spark starts.
    with open_session("ordercast demo", brief=True, progress=sys.stderr.isatty()) as spark:
        tables = {name: spark.read.parquet(str(folder / name)) for name in TABLES}
        return audit_tables(spark, tables, causal=False).as_json()


def _shortfall(
    sent: DemoTraffic, done: Exported, verdict: dict[str, Any], streamed: StreamedDemo | None
) -> str | None:
    """What the verdict does not cover although it should."""
    wanted = sent.sent + (0 if streamed is None else streamed.sent)
    if streamed is not None and streamed.shortfall is not None:
        return streamed.shortfall
    if done.sent < wanted or (streamed is None and done.sent > wanted):  # a producer sends copies
        return f"{done.sent:,} of {wanted:,} messages are in the history"
    if len(done.ended) != verdict["sites"]:
        return f"only {len(done.ended)} of {verdict['sites']} sites ended quietly"
    if verdict["informative"]["pending"]:
        return f"{verdict['informative']['pending']} deliveries are missing at the end"
    return None


def _summary(sent: DemoTraffic, done: Exported) -> list[str]:
    """What happened, for a newcomer."""
    return [
        f"  sent        {sent.sent:,} messages, from all nine sites to all eight groups",
        f"  killed      {sent.killed}, which ordered half of the groups, with SIGKILL",
        f"  meanwhile   the others sent {sent.meanwhile:,}, and {sent.went_on:,} of them were"
        f" everywhere else before {sent.killed}",
        f"              was started again, {sent.down_s:.1f} s later; the longest pause was"
        f" {sent.pause_s:.1f} s",
        f"  back        {sent.killed} got the {sent.caught_up:,} messages it had missed, and was"
        f" in its groups {sent.catch_up_s:.1f} s",
        "              after its start, by itself",
        f"  delivered   {done.deliveries:,} times: each message once to every member of its group",
    ]


def _verdict(found: dict[str, Any], lacking: ConfigError | None) -> list[str]:
    """The audit's, with what each check means; with witnesses when something is wrong."""
    if not found["ok"]:
        return [as_text(found)]
    ok = coloured("ok", GOOD_WORDS)
    lines = [f"{check:<16} {ok}   {MEANING[check]}" for check in found["checks"]]
    judge = "on Spark" if lacking is None else "in memory"
    return [
        f"Judged {judge}: {found['rows']:,} deliveries of {found['messages']:,} messages at"
        f" {found['sites']} sites.",
        "",
        *lines,
        f"verdict          {verdict_words()}",
    ]


def _next(cluster: "Cluster", drawings: Sequence[str]) -> list[str]:
    """The pictures, and commands to type."""
    ordercast, place = command_typed(), cluster.source
    lines = [f"Pictures: {', '.join(drawings)}", ""] if drawings else []
    return [
        *lines,
        "Next, with the same nine sites:",
        "",
        f"  {ordercast} cluster up {place} --detach",
        f"  {ordercast} send {place} alpha3 hello",
        f"  {ordercast} status {place}",
        f"  {ordercast} cluster down {place}",
        f"  {ordercast} --help",
    ]


def command_typed() -> str:
    """The command as its user can type it here."""
    name = Path(sys.argv[0])
    if name.stem != "ordercast":
        return f"{Path(sys.executable).name} -m ordercast.cli"
    found = shutil.which("ordercast")
    if found is not None and Path(found).resolve() == name.resolve():
        return "ordercast"
    with suppress(ValueError):
        return str(name.absolute().relative_to(Path.cwd()))
    return str(name)


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
    files = [str(folder / f"figure3{ending}") for ending in (".svg", ".png")]
    for file in files:
        require_drawable(file, "--out")
        draw(build_greedy(table, tie=FIGURE_3_TIE), table, file)
    return files
