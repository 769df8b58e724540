"""TLS 1.3 with certificates on both sides: files, contexts, and one connection's records.

A site's name stands in its certificate as the URI `ordercast://CLUSTER/SITE`. Files are read again
when they change; wrong files are not taken. The records are handled here, without the TLS of the
event loop: that does not say why a peer was refused, and holds half a megabyte for each stranger.
"""

import hashlib
import logging
import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.net.cluster.certificates import certificate_uri
from ordercast.net.link.complaints import LinkTrouble

log = logging.getLogger("ordercast.net.tls")

CERTIFICATE: Final = "its certificate is not accepted"
REVOKED: Final = "its certificate is revoked"
OUR_CERTIFICATE: Final = "it does not accept our certificate"
WRONG_NAME: Final = "its certificate names another site"
NO_TLS: Final = "no TLS"
TLS_FAILED: Final = "TLS failed"
EXPIRES_SOON_DAYS: Final = 30

_NO_TLS_REASONS = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"}


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The files `DIR/ca.pem`, SITE.pem and SITE.key. `ca.pem` has one authority or, while that is
    being replaced, several."""

    directory: Path

    def files(self, site: Site) -> tuple[Path, Path, Path]:
        directory = self.directory
        return directory / "ca.pem", directory / f"{site}.pem", directory / f"{site}.key"


@dataclass(frozen=True, slots=True)
class _Contexts:
    server: ssl.SSLContext
    client: ssl.SSLContext
    stamp: tuple[object, ...]


class CertificateFiles:
    """The contexts made from an authority, a certificate and its key, as the files are now."""

    def __init__(self, files: tuple[Path, Path, Path]) -> None:
        self._files = files
        self.names: tuple[str, ...] = ()  # the URIs in our certificate
        self.ends_at = 0  # when the certificate expires, in seconds of Unix time
        self._now = self._load()
        self._wrong: tuple[object, ...] = ()  # stamps of files that were not taken
        self._complained = ""

    def session(self, *, server_side: bool) -> "TlsSession":
        """A session for a new connection, with the files as they are now."""
        self.refresh()
        return TlsSession(self._now.server if server_side else self._now.client, server_side)

    def refresh(self) -> None:
        """Read the files again if they have changed. Wrong files are logged if two looks in a row
        find them: a key and its certificate are never replaced in one moment."""
        try:
            stamp = self._stamp()
            if stamp == self._now.stamp:
                return
            self._now = self._load()
        except ConfigError as error:
            stamp = self._stamp_or_nothing()
            if stamp == self._wrong and str(error) != self._complained:
                self._complained = str(error)
                log.warning("%s; going on with the certificates read before", error)
            self._wrong = stamp
            return
        self._complained = ""
        log.info("%s: certificates read again", self._files[1].parent)

    def _stamp(self) -> tuple[object, ...]:
        found: list[object] = []
        for path in self._files:
            try:
                status = path.stat()
            except FileNotFoundError:
                raise ConfigError(
                    f"{path}: there is no such file; 'ordercast certs' makes certificates"
                ) from None
            except OSError as error:
                raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
            found += [status.st_mtime_ns, status.st_size, status.st_ino]
        return tuple(found)

    def _stamp_or_nothing(self) -> tuple[object, ...]:
        try:
            return self._stamp()
        except ConfigError:
            return ("missing",)

    def _load(self) -> _Contexts:
        stamp = self._stamp()
        contexts = _Contexts(
            self._context(ssl.PROTOCOL_TLS_SERVER), self._context(ssl.PROTOCOL_TLS_CLIENT), stamp
        )
        certificate = self._own(contexts)
        names = tuple(names_in(certificate))
        self._require_named(names)
        self._warn(certificate)
        self.names = names
        return contexts

    def _require_named(self, names: Sequence[str]) -> None:
        """Raise ConfigError unless our certificate may have these names."""

    def _context(self, side: int) -> ssl.SSLContext:
        authority, certificate, key = self._files
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the site's name is checked instead
        context.verify_mode = ssl.CERT_REQUIRED
        if side == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # no resumption: every connection shows its certificate
        for path in self._files:
            if not os.access(path, os.R_OK):
                raise ConfigError(f"{path}: cannot be read")
        try:
            context.load_verify_locations(authority)
        except (ssl.SSLError, OSError):
            raise ConfigError(f"{authority}: not a certificate in PEM form") from None
        try:
            # With a password, the terminal would be asked for it.
            context.load_cert_chain(certificate, key, password=lambda: b"")
        except (ssl.SSLError, OSError) as error:
            reason = _reason(error)
            if "MISMATCH" in reason:
                raise ConfigError(f"{key}: is not the key of {certificate.name}") from None
            raise ConfigError(f"{certificate} or {key.name}: cannot be used ({reason})") from None
        return context

    def _own(self, contexts: _Contexts) -> Mapping[str, Any]:
        """Our certificate as a peer sees it. We shake hands with ourselves to find out."""
        client = TlsSession(self._dialling(), False)
        server = TlsSession(contexts.server, True)
        try:
            while not (client.handshake() and server.handshake()):
                server.feed(client.outgoing())
                server.handshake()
                client.feed(server.outgoing())
        except LinkTrouble as trouble:
            reason = str(trouble).removeprefix(f"{CERTIFICATE}: ")
            raise ConfigError(
                f"{self._files[1]}: does not pass with {self._files[0].name}: {reason}"
            ) from None
        return server.certificate()

    def _dialling(self) -> ssl.SSLContext:
        """The context of the end that dials when we shake hands with ourselves."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def _warn(self, certificate: Mapping[str, Any]) -> None:
        key = self._files[2]
        if os.name == "posix" and key.stat().st_mode & 0o077:
            log.warning("%s: others can read it (chmod 600)", key)
        self.ends_at = ssl.cert_time_to_seconds(certificate["notAfter"])
        end = datetime.fromtimestamp(self.ends_at, UTC)
        days = (end - datetime.now(UTC)).days
        if days < EXPIRES_SOON_DAYS:
            log.warning("%s: expires in %d days, on %s", self._files[1], days, end.date())


