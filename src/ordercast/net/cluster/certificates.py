"""Making an authority and the certificates of sites and clients (the extra `certs`).

One authority per cluster: `ca.pem` and `ca.key`; for each site `SITE.pem` and `SITE.key`; for each
client `clients/NAME.pem` and `clients/NAME.key`. The name of a site or client stands in its
certificate as a URI. A client's certificate is good for dialling only. Keys are ECDSA on P-256. A
machine needs `ca.pem` and the two files of its site or client; `ca.key` is needed only to make more
certificates, and is best kept elsewhere.
"""

import hashlib
import ipaddress
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ordercast.model.errors import ConfigError
from ordercast.model.grants import client_uri
from ordercast.model.groups import Site
from ordercast.model.names import require_distinct, require_name
from ordercast.whole_files import OURS, write_file

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS: Final = 3_650
SITE_DAYS: Final = 825
CLOCKS_DIFFER: Final = timedelta(hours=1)  # a new certificate is good where the clock is behind
AUTHORITY: Final = "ca"
CLIENTS: Final = "clients"  # the directory of clients' files, below the sites' directory


def certificate_uri(cluster: str, site: Site) -> str:
    """How a site's name stands in its certificate. Names have no slash: it reads one way only."""
    return f"ordercast://{cluster}/{site}"


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: "x509.Certificate"
    key: "ec.EllipticCurvePrivateKey"


def write_certificates(
    cluster: str,
    sites: Iterable[Site],
    directory: Path,
    *,
    hosts: Mapping[Site, Sequence[str]] | None = None,
    renew: bool = False,
) -> list[Path]:
    """Make what is missing in `directory`: the authority, and a certificate for each site.

    What is there stays as it is; with `renew` the sites get new certificates and keys from the
    authority that is there. `hosts` are names and addresses of a site, for other people's tools.
    Returns the files written.
    """
    names = _checked_names(cluster, sites)
    written = []
    if (directory / "ca.pem").exists() or (directory / "ca.key").exists():
        authority = read_authority(directory)
    else:
        authority = make_authority(cluster, directory)
        written += [directory / "ca.pem", directory / "ca.key"]
    for site in names:
        if renew or not (directory / f"{site}.pem").exists():
            written += make_site_certificate(
                authority, cluster, site, directory, hosts=(hosts or {}).get(site, ())
            )
    return written


def add_certificates(
    cluster: str,
    sites: Iterable[Site],
    directory: Path,
    *,
    hosts: Mapping[Site, Sequence[str]] | None = None,
    renew: bool = False,
) -> list[Path]:
    """Certificates for sites that are added to a running cluster, from the authority that is in
    `directory`: a new one would sign what no other site accepts."""
    names = _checked_names(cluster, sites)
    require_distinct([*_names_there(directory), *names], "sites")
    return write_certificates(cluster, names, directory, hosts=hosts, renew=renew)


def add_client_certificates(
    cluster: str, clients: Iterable[str], directory: Path, *, renew: bool = False
) -> list[Path]:
    """Certificates for clients, in `directory/clients`, from the authority in `directory`."""
    _names_there(directory)
    authority = read_authority(directory)
    names = [require_name(client, "clients") for client in clients]
    there = sorted(path.stem for path in (directory / CLIENTS).glob("*.pem"))
    require_distinct([*there, *names], "clients")
    written = []
    for client in names:
        if renew or client not in there:
            written += make_client_certificate(authority, cluster, client, directory)
    return written


def _names_there(directory: Path) -> list[str]:
    """The sites that have certificates there, and the authority, which must be there too."""
    files = sorted(path.stem for path in directory.glob("*.pem")) if directory.is_dir() else []
    if AUTHORITY not in files:
        raise ConfigError(
            f"{directory}: has no authority (ca.pem, ca.key); where the cluster's certificates were"
            " made there is one"
        )
    return files


def _checked_names(cluster: str, sites: Iterable[Site]) -> list[Site]:
    require_name(cluster, "cluster")
    names = list(sites)
    for site in names:
        require_name(site, "sites")
        if site.lower() == AUTHORITY:
            raise ConfigError(f"sites: {site!r} is what the authority's own files are called")
    return names


