"""`ordercast init [NAME]`: a new cluster: its file, its secret, its certificates."""

import argparse
import os
import shlex
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import GOOD, UsageError, print_json
from ordercast.model.errors import ConfigError, reason
from ordercast.model.names import require_name

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

FIRST_PORT = 7_101
NAMES = ("a", "b", "c")  # of sites, if none are given
GROUP = "all"
CERTIFICATES = "certs"
SECRET = "cluster.secret"  # of a cluster on several machines without certificates

DESCRIPTION = """\
Write a new cluster file, in which every setting stands with its default and its
meaning, and what its sites prove to each other: a secret, or with --tls certificates.
Without --sites: a, b and c on free ports of this machine. Without --groups: one group,
'all', of all sites. Nothing that is there is overwritten. It prints what to type next."""

EXAMPLE = """\
example:
  ordercast init
  ordercast init shop --sites a=db1:7101 b=db2:7101 c=db3:7101 --tls
  ordercast init demo --groups alpha=a,b beta=b,c --file demo.toml"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", nargs="?", default="demo", metavar="NAME", help="of the cluster (default: demo)"
    )
    parser.add_argument(
        "--sites", nargs="+", metavar="SITE=HOST:PORT", help="the sites and where they listen"
    )
    parser.add_argument(
        "--groups", nargs="+", metavar="GROUP=SITE,SITE", help="the groups and their members"
    )
    parser.add_argument(
        "--file", default="cluster.toml", metavar="FILE", help="(default: cluster.toml)"
    )
    parser.add_argument("--dir", metavar="DIR", help="where stores and sockets will be")
    parser.add_argument(
        "--tls", action="store_true", help=f"certificates, in {CERTIFICATES}/ beside the file"
    )
    parser.add_argument(
        "--insecure", action="store_true",
        help="addresses that are not of the loopback, without certificates: a secret only",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.addresses import is_loopback, parse_address
    from ordercast.net.cluster.file import parse_cluster
    from ordercast.net.cluster.secret import ClusterSecret
    from ordercast.net.cluster.template import NewCluster

    require_name(args.name, "NAME")
    if args.tls and args.insecure:
        raise UsageError("--tls and --insecure contradict each other")
    file = Path(args.file)
    sites = _pairs(args.sites, "--sites", "SITE=HOST:PORT") if args.sites else _free_sites()
    if not (args.tls or args.insecure):
        for site, address in sites.items():
            if not is_loopback(parse_address(address, f"--sites {site}")[0]):
                raise UsageError(f"--sites: {address!r} is not of the loopback: say --tls")
    given = _pairs(args.groups, "--groups", "GROUP=SITE,SITE") if args.groups else {}
    groups = {group: members.split(",") for group, members in given.items()}
    new = NewCluster(
        name=args.name,
        sites=sites,
        groups=groups or {GROUP: list(sites)},
        dir=args.dir or "",
        tls=CERTIFICATES if args.tls else "",
        insecure=args.insecure,
        secret=SECRET if args.insecure else "",
    )
    text = new.text()
    cluster = parse_cluster(text, source=args.file, base=file.parent)
    cluster.first_layout()  # what cannot be founded is said now
    _require_nothing_there(file, cluster)
    certificates = _certificates(cluster)
    secret = None if cluster.secret is None else ClusterSecret(cluster.secret, make=True).path
    _write(file, text)
    _tell(args, cluster, secret, certificates)
    return GOOD


def _pairs(given: Sequence[str], option: str, form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise UsageError(f"{option}: {word!r} is not {form}")
        require_name(name, option)
        if name in found:
            raise UsageError(f"{option}: {name!r} is given twice")
        found[name] = value
    return found


def _free_sites() -> dict[str, str]:
    """The default sites, each on the next port of this machine that nobody uses now."""
    found: dict[str, str] = {}
    for port in range(FIRST_PORT, 65_536):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found[NAMES[len(found)]] = f"127.0.0.1:{port}"
        if len(found) == len(NAMES):
            break
    return found


def _require_nothing_there(file: Path, cluster: "Cluster") -> None:
    from ordercast.net.cluster.directory import require_own
    from ordercast.net.store.places import require_place

    assert cluster.dir is not None
    require_own(cluster.dir)
    for path in (file, cluster.tls and cluster.tls.directory / "ca.pem"):
        if path and os.path.lexists(path):
            raise ConfigError(f"{path}: is there already, and is not overwritten")
    require_place(cluster, cluster.sites, cluster.dir, new=True)


def _certificates(cluster: "Cluster") -> list[Path]:
    if cluster.tls is None:
        return []
    from ordercast.net.cluster.certificates import write_certificates

    hosts = {name: [site.address[0]] for name, site in cluster.sites.items()}
    return write_certificates(
        cluster.name, sorted(cluster.sites), cluster.tls.directory, hosts=hosts
    )


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({reason(error)})") from None


def _tell(
    args: argparse.Namespace, cluster: "Cluster", secret: Path | None, certificates: list[Path]
) -> None:
    commands = _next(args.file, cluster)
    if args.json:
        print_json(
            {
                "cluster": cluster.name,
                "file": args.file,
                "dir": str(cluster.dir),
                "secret": None if secret is None else str(secret),
                "certificates": [str(path) for path in certificates],
                "next": commands,
            }
        )
        return
    print(f"{args.file}: cluster {cluster.name}, sites {', '.join(cluster.sites)}")
    print(f"{cluster.dir}: its stores will be there")
    if secret is not None:
        print(f"{secret}: its secret")
    if certificates:
        print(f"{certificates[0].parent}: its certificates; keep ca.key elsewhere")
    if not _is_local(cluster):
        proof = "its ca.pem, SITE.pem and SITE.key" if certificates else "the secret"
        print(f"copy the file and {proof} to each machine")
    print("next:", *commands, sep="\n  ")


def _is_local(cluster: "Cluster") -> bool:
    from ordercast.net.cluster.addresses import is_loopback

    return all(is_loopback(site.address[0]) for site in cluster.sites.values())


def _next(file: str, cluster: "Cluster") -> list[str]:
    quoted = shlex.quote(file)
    if not _is_local(cluster):
        return [f"ordercast node {quoted} --site {site}" for site in cluster.sites]
    group, members = next(iter(cluster.groups.items()))
    return [
        f"ordercast cluster up {quoted} --detach",
        f"ordercast send {quoted} {group} 'hello, all' --until stable",
        f"ordercast tail {quoted} --site {members[0]} --start 1 --count 1",
        f"ordercast status {quoted}",
        f"ordercast cluster down {quoted}",
    ]