class Certificates(CertificateFiles):
    """The certificates of a site, which listens and dials with them."""

    def __init__(self, config: TlsConfig, cluster: str, site: Site) -> None:
        self._uri = certificate_uri(cluster, site)
        super().__init__(config.files(site))

    def _require_named(self, names: Sequence[str]) -> None:
        if self._uri not in names:
            raise ConfigError(f"{self._files[1]}: does not name {self._uri}")


class ClientCertificates(CertificateFiles):
    """The certificates of a program that only dials. Its own need not be good for listening, so the
    handshake with ourselves does not ask for that."""

    def _dialling(self) -> ssl.SSLContext:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_mode = ssl.CERT_NONE
        return context


class TlsSession:
    """The TLS of one connection, without its socket."""

    def __init__(self, context: ssl.SSLContext, server_side: bool) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=server_side)

    def feed(self, data: bytes | memoryview) -> None:
        self._in.write(data)

    def outgoing(self) -> bytes:
        """The bytes that must be written to the socket."""
        return self._out.read()

    def handshake(self) -> bool:
        """Continue the handshake. Returns whether it is done."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise _refusal(error) from None
        return True

    def read_into(self, buffer: memoryview) -> int:
        """Decrypt what has come, as much as fits. Returns how many bytes."""
        filled, size = 0, len(buffer)
        try:
            while filled < size:
                got = self._ssl.read(size - filled, buffer[filled:])
                if not got:
                    break
                filled += got  # type: ignore[operator]
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        except ssl.SSLError as error:
            raise _refusal(error) from None
        return filled

    def encrypt(self, data: bytes) -> bytes:
        """The bytes encrypted. Raises LinkTrouble if the connection has ended; its reader may not
        know yet."""
        try:
            written = self._ssl.write(data)
            while written < len(data):
                written += self._ssl.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            raise _refusal(error) from None
        return self._out.read()

    def goodbye(self) -> bytes:
        with suppress(ssl.SSLError):  # we do not wait for the peer's own goodbye
            self._ssl.unwrap()
        return self._out.read()

    def require(self, name: str) -> None:
        """Raise LinkTrouble unless the peer's certificate has this name."""
        names = names_in(self.certificate())
        if name not in names:
            raise LinkTrouble(WRONG_NAME, f"{', '.join(names[:4]) or 'none'}, not {name}")

    def certificate(self) -> Mapping[str, Any]:
        return self._ssl.getpeercert() or {}

    def fingerprint(self) -> str:
        """The SHA-256 of the peer's certificate, in hexadecimal digits; "": it has shown none."""
        shown = self._ssl.getpeercert(binary_form=True)
        return hashlib.sha256(shown).hexdigest() if shown else ""


def names_in(certificate: Mapping[str, Any]) -> list[str]:
    """The URIs in a certificate."""
    names: Sequence[tuple[str, str]] = certificate.get("subjectAltName", ())
    return [value for kind, value in names if kind == "URI"]


def _refusal(error: ssl.SSLError) -> LinkTrouble:
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkTrouble(CERTIFICATE, error.verify_message)
    reason = _reason(error)
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return LinkTrouble(CERTIFICATE, "it shows none")
    if reason in _NO_TLS_REASONS:
        return LinkTrouble(NO_TLS, "it does not speak TLS, which this cluster requires")
    if "ALERT" in reason and ("CERT" in reason or "UNKNOWN_CA" in reason):
        return LinkTrouble(OUR_CERTIFICATE, _words(reason))
    return LinkTrouble(TLS_FAILED, _words(reason))


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or "damaged"


def _words(reason: str) -> str:
    return reason.lower().replace("_", " ")
