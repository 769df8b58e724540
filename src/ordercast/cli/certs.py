"""`ordercast certs CLUSTER`: the authority of a cluster, and certificates of sites and clients.
`ordercast certs revoke CLUSTER NAME`: a certificate that is good no longer."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.cli.destination import local_destination, place_arguments
from ordercast.cli.requests import request_arguments, request_change
from ordercast.cli.runtime import action_of
from ordercast.model.errors import ConfigError
from ordercast.model.names import require_name
from ordercast.net.client.destinations import LocalDestination

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

DESCRIPTION = """\
Make what is missing of a cluster's certificates: an authority (ca.pem, ca.key), and
for each site a certificate and a key (SITE.pem, SITE.key). They go to the directory
that the cluster file names under [tls], or to --out. Running sites notice new files.
With --site only for the sites named, which need not be in the cluster file: for one
that 'ordercast site add' will admit, from the authority that is there.
With --client for a client on another machine: clients/NAME.pem and clients/NAME.key. What
it may do, 'ordercast grant' says.
A machine needs ca.pem and its own site's two files; keep ca.key elsewhere.
Needs the extra 'certs'.

  revoke  CLUSTER NAME   of the running cluster: who shows clients/NAME.pem is let in
                         nowhere any more, and connections are closed. site:NAME: the
                         certificate of a site, NAME.pem; its links are closed, too.
                         It counts at every site within a second, if the site hears a
                         majority of the voters. --fingerprint: of a certificate that is not here
                         any more ('openssl x509 -noout -fingerprint -sha256'). A new
                         certificate of the same name (--client NAME --renew, --site
                         NAME --renew) is good."""

EXAMPLE = """\
example:
  ordercast certs cluster.toml
  ordercast certs cluster.toml --renew
  ordercast certs cluster.toml --site d --host db4.example.org
  ordercast certs cluster.toml --client billing
  ordercast certs revoke cluster.toml billing
  ordercast certs revoke cluster.toml site:d"""

REVOKE = "revoke"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="[revoke] CLUSTER [NAME]", help="the cluster file; see above"
    )
    place_arguments(parser)
    request_arguments(parser)
    parser.add_argument(
        "--fingerprint", metavar="SHA256", help="revoke: the certificate, where its file is not"
    )
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

    if args.words[:1] == [REVOKE]:
        return _revoke(args)
    if len(args.words) > 1:
        raise UsageError(f"certs: one argument too many: {args.words[1]!r}")
    cluster = local_destination(args, (args.words or [None])[0], "certs").cluster
    directory = _directory(args, cluster)
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


def _directory(args: argparse.Namespace, cluster: "Cluster") -> Path:
    if args.out is not None:
        return Path(args.out)
    if cluster.tls is None:
        raise ConfigError(f"{cluster.source}: has no [tls] dir; name a directory with --out")
    return cluster.tls.directory


def _revoke(args: argparse.Namespace) -> int:
    from ordercast.model.epochs import FINGERPRINT, RevokeCertificate
    from ordercast.model.grants import CLIENT, SITE
    from ordercast.net.cluster.certificates import CLIENTS, fingerprint_of

    _, place, names = action_of(args, "certs", {REVOKE: "NAME"})
    kind, colon, name = names[0].rpartition(":")
    if colon and kind not in (CLIENT, SITE):
        raise ConfigError(f"certs {REVOKE}: {names[0]!r}: write NAME, {CLIENT}:NAME or {SITE}:NAME")
    require_name(name, f"certs {REVOKE}")
    file = Path(f"{name}.pem") if kind == SITE else Path(CLIENTS, f"{name}.pem")
    if args.fingerprint is not None:
        found = args.fingerprint.replace(":", "").lower()
        if FINGERPRINT.fullmatch(found) is None:
            raise ConfigError(f"--fingerprint: {args.fingerprint!r} is no SHA-256 of a certificate")
    elif isinstance(place, LocalDestination):
        found = fingerprint_of(_directory(args, place.cluster) / file)
    elif args.out is not None:
        found = fingerprint_of(Path(args.out) / file)
    else:
        raise ConfigError(f"certs {REVOKE}: give --fingerprint, or --out with {file}")
    return request_change(args, place, [RevokeCertificate(f"{kind or CLIENT}:{name}", found)])
