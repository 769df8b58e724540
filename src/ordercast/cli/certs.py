"""`ordercast certs CLUSTER`: the authority of a cluster, and certificates of sites and clients."""

import argparse
from pathlib import Path

from ordercast.cli.command import GOOD, print_json
from ordercast.cli.runtime import cluster_arguments, cluster_of
from ordercast.model.errors import ConfigError

DESCRIPTION = """\
Make what is missing of a cluster's certificates: an authority (ca.pem, ca.key), and
for each site a certificate and a key (SITE.pem, SITE.key). They go to the directory
that the cluster file names under [tls], or to --out. Running sites notice new files.
With --site only for the sites named, which need not be in the cluster file: for one
that 'ordercast site add' will admit, from the authority that is there.
With --client for a client on another machine: clients/NAME.pem and clients/NAME.key. What
it may do, the cluster file says under [grants].
A machine needs ca.pem and its own site's two files; keep ca.key elsewhere.
Needs the extra 'certs'."""

EXAMPLE = """\
example:
  ordercast certs cluster.toml
  ordercast certs cluster.toml --renew
  ordercast certs cluster.toml --site d --host db4.example.org
  ordercast certs cluster.toml --client billing"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("--out", metavar="DIR", help="the directory (default: that of [tls])")
    parser.add_argument(
        "--renew",
        action="store_true",
        help="new certificates and keys for all sites (of --site, --client)",
    )
    parser.add_argument(
        "--site", metavar="SITE", action="append", help="only for this site; may be repeated"
    )
    parser.add_argument(
        "--client", metavar="NAME", action="append", help="only for this client; may be repeated"
    )
    parser.add_argument(
        "--host", metavar="HOST", action="append", default=[],
        help="a name or address of the one --site, for other people's tools; may be repeated",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.certificates import (
        add_certificates,
        add_client_certificates,
        write_certificates,
    )

    cluster, _ = cluster_of(args, "certs")
    if args.out is not None:
        directory = Path(args.out)
    elif cluster.tls is not None:
        directory = cluster.tls.directory
    else:
        raise ConfigError(f"{cluster.source}: has no [tls] dir; name a directory with --out")
    hosts = {name: [site.address[0]] for name, site in cluster.sites.items()}
    make, sites = write_certificates, sorted(cluster.sites)
    if args.host and len(args.site or ()) != 1:
        raise ConfigError("--host: goes with exactly one --site")
    if args.site:
        make, sites = add_certificates, args.site
        if args.host:
            hosts[args.site[0]] = args.host
    written = []
    if args.site or not args.client:
        written += make(cluster.name, sites, directory, hosts=hosts, renew=args.renew)
    if args.client:
        written += add_client_certificates(cluster.name, args.client, directory, renew=args.renew)
    names = [str(path.relative_to(directory)) for path in written]
    if args.json:
        print_json({"dir": str(directory), "written": names})
    elif not written:
        print(f"{directory}: nothing is missing (--renew makes new certificates)")
    else:
        print(f"{directory}: wrote {', '.join(names)}")
    return GOOD
