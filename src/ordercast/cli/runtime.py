"""What the runtime verbs share: the words that say where they go, and printing as they go."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import UsageError, is_verb, one_of
from ordercast.cli.destination import (
    destination,
    dir_argument,
    first_word_is_cluster,
    goes_elsewhere,
    local_destination,
    no_place,
    place_arguments,
)
from ordercast.model.names import nearest
from ordercast.net.client.destinations import Destination

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster


def cluster_arguments(parser: argparse.ArgumentParser, *, remote: bool = False) -> None:
    """`remote`: the verb may go to daemons of a context too."""
    parser.add_argument("cluster", metavar="CLUSTER", nargs="?", help="the cluster file")
    if remote:
        place_arguments(parser)
    else:
        dir_argument(parser)


def new_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--new",
        action="store_true",
        help="begin without a past in DIR, although another directory has stores of the cluster",
    )


def log_arguments(parser: argparse.ArgumentParser, actions: str = "") -> None:
    """`actions`: those of the verb that take them, for the help."""
    parser.add_argument(
        "--log",
        type=one_of("text", "json"),
        metavar="FORM",
        help=f"{actions}the form of the log: text or json (default: 'log' of the cluster file,"
        " or text)",
    )
    parser.add_argument(
        "--log-level",
        type=one_of("debug", "info", "warning", "error"),
        metavar="LEVEL",
        help=f"{actions}log from this level on: debug, info, warning or error (default: 'log_level'"
        " of the cluster file, or info)",
    )


def cluster_of(args: argparse.Namespace, verb: str) -> tuple["Cluster", Path]:
    """The cluster of the arguments and its directory."""
    found = local_destination(args, args.cluster, verb)
    return found.cluster, found.directory


def store_of(cluster: "Cluster", site: str, directory: Path) -> Path:
    """The file of a site's store, which may not be there. ConfigError if there is no such site, or
    if the cluster has no stores."""
    from ordercast.model.errors import ConfigError
    from ordercast.net.cluster.directory import require_own
    from ordercast.net.cluster.processes import require_site

    if cluster.durability == "memory":
        raise ConfigError(f"{cluster.source}: durability is 'memory': there are no stores")
    require_own(directory)
    require_site(cluster, site, directory)
    return directory / f"{site}.db"


def as_bytes(size: float) -> str:
    """A size for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def elsewhere(cluster: "Cluster", directory: Path) -> str:
    """The rest of a line about a directory in which nothing runs: where the stores are, if the
    directory has nothing of the cluster and another known one has."""
    from ordercast.net.cluster.processes import is_known
    from ordercast.net.store.places import elsewhere_told

    if any(is_known(directory, site) for site in cluster.sites):
        return ""
    return elsewhere_told(cluster, directory)


def action_arguments(parser: argparse.ArgumentParser, words: str) -> None:
    """The arguments of a verb with actions: `words` shows all actions, for the help."""
    parser.add_argument("words", nargs="+", metavar=words, help="see above")
    place_arguments(parser)


def action_of(
    args: argparse.Namespace, verb: str, actions: Mapping[str, str]
) -> tuple[str, Destination, list[str]]:
    """The action of the arguments, where it goes, and the words after them.

    `actions` says which words each action takes after `ACTION CLUSTER`: `NAME SITE...`, say. Words
    in brackets may be left out.
    """
    action, file, rest = action_and_cluster(args, list(actions), verb)
    wanted = [word for word in actions[action].split() if not word.startswith("[")]
    if len(rest) < len(wanted):
        raise UsageError(
            f"{verb} {action}: {wanted[len(rest)].removesuffix('...')} is missing"
            f" ({verb} {action} CLUSTER {actions[action]}); see 'ordercast {verb} --help'"
        )
    if len(rest) > len(wanted) and "..." not in actions[action]:
        raise UsageError(f"{verb} {action}: one argument too many: {rest[len(wanted)]!r}")
    return action, destination(args, file, f"{verb} {action}"), rest


def action_and_cluster(
    args: argparse.Namespace, actions: Sequence[str], verb: str
) -> tuple[str, str | None, list[str]]:
    """`ACTION [CLUSTER] …`, also written `CLUSTER ACTION …`: the action, the file, the rest."""
    given = list(args.words)
    if len(given) > 1 and given[0] not in actions and given[1] in actions:
        given[0], given[1] = given[1], given[0]
    if given[0] not in actions:
        hint = nearest(given[0], actions)
        if is_verb(given[0]):
            hint = f" (did you mean 'ordercast {given[0]}'?)"
        raise UsageError(
            f"{verb}: there is no action {given[0]!r}{hint}; see 'ordercast {verb} --help'"
        )
    action, *rest = given
    if first_word_is_cluster(rest, args):
        return action, rest[0], rest[1:]
    if not rest and not goes_elsewhere(args):
        raise UsageError(f"{verb} {action}: {no_place(args, verb)}")
    return action, None, rest


def absences(
    excluded: Iterable[str], frozen: Mapping[str, Sequence[str]], *, decided: bool = True
) -> list[str]:
    """A line for each site that is excluded, and each group that waits for one of them. `decided`:
    there is a majority, so that the others go on."""
    then = "the others go on without it" if decided else "nothing goes on without a majority"
    lines = [f"excluded: {site}; {then}" for site in excluded]
    return lines + [f"frozen: {g}, until {' or '.join(who)} returns" for g, who in frozen.items()]


def broken_links(apart: Iterable[Sequence[str]]) -> list[str]:
    """A line for each two sites that do not hear each other."""
    return [f"{a} and {b} do not hear each other, nor through another site" for a, b in apart]


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def print_line(value: dict[str, Any]) -> None:
    """One object on a line of its own, at once: somebody may be waiting for it."""
    print(json.dumps(value, allow_nan=False, ensure_ascii=False), flush=True)


def say(text: str) -> None:
    """Progress, for people."""
    print(text, file=sys.stderr, flush=True)
