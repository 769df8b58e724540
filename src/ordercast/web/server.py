"""Serving the application on a socket: this machine alone, or elsewhere with TLS and a token."""

import logging
import secrets
import socket
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from ordercast.model.errors import ConfigError, reason
from ordercast.net.cluster.addresses import is_loopback
from ordercast.web.access import Access

_FAREWELL_S = 1  # streams never end by themselves


def access_to(host: str, *, cert: Path | None, key: Path | None, token: str) -> Access:
    """Whether it may be served there. Raises ConfigError, if not."""
    local = is_loopback(host)
    if not local and (cert is None or not token):
        missing = " and ".join(
            name for name, there in (("--cert", cert), ("--token-file", token)) if not there
        )
        raise ConfigError(
            f"--host {host}: other machines could reach it there, so it needs TLS and a token:"
            f" {missing} is missing"
        )
    if key is not None and cert is None:
        raise ConfigError("--key: goes with --cert")
    for name, file in (("--cert", cert), ("--key", key)):
        if file is not None and not file.is_file():
            raise ConfigError(f"{name} {file}: there is no such file")
    return Access(local=local, secure=cert is not None, token=token)


def new_token() -> str:
    return secrets.token_urlsafe(24)


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)  # clients that come before the server runs wait
    except OSError as error:
        found.close()
        told = reason(error)
        raise ConfigError(f"--host {host} --port {port}: {told}") from None
    return found


def address(found: socket.socket, access: Access) -> str:
    host, port = found.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if access.secure else 'http'}://{shown}:{port}"


def make_server(app: Starlette, *, cert: Path | None, key: Path | None) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_FAREWELL_S,
        ssl_certfile=None if cert is None else str(cert),
        ssl_keyfile=None if key is None else str(key),
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_farewell)
    return uvicorn.Server(config)


def _is_no_farewell(told: logging.LogRecord) -> bool:
    """Open pages are cut off at the end: that is no error."""
    return "graceful shutdown" not in told.getMessage()
