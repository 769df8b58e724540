"""`ordercast voter add|remove`: the sites that decide changes of a cluster, while it runs."""

import argparse

from ordercast.cli.requests import request_arguments, request_change
from ordercast.cli.runtime import action_arguments, action_of
from ordercast.model.names import require_name

ACTIONS = {"add": "SITE", "remove": "SITE"}

DESCRIPTION = """\
Change the voters of a running cluster, one at a time: the sites of which a majority
decides every change of groups, sites and protocols. Messages do not wait for it.

  add     CLUSTER SITE   done when the site has learned all that was decided
  remove  CLUSTER SITE   it goes on as any other site; takes back an add under way"""

EXAMPLE = """\
example:
  ordercast voter add cluster.toml d
  ordercast voter remove cluster.toml a"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER SITE")
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.model.epochs import AddVoter, RemoveVoter

    action, place, sites = action_of(args, "voter", ACTIONS)
    site = require_name(sites[0], f"voter {action}")
    edit = AddVoter(site) if action == "add" else RemoveVoter(site)
    return request_change(args, place, [edit])
