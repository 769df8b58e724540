"""`ordercast node CLUSTER --site a`: one site, in the foreground, until a signal."""

import argparse
import logging
import sys
import time
from typing import Any

from ordercast.cli.command import GOOD, UsageError
from ordercast.cli.runtime import cluster_arguments, cluster_of, new_argument, print_line
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
    parser.add_argument(
        "--verbose", action="store_true", help="log more than an operator needs every day"
    )


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.addresses import parse_address, require_loopback
    from ordercast.net.daemon.daemon import LateSite, run_daemon

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
    _log_to_stderr(args.site, args.verbose)
    tell = _tell if args.json else _ignore
    run_daemon(cluster, args.site, directory, tell, late, new=args.new)
    return GOOD


def _log_to_stderr(site: str, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(f"%(asctime)s {site} %(levelname)s %(message)s"))
    logger = logging.getLogger("ordercast")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("asyncio").addHandler(handler)


class _OneLine(logging.Formatter):
    """Times are UTC with milliseconds; what a peer says cannot break a line."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.exc_info:
            return text
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _tell(kind: str, detail: dict[str, Any]) -> None:
    print_line({"event": kind, "at_ns": time.time_ns(), **detail})


def _ignore(kind: str, detail: dict[str, Any]) -> None:
    """Without --json events are not printed; the log has them."""
