"""`ordercast certs CLUSTER`: the authority and the sites' certificates of a cluster."""

import argparse
from pathlib import Path

from ordercast.cli.frame import GOOD, print_json
from ordercast.cli.runtime import cluster_arguments, cluster_of
from ordercast.model.errors import ConfigError

DESCRIPTION = """\
Make what is missing of a cluster's certificates: an authority (ca.pem, ca.key), and
for each site a certificate and a key (SITE.pem, SITE.key). They go to the directory
that the cluster file names under [tls], or to --out. Running sites notice new files.
A machine needs ca.pem and its own site's two files; keep ca.key elsewhere.
Needs the extra 'certs'."""

EXAMPLE = """\
example:
  ordercast certs cluster.toml
  ordercast certs cluster.toml --renew"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser)
    parser.add_argument("--out", metavar="DIR", help="the directory (default: that of [tls])")
    parser.add_argument(
        "--renew", action="store_true", help="new certificates and keys for all sites"
    )


def run(args: argparse.Namespace) -> int:
    from ordercast.net.certs import write_certificates

    cluster, _ = cluster_of(args)
    if args.out is not None:
        directory = Path(args.out)
    elif cluster.tls is not None:
        directory = cluster.tls.directory
    else:
        raise ConfigError(f"{cluster.source}: has no [tls] dir; name a directory with --out")
    hosts = {name: [site.address[0]] for name, site in cluster.sites.items()}
    written = write_certificates(
        cluster.name, sorted(cluster.sites), directory, hosts=hosts, renew=args.renew
    )
    if args.json:
        print_json({"dir": str(directory), "written": [path.name for path in written]})
    elif not written:
        print(f"{directory}: nothing is missing (--renew makes new certificates)")
    else:
        print(f"{directory}: wrote {', '.join(path.name for path in written)}")
    return GOOD
