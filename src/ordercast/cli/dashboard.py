"""`ordercast dashboard`: a cluster, a history or a run of the simulator on a web page."""

import argparse
import asyncio
import os
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, UsageError, parser_of, read_text
from ordercast.cli.destination import (
    destination,
    goes_elsewhere,
    local_destination,
    place_arguments,
)
from ordercast.cli.groups_file import CLUSTER_TABLE, group_table
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.runtime import print_line, say
from ordercast.cli.sim import config_of
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig, check_config
from ordercast.sim.options import configure

if TYPE_CHECKING:
    from ordercast.net.client.destinations import Destination
    from ordercast.studies.paper_listing import PaperListing
    from ordercast.web.app import Dashboard

DESCRIPTION = """\
Serve a web page about a running cluster (its cluster file), a history (a folder of
Parquet tables), a scenario (a TOML file with groups, options and a seed) or groups (run
in the simulator). It listens on this machine alone; elsewhere only with --cert and
--token-file. Needs the extra 'web'; 'ordercast docs dashboard' tells more."""

EXAMPLE = """\
example:
  ordercast dashboard groups.toml
  ordercast dashboard out/history --port 0"""

PORT = 8765
_PAUSE_S = 5.0  # between two lines about a run that is simulated
TOKEN = "ORDERCAST_TOKEN"
_SCENARIO = {"groups", "sites", "rates", "options", "seed", "expect"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subject", metavar="CLUSTER|HISTORY|SCENARIO", nargs="?",
        help="what to show; without it, runs that you ask for on the page",
    )  # fmt: skip
    place_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="(default: 127.0.0.1)")
    parser.add_argument(
        "--port", metavar="N", type=_port, default=PORT, help=f"0: a free one (default: {PORT})"
    )
    parser.add_argument(
        "--figures", metavar="DIR",
        help="show what 'ordercast audit --follow --figures DIR' writes beside the cluster",
    )  # fmt: skip
    parser.add_argument(
        "--papers", metavar="DIR",
        help="where 'ordercast reproduce' has written (default: out, if it has)",
    )  # fmt: skip
    parser.add_argument(
        "--token-file", metavar="FILE",
        help=f"ask for the token in this file (default: the environment's {TOKEN})",
    )  # fmt: skip
    parser.add_argument(
        "--control", action="store_true",
        help="let the page join, leave, switch and kill; it needs a token, and makes one",
    )  # fmt: skip
    parser.add_argument("--cert", metavar="FILE", help="serve TLS with this certificate (PEM)")
    parser.add_argument("--key", metavar="FILE", help="its key, if it is not in the same file")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    require_web()
    from ordercast.web.app import Dashboard, make_app
    from ordercast.web.server import access_to, address, listen, make_server, new_token

    cert, key = (None if name is None else Path(name) for name in (args.cert, args.key))
    token = _token(args) or (new_token() if args.control else "")
    access = access_to(args.host, cert=cert, key=key, token=token)
    dashboard = Dashboard(args.subject or "", access, parse_line, papers=_papers(args.papers))
    lines = ProgressLine(_PAUSE_S)
    _show(dashboard, args, lines)
    if args.control and dashboard.controls is None:
        raise UsageError("--control goes with a cluster")
    if args.figures is not None:
        if dashboard.sampler is None:
            raise UsageError("--figures goes with a cluster or a scenario")
        from ordercast.web.stream_figures import StreamFigures

        dashboard.figures = StreamFigures(Path(args.figures))
    with lines, listen(args.host, args.port) as found:
        url = address(found, access)
        told = f"{url}/login#{access.token}" if access.token else url
        if args.json:
            print_line({"url": told})
        else:
            say(f"serving {told}")
        if dashboard.making is not None:
            say("the run is being simulated; the page tells how far it is")
        server = make_server(make_app(dashboard), cert=cert, key=key)
        asyncio.run(server.serve(sockets=[found]))
    return GOOD


def _papers(folder: str | None) -> "PaperListing":
    from ordercast.studies.paper_listing import PaperListing, has_reproductions

    found = Path(folder or "out")
    if has_reproductions(found):
        return PaperListing(found)
    if folder is not None:
        raise ConfigError(f"--papers {folder}: 'ordercast reproduce' has written nothing there")
    return PaperListing(None)


