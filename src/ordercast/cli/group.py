"""`ordercast group list CLUSTER`: the groups of a cluster, and which site orders each."""

import argparse
from typing import TYPE_CHECKING, Any

from ordercast.cli.frame import GOOD, UsageError, print_json
from ordercast.cli.runtime import action_and_cluster, dir_argument

if TYPE_CHECKING:
    from ordercast.core.structure import Structure

ACTIONS = ("list",)

DESCRIPTION = """\
List the groups of a cluster file: members, the primary (the site that orders the
group's messages), and the relays that are no members."""

EXAMPLE = """\
example:
  ordercast group list cluster.toml"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="list CLUSTER", help="see above")
    dir_argument(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.net.config import read_cluster

    _, file, *rest = action_and_cluster(args.words, ACTIONS, "group")
    if rest:
        raise UsageError(f"group list: one argument too many: {rest[0]!r}")
    cluster = read_cluster(file)
    structure = cluster.structure()
    rows: dict[str, dict[str, Any]] = {
        group: {
            "members": list(cluster.groups[group]),
            "primary": structure.primary(group),
            "extra": _extra(structure, group),
        }
        for group in sorted(cluster.groups)
    }
    if args.json:
        builder = structure.forest.builder
        print_json({"cluster": cluster.name, "builder": builder, "groups": rows})
        return GOOD
    width = max(len("group"), *(len(group) for group in rows))
    print(f"{'group':<{width}}  primary  members")
    for group, row in rows.items():
        relays = f" (relays: {', '.join(row['extra'])})" if row["extra"] else ""
        print(f"{group:<{width}}  {row['primary']:<7}  {', '.join(row['members'])}{relays}")
    return GOOD


def _extra(structure: "Structure", group: str) -> list[str]:
    """The sites on the way from the primary to the members that are no members."""
    members, primary = structure.members(group), structure.primary(group)
    passed: dict[str, None] = {primary: None}
    for member in members:
        at: str | None = member
        while at is not None and at not in passed:
            passed[at] = None
            at = structure.parent(at)
    return sorted(site for site in passed if site not in members)
