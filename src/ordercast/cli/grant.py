"""`ordercast grant add|remove|list`: who may do what in a cluster, while it runs."""

import argparse
import asyncio
from typing import Any

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.requests import (
    client_that_answers,
    request_arguments,
    request_change,
    site_to_ask,
)
from ordercast.cli.runtime import action_arguments, action_of, say, table_lines
from ordercast.net.client.destinations import Destination

ACTIONS = {"list": "", "add": "SUBJECT GRANT...", "remove": "SUBJECT [GRANT...]"}

DESCRIPTION = """\
Change who may do what in a running cluster, or list it. No message waits for it, and it
counts at every site within a second, if the site hears a majority of the voters.

  add     CLUSTER SUBJECT GRANT...     the subject may do this too
  remove  CLUSTER SUBJECT [GRANT...]   not any more; without GRANT, all of its line
  list    CLUSTER                      all lines, and the certificates that are revoked

SUBJECT is client:NAME, site:NAME or socket (the user who runs a daemon). GRANT is
send:GROUP, read:GROUP, observe:GROUP or admin:GROUP; a verb alone means all groups. '*'
in a name stands for any characters. Without any table, sites and the socket may do
everything: the first change writes that down, so that it goes on until it is removed.
Needs the grant admin:*."""

EXAMPLE = """\
example:
  ordercast grant add cluster.toml client:billing send:sales read:sales
  ordercast grant remove cluster.toml client:billing read:sales
  ordercast grant remove cluster.toml 'client:*'
  ordercast grant list cluster.toml"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER [SUBJECT [GRANT...]]")
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.model.epochs import Edit, Grant, Withdraw
    from ordercast.model.grants import grant_line

    action, place, words = action_of(args, "grant", ACTIONS)
    if action == "list":
        return _list(args, place)
    subject, *acts = words
    line = grant_line(subject, acts, f"grant {action}")
    _, told = line.told()
    edit: Edit = Grant(line.subject, told) if action == "add" else Withdraw(line.subject, told)
    return request_change(args, place, [edit])


def _list(args: argparse.Namespace, place: Destination) -> int:
    via, told = asyncio.run(_grants(place, site_to_ask(place, args.via)))
    if args.json:
        print_json({"cluster": place.name, "via": via, **told})
        return GOOD
    rows = [("subject", "grants")]
    rows += [(subject, " ".join(acts)) for subject, acts in (told["table"] or {}).items()]
    if told["table"] is None:
        say("no table: sites and the sockets' owners may do everything, other clients nothing")
    else:
        print("\n".join(table_lines(rows)))
    for fingerprint, subject in told["revoked"].items():
        print(f"revoked: {fingerprint} of {subject}")
    return GOOD


async def _grants(place: Destination, site: str) -> tuple[str, dict[str, Any]]:
    """What a site knows, and which one it is."""
    async with client_that_answers(place, site) as client:
        return client.site, await client.grants()
