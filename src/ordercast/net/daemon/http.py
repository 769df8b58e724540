"""`/healthz` and `/metrics` of a daemon, for probes and scrapers on a trusted network.

It has just enough HTTP for them: GET and HEAD, one request per connection, everything bounded. Any
program that reaches the port can open connections and say nothing. So when there are many, the
oldest is dropped for a new one, and nobody can keep a probe out.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from ordercast.model.errors import ConfigError, reason
from ordercast.model.groups import Site
from ordercast.net.cluster.sockets import share_of_files
from ordercast.net.daemon.metrics import CONTENT_TYPE, NEEDS_EXTRA, exposition
from ordercast.net.site.status import troubles

_log = logging.getLogger("ordercast.net.http")

MOST_CONNECTIONS = 256
MOST_HEAD = 8_192  # bytes
PATIENCE_S = 2.0

StatusSource = Callable[[], dict[str, Any]]
_PLAIN = "text/plain; charset=utf-8"
_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    501: "Not Implemented", 503: "Service Unavailable",
}  # fmt: skip


class Http:
    def __init__(self, status: StatusSource, address: tuple[str, int], site: Site) -> None:
        self.address = address
        self._status = status
        self._site = site
        self._server: asyncio.Server | None = None
        self._open: dict[_Request, None] = {}  # the oldest first
        self._most = share_of_files(MOST_CONNECTIONS)
        self.dropped = 0  # how many were dropped to make room

    async def start(self) -> None:
        host, port = self.address
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(lambda: _Request(self), host, port)
        except OSError as error:
            why = reason(error)
            raise ConfigError(f"sites.{self._site}.metrics: {host}:{port}: {why}") from None
        self.address = self._server.sockets[0].getsockname()[:2]
        _log.info("metrics and health on %s port %d", *self.address)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for request in list(self._open):
            request.end()

    def opened(self, request: "_Request") -> None:
        """Take one more connection. If there are many, drop the oldest."""
        if len(self._open) >= self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.end()
            if not self.dropped:
                _log.warning("more than %d connections at once: the oldest go", self._most)
            self.dropped += 1
        self._open[request] = None

    def closed(self, request: "_Request") -> None:
        self._open.pop(request, None)

    def answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(400, _PLAIN, b"this is no HTTP request\n")
        if words[0] == b"HEAD":  # as GET, without the body
            return self._answer(words[1]).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        if words[0] != b"GET":
            return _response(405, _PLAIN, b"only GET and HEAD\n")
        return self._answer(words[1])

    def _answer(self, target: bytes) -> bytes:
        path = target.split(b"?", 1)[0]
        if path == b"/healthz":
            wrong = troubles(self._status())
            if wrong:
                return _response(503, _PLAIN, f"{'; '.join(wrong)}\n".encode())
            return _response(200, _PLAIN, b"ok\n")
        if path == b"/metrics":
            text = exposition(self._status())
            if text is None:
                return _response(501, _PLAIN, f"{NEEDS_EXTRA}\n".encode())
            return _response(200, CONTENT_TYPE, text)
        return _response(404, _PLAIN, b"there are /healthz and /metrics\n")


def _response(code: int, kind: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


class _Request(asyncio.Protocol):
    def __init__(self, http: Http) -> None:
        self._http = http
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not say that it is one
        self._http.opened(self)
        self._deadline = asyncio.get_running_loop().call_later(PATIENCE_S, self.end)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._transport.write(self._http.answer(self._head))
            self._transport.close()
        elif len(self._head) > MOST_HEAD:
            self.end()

    def connection_lost(self, _: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._http.closed(self)
        self._transport = None

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()
