"""Where a verb goes: to the sites of a cluster file on this machine, or to daemons elsewhere.

This is the one place that decides it: the command line, then ORDERCAST_CONTEXT, then
ORDERCAST_CLUSTER, then the current context. ORDERCAST_DIR stands in for `--dir`.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ordercast.cli.command import UsageError
from ordercast.model.errors import ConfigError
from ordercast.net.client.destinations import Destination, LocalDestination, RemoteDestination

CONTEXT, CLUSTER = "ORDERCAST_CONTEXT", "ORDERCAST_CLUSTER"


def place_arguments(parser: argparse._ActionsContainer) -> None:
    """The arguments of a verb that may go to daemons elsewhere."""
    dir_argument(parser)
    parser.add_argument(
        "--context", metavar="NAME", help="go to the daemons that this context names"
    )


def dir_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="where stores and sockets are (default: the environment's ORDERCAST_DIR, 'dir' of the"
        " cluster file, or .ordercast/NAME beside it)",
    )


def first_word_is_cluster(words: Sequence[str], args: argparse.Namespace) -> bool:
    """Whether the first of these words names the cluster file. It does unless a context or the
    environment names where to go; then it does if it looks like a file."""
    if not words or getattr(args, "context", None) is not None:
        return False
    word = words[0]
    return not goes_elsewhere(args) or word.endswith(".toml") or "/" in word or Path(word).is_file()


def goes_elsewhere(args: argparse.Namespace) -> bool:
    """Whether something else than the words says where to go. Contexts are only for verbs that may
    go to another machine."""
    from ordercast.net.cluster.contexts import read_contexts

    if os.environ.get(CLUSTER):
        return True
    if not hasattr(args, "context"):
        return False
    return bool(args.context or os.environ.get(CONTEXT) or read_contexts().current)


def destination(args: argparse.Namespace, file: str | None, verb: str) -> Destination:
    """Where the verb goes, by the cluster file that its words name, if any."""
    from ordercast.net.cluster.contexts import read_contexts

    context = getattr(args, "context", None)
    if file is not None and context is not None:
        raise UsageError(f"{verb}: CLUSTER and --context contradict each other")
    if file is None and context is None:
        context = os.environ.get(CONTEXT) or None
        if context is None:
            file = os.environ.get(CLUSTER) or None
    if file is not None:
        return _local(args, file)
    contexts = read_contexts()
    name = context or contexts.current
    if not name:
        raise UsageError(no_place(args, verb))
    if args.dir is not None:
        raise UsageError(f"{verb}: --dir is for a cluster file, and this goes to context {name!r}")
    return RemoteDestination(contexts.named(name))


def no_place(args: argparse.Namespace, verb: str) -> str:
    """The mistake of a command that does not say where it goes."""
    ways = f"name the cluster file, or put it into {CLUSTER}"
    if hasattr(args, "context"):
        ways += ", or name a context ('ordercast context --help')"
    else:
        ways = f"it works on files of its machine: {ways}"
    return f"CLUSTER is missing: {ways}; see 'ordercast {verb} --help'"


def local_destination(args: argparse.Namespace, file: str | None, verb: str) -> LocalDestination:
    """The same for a verb that works on files and processes of this machine."""
    file = file or os.environ.get(CLUSTER) or None
    if file is None:
        raise UsageError(no_place(args, verb))
    return _local(args, file)


def _local(args: argparse.Namespace, file: str) -> LocalDestination:
    from ordercast.net.cluster.file import read_cluster

    if file.startswith(("tls://", "tcp://")):
        raise ConfigError(
            f"{file}: is an address, no cluster file: 'ordercast context add NAME --address {file}'"
        )
    cluster = read_cluster(file)
    return LocalDestination(cluster, cluster.directory(args.dir))
