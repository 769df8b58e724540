"""`ordercast sim GROUPS`: run the groups in virtual time, with faults, and judge the outcome."""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from ordercast.cli.colours import verdict_words
from ordercast.cli.command import (
    GOOD,
    INCOMPLETE,
    UsageError,
    add_options,
    complain,
    print_json,
    read_text,
)
from ordercast.cli.groups_file import group_table
from ordercast.cli.progress_line import ProgressLine
from ordercast.core.order.registry import PROTOCOLS, protocol_named
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, parse_groups
from ordercast.model.notation import require_known
from ordercast.model.time_left import time_left
from ordercast.model.verb_options import ReadFile
from ordercast.sim.config import SimConfig, check_config
from ordercast.sim.options import OPTIONS, SCHEDULED, TABLE, configure
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import changing, cutting, excluding, schedule
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.assembly import trace_of_run
from ordercast.sim.trace.exports import require_writable, write_trace
from ordercast.sim.trace.frame_log import FrameLog

DESCRIPTION = """\
Simulate the groups of a file (TOML, or JSON of the same shape; - reads standard
input; an argument that begins with { is the table itself; a cluster file has
groups, too): sites run the real protocol in virtual time while frames are lost
and sites crash as --faults says, and every delivery is checked. The same arguments and
seed give the same history."""

EXAMPLE = """\
example:
  groups.toml:
    [groups]
    alpha = ["a", "b"]
    beta = ["b", "c"]

  ordercast sim groups.toml --faults loss=0.1,partition=2 --seed 7

networks: lan, p2p:P=1ms,L=5ms, broadcast:T=2ms, wan[:FILE], tree:b=3,p=4
faults:   loss, duplicate, replay, reorder (probabilities); crash, restart, lose,
          partition, oneway, clog, cut, cut_one_way, pause, slow, lag, join, leave,
          switch (counts); or a TOML file:
          'ordercast docs simulator'"""

PROPAGATION = "propagation"
_NOTHING_SENT = """\
verdict      none: nothing was accepted, so nothing was judged. A cluster begins when all
             its voters have met: faults that keep them apart can come later ("from" in a
             file of faults)"""
_QUIET_S = 2.0  # between two lines about progress


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "groups", metavar="GROUPS", nargs="?", help="the groups file, a cluster file, or -"
    )
    add_options(parser, TABLE, at_once=False)


_DRAWN = {"changing": changing, "excluding": excluding, "cutting": cutting}
_WITH_SCHEDULE = ("json", "protocol", "seed", "history", "trace", *SCHEDULED)


def run(args: argparse.Namespace) -> int:
    config = config_of(args)
    check_config(config)
    if args.trace is not None:
        require_writable(args.trace, "--trace")
    if args.history is not None:
        from ordercast.history.schema import arrow
        from ordercast.history.writer import write_history

        arrow()  # that it is missing is told before the run

    log = None if args.trace is None else FrameLog()
    with ProgressLine(_QUIET_S) as lines:
        result = simulate(config, args.seed, progress=_progress(config, lines), log=log)
    if args.history is not None:
        write_history(result.history, Path(args.history), replace=True)
    files = _pictures(args, config, result, log)
    if args.json:
        print_json({**result.as_json(), **({"trace": files} if files else {})})
    else:
        print(as_text(result, config))
        if args.history is not None:
            print(f"history      {args.history}")
        for file in files:
            print(f"trace        {file}")
    judged = result.sent or not config.messages
    return GOOD if result.ok and judged else INCOMPLETE


def config_of(args: argparse.Namespace, read: ReadFile = read_text) -> SimConfig:
    """What the words of the command line mean. `read` gives the files that they name."""
    if args.changing and not args.schedule:
        raise UsageError("--changing goes with --schedule; otherwise see 'join' in --faults")
    if args.excluding and not args.schedule:
        raise UsageError("--excluding goes with --schedule; otherwise see 'crash' in --faults")
    if args.cutting and not args.schedule:
        raise UsageError("--cutting goes with --schedule; otherwise see 'cut' in --faults")
    kinds = [name for name in _DRAWN if getattr(args, name)]
    if len(kinds) > 1:
        one, other = kinds[:2]
        raise UsageError(f"--{one} and --{other} are two kinds of schedules: take one")
    return _scheduled(args) if args.schedule else _configured(args, read)


