"""`ordercast voter add|remove`: the sites that decide changes of a cluster, while it runs."""

import argparse

from ordercast.cli.asking import ask_for, asking_arguments
from ordercast.cli.frame import UsageError
from ordercast.cli.runtime import action_and_cluster, dir_argument
from ordercast.model.names import require_name

ACTIONS = ("add", "remove")

DESCRIPTION = """\
Change the voters of a running cluster, one at a time: the sites of which a majority
decides every change of groups, sites and protocols. Messages do not wait for it.

  add     CLUSTER SITE   done when the site has learned all that was decided
  remove  CLUSTER SITE   it goes on as any other site"""

EXAMPLE = """\
example:
  ordercast voter add cluster.toml d
  ordercast voter remove cluster.toml a"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="ACTION CLUSTER SITE", help="see above")
    dir_argument(parser)
    asking_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.model.epochs import AddVoter, RemoveVoter
    from ordercast.net.cluster.file import read_cluster

    action, file, *sites = action_and_cluster(args.words, ACTIONS, "voter")
    if not sites:
        raise UsageError(f"voter {action}: SITE is missing; see 'ordercast voter --help'")
    if len(sites) > 1:
        raise UsageError(f"voter {action}: one argument too many: {sites[1]!r}")
    site = require_name(sites[0], f"voter {action}")
    edit = AddVoter(site) if action == "add" else RemoveVoter(site)
    cluster = read_cluster(file)
    return ask_for(args, cluster, cluster.directory(args.dir), [edit])
