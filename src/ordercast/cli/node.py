"""`ordercast node CLUSTER --site a`: one site, in the foreground, until a signal."""

import argparse
import logging
import signal
import time
from typing import Any

from ordercast.cli.command import GOOD, INTERRUPTED, MISTAKE, UsageError
from ordercast.cli.runtime import (
    cluster_arguments,
    cluster_of,
    log_arguments,
    new_argument,
    print_line,
)
from ordercast.model.errors import Error
from ordercast.model.names import require_name

DESCRIPTION = """\
Run one site of a cluster in the foreground, until SIGTERM or Ctrl-C. Logs go to
standard error; with --json, events go to standard output, one object per line.
Its store is DIR/SITE.db; clients and the other verbs reach it at DIR/SITE.sock.

A site that the cluster file does not have needs --address the first time (its store
keeps it), and to be let in by the others: 'ordercast site add'."""

EXAMPLE = """\
example:
  ordercast node cluster.toml --site a
  ordercast node cluster.toml --site d --address 127.0.0.1:7104"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("--site", required=True, metavar="SITE", help="the site to run")
    parser.add_argument(
        "--address", metavar="HOST:PORT", help="where a site listens that is not in the file"
    )
    parser.add_argument(
        "--metrics", metavar="HOST:PORT", help="the same for its metrics and health"
    )
    new_argument(parser)
    parser.add_argument(
        "--clients", metavar="HOST:PORT", help="the same for clients on other machines"
    )
    log_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.addresses import parse_address, require_loopback
    from ordercast.net.cluster.processes import log_file
    from ordercast.net.daemon.daemon import LateSite, run_daemon
    from ordercast.net.daemon.log_output import log_to_stderr

    cluster, directory = cluster_of(args, "node")
    others: dict[str, tuple[str, int]] = {}
    for option in ("address", "metrics", "clients"):
        value = getattr(args, option)
        if value is not None:
            others[option] = parse_address(value, f"--{option}")
            if args.site in cluster.sites:
                raise UsageError(f"--{option}: {cluster.source} says where site {args.site!r} is")
    require_name(args.site, "--site")
    if cluster.tls is None and "clients" in others:
        require_loopback({args.site: others["clients"]})
    late = LateSite(args.address or "", others.get("metrics"), others.get("clients"))
    form = args.log or cluster.log
    level = args.log_level or cluster.log_level
    log_to_stderr(args.site, form, level, log_file(directory, args.site))
    tell = _tell if args.json else _ignore
    try:
        got = run_daemon(cluster, args.site, directory, tell, late, new=args.new)
    except Error as error:
        if form != "json":
            raise
        # Its last words are a line of the log too.
        logging.getLogger("ordercast.net.daemon").critical("%s", error)
        return MISTAKE
    return INTERRUPTED if got == signal.SIGINT else GOOD


def _tell(kind: str, detail: dict[str, Any]) -> None:
    print_line({"event": kind, "at_ns": time.time_ns(), **detail})


def _ignore(kind: str, detail: dict[str, Any]) -> None:
    """Without --json events are not printed; the log has them."""
