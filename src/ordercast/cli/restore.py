"""`ordercast restore CLUSTER SITE FILE`: a store for a site that has lost its own, from a copy."""

import argparse
from pathlib import Path

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.runtime import cluster_arguments, cluster_of, store_of
from ordercast.model.errors import ConfigError

DESCRIPTION = """\
Make a store for a site that has lost its own, from a copy that 'ordercast backup' made.
The site must not run, and must have no store. Since the copy was made the site has
promised things to others that the copy does not know. So the new store takes from it
only what never changes (what the cluster was founded with, where the site listens, what
it had heard of other sites' stores), and the site returns as any that has lost its store
does: as the next incarnation, without a past; it joins its groups anew.
--exact puts all of it back. That is right only if the copy lacks nothing: it was made
after the site was stopped for good, or copies of all sites were made while none ran.
If it does lack something the others notice, and the site stops with one line."""

EXAMPLE = """\
example:
  ordercast restore cluster.toml a a-monday.backup
  ordercast cluster restart cluster.toml a"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("site", metavar="SITE", help="whose store")
    parser.add_argument("file", metavar="FILE", help="the copy")
    parser.add_argument("--exact", action="store_true", help="with all that is in the copy")


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster import processes
    from ordercast.net.cluster.directory import make_directory
    from ordercast.net.store.backup import restore
    from ordercast.net.store.places import require_place

    cluster, directory = cluster_of(args, "restore")
    store = store_of(cluster, args.site, directory)
    daemon = processes.running(directory, args.site)
    if daemon is not None:
        raise ConfigError(f"site {args.site!r} runs here (process {daemon.pid}): stop it first")
    if cluster.on_failure == "wait" and not args.exact:
        raise ConfigError(
            f"{cluster.source}: under on_failure = 'wait' a site does not return without its store;"
            " --exact puts back copies of all sites that were made while none ran"
        )
    require_place(cluster, [args.site], directory)
    make_directory(directory)
    found = restore(
        Path(args.file), store, cluster=cluster.name, site=args.site,
        durability=cluster.durability, exact=args.exact,
    )  # fmt: skip
    if args.json:
        what = {"site": args.site, "file": args.file, "store": str(store), "exact": args.exact}
        print_json({**what, "position": found.positions["logged"]})
    elif args.exact:
        print(f"{store}: all of {args.file}, up to position {found.positions['logged']:,}")
    else:
        print(f"{store}: made from {args.file}; site {args.site} returns without its past")
    return GOOD