def _pictures(
    args: argparse.Namespace, config: SimConfig, result: SimResult, log: FrameLog | None
) -> list[str]:
    """The files of --trace. A run that failed leaves its picture anyway: it is run once more."""
    if log is not None:
        return [str(file) for file in write_trace(trace_of_run(result, log), args.trace)]
    if result.ok:
        return []
    again = FrameLog()
    trace = trace_of_run(simulate(config, args.seed, log=again), again)
    name = f"failed-{result.protocol}-{args.seed}-{result.history_hash[:8]}.svg"
    try:
        return [str(file) for file in write_trace(trace, name)]
    except ConfigError as error:  # the verdict counts, not the picture
        complain(f"no picture of the failed run: {error}")
        return []


def _scheduled(args: argparse.Namespace) -> SimConfig:
    given = [name for name, value in vars(args).items() if value is not None]
    for name in given:
        if name not in _WITH_SCHEDULE:
            raise UsageError(f"--schedule draws it all from the seed: leave out {name!r}")
    protocol = args.protocol or PROPAGATION
    if protocol.startswith("hybrid:"):
        protocol_named(protocol)  # raises ConfigError for a wrong size
    else:
        require_known(protocol, PROTOCOLS, "protocol")
    draw = next((draw for name, draw in _DRAWN.items() if getattr(args, name)), schedule)
    return draw(protocol, args.seed)


def _configured(args: argparse.Namespace, read: ReadFile) -> SimConfig:
    if args.groups is None:
        raise UsageError("GROUPS is missing; see 'ordercast sim --help'")
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    return configure(_table(args.groups, read), given, read=read, source=args.groups)


def _table(groups: str, read: ReadFile) -> GroupTable:
    if groups.lstrip().startswith("{"):
        return parse_groups(groups, source="GROUPS.json")
    return group_table(groups) if read is read_text else parse_groups(read(groups), source=groups)


def _progress(config: SimConfig, lines: ProgressLine) -> Callable[[int, int], None]:
    sending_ns = config.messages * 1e9 / config.rate
    begun = time.monotonic()

    def line(events: int, now: int) -> str:
        share = min(99, int(100 * now / sending_ns)) if sending_ns else 99
        took_s = time.monotonic() - begun
        return (
            f"{share:3d} % of the sending, {now / 1e9:,.1f} s simulated,"
            f" {events:,} events ({events / took_s:,.0f}/s){time_left(took_s, now, sending_ns)}"
        )

    return lambda events, now: lines.tell(lambda: line(events, now))


def as_text(result: SimResult, config: SimConfig) -> str:
    """A short summary for a person."""
    latency = result.latency
    faults = ", ".join(f"{times:,} {kind}" for kind, times in result.faults.items())
    lines = [
        f"protocol     {result.protocol} on a {result.builder} forest, seed {result.seed}",
        f"network      {config.network.text()}; faults: {faults or 'none'}",
        f"messages     {result.sent:,} sent, {result.delivered:,} deliveries",
        f"frames       {result.data_frames:,} data, {result.control_frames:,} control",
        f"latency      {latency.mean:.2f} ms mean, {latency.p50:.2f} median, {latency.p99:.2f} p99",
        f"time         {result.virtual_ns / 1e9:.3f} s simulated in {result.wall_seconds:.2f} s"
        f" ({result.events:,} events)",
        f"hash         {result.history_hash[:16]}",
    ]
    if result.ok:
        judged = result.sent or not config.messages
        lines.append(f"verdict      {verdict_words()}" if judged else _NOTHING_SENT)
        return "\n".join(lines)
    wrong = verdict_words("VIOLATION")
    lines += [f"{wrong}    {found.check}: {found.witness}" for found in result.violations]
    lines.append(f"replay       {result.replay}")
    return "\n".join(lines)