def require_web() -> None:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise ConfigError("the page needs the extra 'web' (pip install 'ordercast[web]')")


def _token(args: argparse.Namespace) -> str:
    if args.token_file is None:
        return os.environ.get(TOKEN, "")
    token = read_text(args.token_file).strip()
    if not token:
        raise ConfigError(f"--token-file {args.token_file}: is empty")
    return token


def _show(dashboard: "Dashboard", args: argparse.Namespace, lines: ProgressLine) -> None:
    """Find out what the subject is, and hand it over. A run is made while the page is served."""
    from ordercast.sim.trace.assembly import trace_of_history
    from ordercast.web.feed import Sampler
    from ordercast.web.pending_run import PendingRun
    from ordercast.web.planner import as_toml

    subject = args.subject
    if subject is None:
        if goes_elsewhere(args):
            _show_cluster(dashboard, destination(args, None, "dashboard"), control=args.control)
        return
    if (Path(subject) / "meta.json").is_file():
        from ordercast.history.reader import read_history

        history = read_history(Path(subject))
        trace = trace_of_history(history, f"history {Path(subject).name}")
        dashboard.runs.add(trace, history, keep=True)
        return
    if Path(subject).is_dir():
        raise ConfigError(f"{subject}: is a folder without meta.json, so no history")
    if is_cluster(subject):
        dashboard.groups = as_toml(group_table(subject))
        place = local_destination(args, subject, "dashboard")
        _show_cluster(dashboard, place, control=args.control)
        return
    config, seed = scenario(subject)
    dashboard.groups = as_toml(config.table)
    dashboard.making = PendingRun(config, seed, lambda told: lines.tell(lambda: told), lines.note)
    dashboard.sampler = Sampler(dashboard.making)


def _show_cluster(dashboard: "Dashboard", place: "Destination", *, control: bool) -> None:
    from ordercast.net.client.destinations import LocalDestination
    from ordercast.net.export.history import collect
    from ordercast.web.controls import Controls
    from ordercast.web.feed import ClusterFeed, Sampler

    dashboard.sampler = Sampler(ClusterFeed(place))
    if isinstance(place, LocalDestination):
        directory = place.directory
        dashboard.collect = lambda: collect(directory)[1]
    if control:
        dashboard.controls = Controls(place, dashboard.sampler)


def is_cluster(file: str) -> bool:
    """Whether the file is a cluster file."""
    return CLUSTER_TABLE.search(read_text(file)) is not None


def scenario(file: str) -> tuple[SimConfig, int]:
    """A file with groups, and perhaps options of the simulator and a seed."""
    text = read_text(file)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: {error}") from None
    unknown = sorted(found.keys() - _SCENARIO)
    if "groups" not in found or unknown:
        what = f"{unknown[0]!r} is unknown" if unknown else "there are no groups"
        raise ConfigError(f"{file}: is no cluster file, scenario or groups file: {what}")
    seed, options = found.get("seed", 1), found.get("options", {})
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"{file}: seed: {seed!r} is not a whole number from 0 on")
    if not isinstance(options, dict):
        raise ConfigError(f"{file}: options: is not a table")
    table = GroupTable.of(found["groups"], sites=found.get("sites"), rates=found.get("rates"))
    config = configure(table, options, read=read_text)
    check_config(config)
    return config, seed


def parse_line(line: str) -> tuple[SimConfig, int]:
    """A line that replays a run, as `ordercast sim` prints it. A page sends it: no file is read."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line cannot be read: {str(error).lower()}") from None
    for word in ("ordercast", "sim"):
        if words and words[0].rpartition("/")[2] == word:
            del words[0]
    parser, _ = parser_of("sim")
    try:
        args: Any = parser.parse(words)
    except SystemExit:
        raise UsageError("the line asks for help; give a run") from None
    for name in ("history", "trace"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: a page writes no files")
    config = config_of(args, _no_file)
    check_config(config)
    return config, args.seed


def _no_file(name: str) -> str:
    raise ConfigError(f"{name}: a page reads no files; write the groups as JSON into the line")
