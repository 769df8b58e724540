"""`ordercast site add|retire|list`: the sites of a cluster, while it runs."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.cli.requests import request_arguments, request_change, site_to_ask, status_of
from ordercast.cli.runtime import action_arguments, action_of, say, table_lines
from ordercast.model.errors import ConfigError
from ordercast.model.names import require_name
from ordercast.net.client.destinations import Destination, LocalDestination

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

ACTIONS = {"add": "NAME", "retire": "NAME", "list": ""}

DESCRIPTION = """\
Add a site to a running cluster, retire one, or list them.

  add     CLUSTER NAME --address HOST:PORT   the others will let it in; run it with
                                             'ordercast node', then let it join groups
  retire  CLUSTER NAME                       it leaves all its groups, and the cluster
  list    CLUSTER                            the sites of the running cluster

Retiring waits until the site has got all that was sent to it before: it must run, unless
it is excluded already: then it is retired as it is, and never returns. One that votes
is first made to vote no longer ('ordercast voter remove')."""

EXAMPLE = """\
example:
  ordercast site add cluster.toml d --address 127.0.0.1:7104
  ordercast node cluster.toml --site d --address 127.0.0.1:7104
  ordercast group join cluster.toml alpha d
  ordercast site retire cluster.toml d"""


def arguments(parser: argparse.ArgumentParser) -> None:
    action_arguments(parser, "ACTION CLUSTER [NAME]")
    parser.add_argument("--address", metavar="HOST:PORT", help="add: where it will listen")
    request_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from ordercast.model.epochs import AddSite, RetireSite

    action, place, names = action_of(args, "site", ACTIONS)
    if args.address is not None and action != "add":
        raise UsageError(f"site {action}: --address is for 'add'")
    if action == "list":
        return _list(args, place)
    site = require_name(names[0], f"site {action}")
    if action == "retire":
        try:
            return request_change(args, place, [RetireSite(site)])
        except ConfigError as error:  # the sites do not know where their file is
            told = str(error).replace("voter remove CLUSTER ", f"voter remove {place.source} ")
            raise ConfigError(told) from None
    cluster = place.cluster if isinstance(place, LocalDestination) else None
    code = request_change(args, place, [AddSite(site, _address(args, cluster, site))])
    if code == GOOD and not args.json and cluster is not None and site not in cluster.sites:
        if cluster.tls is not None:
            say(f"its certificate: 'ordercast certs {cluster.source} --site {site}'")
        say(f"run it: 'ordercast node {cluster.source} --site {site} --address {args.address}'")
    return code


def _address(args: argparse.Namespace, cluster: "Cluster | None", site: str) -> str:
    """In the form of the cluster file; empty for a site that is in the file. Without a file the
    sites judge it themselves."""
    from ordercast.net.cluster.addresses import parse_address, require_loopback

    if args.address is None:
        if cluster is not None and site in cluster.sites:
            return ""
        raise UsageError("site add: --address HOST:PORT is missing; see 'ordercast site --help'")
    address = parse_address(args.address, "--address")
    if cluster is None:
        return str(args.address)
    if cluster.tls is None and not cluster.insecure:
        require_loopback({site: address})
    for other, known in cluster.addresses().items():
        if known == address and other != site:
            raise ConfigError(f"--address: {args.address!r} is taken by site {other!r}")
    return str(args.address)


def _list(args: argparse.Namespace, place: Destination) -> int:
    via = site_to_ask(place, args.via)
    status = asyncio.run(status_of(place, via))
    via = status["site"]
    groups: dict[str, list[str]] = {site: [] for site in status["sites"]}
    for epoch in status["epochs"]:
        for group, row in epoch["groups"].items():
            for member in row["members"]:
                groups[member].append(group)
    rows: dict[str, dict[str, Any]] = {
        site: {"groups": sorted(names), "voter": site in status["voters"]}
        for site, names in groups.items()
    }
    if args.json:
        print_json({"cluster": place.name, "via": via, "manager": status["manager"], "sites": rows})
        return GOOD
    lines = [("site", "voter", "groups")]
    for site, row in rows.items():
        lines.append((site, "yes" if row["voter"] else "no", ", ".join(row["groups"]) or "-"))
    print("\n".join(table_lines(lines)))
    return GOOD