def make_authority(cluster: str, directory: Path) -> Authority:
    """A new authority in `directory`, which must not have one: certificates of it would be void."""
    _require_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    _make_directory(directory)
    for file in (directory / "ca.pem", directory / "ca.key"):
        if file.exists():
            raise ConfigError(f"{file}: is there already, and is not replaced")
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"ordercast authority of {cluster}")
    builder = (
        _begin(name, name, key.public_key(), AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    authority = Authority(builder.sign(key, hashes.SHA256()), key)
    _write_pair(directory, AUTHORITY, authority.certificate, key)
    return authority


def read_authority(directory: Path) -> Authority:
    _require_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate_file, key_file = directory / "ca.pem", directory / "ca.key"
    try:
        certificate = x509.load_pem_x509_certificate(_read(certificate_file))
    except ValueError:
        raise ConfigError(f"{certificate_file}: not a certificate in PEM form") from None
    try:
        key = load_pem_private_key(_read(key_file), password=None)
    except (ValueError, TypeError):
        raise ConfigError(f"{key_file}: not a private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{key_file}: not an elliptic-curve key, as ordercast makes them")
    if key.public_key() != certificate.public_key():
        raise ConfigError(f"{key_file}: is not the key of {certificate_file.name}")
    if certificate.not_valid_after_utc < datetime.now(UTC):
        raise ConfigError(f"{certificate_file}: has expired; make a new authority elsewhere")
    return Authority(certificate, key)


def make_site_certificate(
    authority: Authority,
    cluster: str,
    site: Site,
    directory: Path,
    *,
    hosts: Sequence[str] = (),
    days: int = SITE_DAYS,
) -> list[Path]:
    """A new key and certificate for a site, in the place of those that may be there."""
    uri = certificate_uri(cluster, site)
    return _make_certificate(authority, uri, directory / site, hosts, days, listens=True)


def make_client_certificate(
    authority: Authority, cluster: str, client: str, directory: Path, *, days: int = SITE_DAYS
) -> list[Path]:
    """The same for a client, in the directory of clients."""
    uri = client_uri(cluster, client)
    where = directory / CLIENTS / client
    return _make_certificate(authority, uri, where, (), days, listens=False)


def _make_certificate(
    authority: Authority, uri: str, where: Path, hosts: Sequence[str], days: int, *, listens: bool
) -> list[Path]:
    """The pair of files that `where` names without their endings."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    names: list[x509.GeneralName] = [
        x509.UniformResourceIdentifier(uri),
        *(_host_name(host) for host in dict.fromkeys(hosts)),
    ]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    purposes = [ExtendedKeyUsageOID.SERVER_AUTH] if listens else []
    purposes.append(ExtendedKeyUsageOID.CLIENT_AUTH)
    builder = (
        _begin(_name(where.name), authority.certificate.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer, critical=False)
    )
    certificate = builder.sign(authority.key, hashes.SHA256())
    _make_directory(where.parent)
    return _write_pair(where.parent, where.name, certificate, key)


def fingerprint_of(path: Path) -> str:
    """The SHA-256 of a certificate in a file, in hexadecimal digits."""
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(_read(path).decode("ascii"))).hexdigest()
    except ValueError:
        raise ConfigError(f"{path}: not a certificate in PEM form") from None


# --- Parts of a certificate -----------------------------------------------------------------------


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError(
            "making certificates needs the extra 'certs': pip install 'ordercast[certs]'"
        ) from None


def _name(text: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _begin(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePublicKey", days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - CLOCKS_DIFFER)
        .not_valid_after(end)
    )


def _usage(*, certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(f"hosts: {host!r} is not a host name in ASCII") from None


# --- Files ----------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _make_directory(directory: Path) -> None:
    """Ours alone if it is new; the mode of one that is there is its owner's business."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be made ({error.strerror})") from None


def _write_pair(
    directory: Path,
    name: str,
    certificate: "x509.Certificate",
    key: "ec.EllipticCurvePrivateKey",
) -> list[Path]:
    """The key first: a running site takes a pair only when both fit."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key_file, certificate_file = directory / f"{name}.key", directory / f"{name}.pem"
    _replace(key_file, secret, OURS)
    _replace(certificate_file, certificate.public_bytes(Encoding.PEM), 0o644)
    return [certificate_file, key_file]


def _replace(path: Path, data: bytes, mode: int) -> None:
    try:
        write_file(path, data, mode=mode)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
