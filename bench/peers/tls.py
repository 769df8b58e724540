"""TLS for peers, as ordercast's sites have it: 1.3, both sides show a certificate of one authority.

The certificates are made anew for each run, with ECDSA keys on P-256.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.servers import Servers
from ordercast.net.cluster.certificates import write_certificates

TLS = "TLS"
HOST = "127.0.0.1"
_NAME = "peer"  # of the certificate that servers and members share


@dataclass(frozen=True)
class Files:
    authority: str
    certificate: str
    key: str


def with_tls(*variants: str) -> tuple[str, ...]:
    """Each variant, and then the same over TLS."""
    return tuple(name for each in variants for name in (each, ", ".join(filter(None, [each, TLS]))))


def files_for(servers: Servers, variant: str) -> Files | None:
    """New certificates, if the variant has TLS."""
    if not variant.endswith(TLS):
        return None
    place = servers.directory / "certs"
    write_certificates("bench", [_NAME], place, hosts={_NAME: [HOST]})
    return Files(*(str(place / name) for name in ("ca.pem", f"{_NAME}.pem", f"{_NAME}.key")))


def told(files: Files | None) -> dict[str, Any]:
    """What a member is told of them."""
    return {} if files is None else {"certs": str(Path(files.authority).parent)}


def member_context(spec: dict[str, Any]) -> ssl.SSLContext | None:
    """How a member dials, by what it was told. None: without TLS."""
    if "certs" not in spec:
        return None
    place = Path(spec["certs"])
    context = ssl.create_default_context(cafile=place / "ca.pem")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(place / f"{_NAME}.pem", place / f"{_NAME}.key")
    return context


def server_context(files: Files) -> ssl.SSLContext:
    """How the bench itself asks a server for its health."""
    context = ssl.create_default_context(cafile=files.authority)
    context.load_cert_chain(files.certificate, files.key)
    return context
