"""A dashboard that really serves, in a thread of this process, and a client of a few lines."""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

from ordercast.web.app import Dashboard, make_app
from ordercast.web.server import listen, make_server


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class ServedPage:
    host: str
    port: int
    trusted: Path | None = None  # with TLS: its certificate

    def _connection(self) -> HTTPConnection:
        if self.trusted is None:
            return HTTPConnection(self.host, self.port, timeout=60)
        context = ssl.create_default_context(cafile=str(self.trusted))
        context.check_hostname = False  # the certificate is a site's
        context.verify_mode = ssl.CERT_NONE
        return HTTPSConnection(self.host, self.port, timeout=60, context=context)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.ask(
            "POST", path, json.dumps(body), {"content-type": "application/json", **headers}
        )

    def ask(self, method: str, path: str, body: str | None, headers: Mapping[str, str]) -> Answer:
        connection = self._connection()
        try:
            connection.request(
                method, path, body, {name.replace("_", "-"): v for name, v in headers.items()}
            )
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, told, found.read())
        finally:
            connection.close()


@contextmanager
def served(
    dashboard: Dashboard, cert: Path | None = None, key: Path | None = None
) -> Iterator[ServedPage]:
    found = listen("127.0.0.1", 0)
    server = make_server(make_app(dashboard), cert=cert, key=key)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[found])))
    thread.start()
    try:
        host, port = found.getsockname()
        yield ServedPage(host, port, cert)
    finally:
        server.should_exit = True
        thread.join()
        found.close()
