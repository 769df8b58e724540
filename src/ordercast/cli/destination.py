"""Where a verb goes: to the sites of a cluster file on this machine, or to daemons elsewhere.

This is the one place that decides it: the command line, then ORDERCAST_CONTEXT, then
ORDERCAST_CLUSTER, then the current context. ORDERCAST_DIR stands in for `--dir`.
"""

import argparse
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ordercast.cli.command import MISSING, UsageError
from ordercast.model.errors import ConfigError, Error

if TYPE_CHECKING:
    from ordercast.net.client.client import Client
    from ordercast.net.client.endpoints import Credentials
    from ordercast.net.cluster.config import Cluster
    from ordercast.net.cluster.contexts import Context

CONTEXT, CLUSTER = "ORDERCAST_CONTEXT", "ORDERCAST_CLUSTER"


class LocalDestination:
    """The sites of a cluster file, at their sockets in a directory of this machine."""

    def __init__(self, cluster: "Cluster", directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.name = cluster.name
        self.source = cluster.source

    @asynccontextmanager
    async def client(self, site: str, **times: float) -> "AsyncIterator[Client]":
        from ordercast.net.client.client import connect

        async with connect(self.cluster, site, self.directory, **times) as client:  # type: ignore[arg-type]
            yield client


class RemoteDestination:
    """Daemons elsewhere, as a context names them."""

    def __init__(self, context: "Context") -> None:
        self.context = context
        self.name = ""  # the cluster's; a daemon tells it
        self.source = f"--context {context.name}"
        self._doors: dict[str, str] | None = None

    @cached_property
    def credentials(self) -> "Credentials":
        from ordercast.net.client.endpoints import Credentials

        found = self.context
        files = (found.cert, found.key, found.ca, found.secret)
        return Credentials(*(Path(file) if file else None for file in files))

    @asynccontextmanager
    async def client(self, site: str, **times: float) -> "AsyncIterator[Client]":
        """A client of the site; of any that answers, if it is ""."""
        addresses: Sequence[str] = self.context.addresses
        if site and site != self.context.site:
            doors = await self.doors(**times)
            addresses = [doors[site]] if site in doors else addresses
        async with self.at(addresses, site or self.context.site, **times) as client:
            yield client

    @asynccontextmanager
    async def at(
        self, addresses: Sequence[str], site: str, **times: float
    ) -> "AsyncIterator[Client]":
        from ordercast.net.client.client import connect

        files = self.credentials
        async with connect(
            list(addresses), site or None, cert=files.cert, key=files.key, ca=files.ca,
            secret=files.secret, **times,  # type: ignore[arg-type]
        ) as client:  # fmt: skip
            self.name = client.cluster.name
            yield client

    async def doors(self, **times: float) -> dict[str, str]:
        """Where the daemons of the cluster listen for clients, as one of them says."""
        if self._doors is None:
            async with self.at(self.context.addresses, self.context.site, **times) as client:
                try:
                    told = (await client.status()).get("doors", {})
                except Error:  # it may not ask
                    told = {}
            scheme = "tls" if self.credentials.cert is not None else "tcp"
            self._doors = {site: f"{scheme}://{door}" for site, door in told.items()}
        return self._doors


Destination: TypeAlias = LocalDestination | RemoteDestination


def place_arguments(parser: argparse.ArgumentParser) -> None:
    """Of a verb that may go elsewhere."""
    dir_argument(parser)
    parser.add_argument(
        "--context", metavar="NAME", help="go to the daemons that this context names"
    )


def dir_argument(parser: argparse.ArgumentParser) -> None:
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
        raise UsageError(f"{MISSING} CLUSTER; see 'ordercast {verb} --help'")
    if args.dir is not None:
        raise UsageError(f"{verb}: --dir is for a cluster file, and this goes to context {name!r}")
    return RemoteDestination(contexts.named(name))


def local_destination(args: argparse.Namespace, file: str | None, verb: str) -> LocalDestination:
    """The same for a verb that works on files and processes of this machine."""
    file = file or os.environ.get(CLUSTER) or None
    if file is None:
        raise UsageError(f"{MISSING} CLUSTER; see 'ordercast {verb} --help'")
    return _local(args, file)


def _local(args: argparse.Namespace, file: str) -> LocalDestination:
    from ordercast.net.cluster.file import read_cluster

    if file.startswith(("tls://", "tcp://")):
        raise ConfigError(
            f"{file}: is an address, no cluster file: 'ordercast context add NAME --address {file}'"
        )
    cluster = read_cluster(file)
    return LocalDestination(cluster, cluster.directory(args.dir))
