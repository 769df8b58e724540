"""etcd: three servers agree on every put, and every member watches its own server.

Puts and the watch go through the JSON gateway, over HTTP/1.1: no client library is needed.
"""

import asyncio
import base64
import json
import shutil
import time
import urllib.error
import urllib.request
from collections import deque
from typing import Any, cast

from bench.peers.servers import READY_S, Servers
from bench.peers.target import PeerTarget
from bench.peers.tls import Files, files_for, member_context, server_context, told, with_tls
from ordercast.net.bench.run import free_ports

CONNECTIONS = 32  # of a member, each with one put under way
COUNT = 3


class Etcd:
    name = "etcd"
    promise = "a majority of three has synced it to its disk"
    variants = with_tls("files")

    def missing(self) -> str:
        return "" if shutil.which("etcd") else "etcd is not installed"

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:
        ports = free_ports(2 * COUNT)
        clients, peers = ports[:COUNT], ports[COUNT:]
        files = files_for(servers, variant)
        scheme = "http" if files is None else "https"
        cluster = ",".join(f"e{n}={scheme}://127.0.0.1:{port}" for n, port in enumerate(peers))
        for number in range(COUNT):
            client = f"{scheme}://127.0.0.1:{clients[number]}"
            peer = f"{scheme}://127.0.0.1:{peers[number]}"
            servers.start([
                "etcd", "--name", f"e{number}", "--data-dir", str(servers.directory / f"e{number}"),
                "--listen-client-urls", client, "--advertise-client-urls", client,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", cluster, "--log-level", "error", "--logger", "zap",
                *_tls(files),
            ])  # fmt: skip
        servers.wait_for(*clients)
        for port in clients:
            _wait_healthy(servers, f"{scheme}://127.0.0.1:{port}/health", files)
        return [{"port": clients[n % COUNT], **told(files)} for n in range(members)]


def _tls(files: Files | None) -> list[str]:
    """For clients, and among the servers."""
    if files is None:
        return []
    words = []
    for whom in ("", "peer-"):
        words += [f"--{whom}cert-file", files.certificate, f"--{whom}key-file", files.key]
        words += [f"--{whom}trusted-ca-file", files.authority, f"--{whom}client-cert-auth"]
    return words


def _wait_healthy(servers: Servers, url: str, files: Files | None) -> None:
    end = time.monotonic() + READY_S
    context = None if files is None else server_context(files)
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2.0, context=context) as answer:
                if json.load(answer)["health"] == "true":
                    return
        except (urllib.error.URLError, OSError):
            pass
        servers.require_all(end)
        time.sleep(0.05)


def request(path: str, question: dict[str, Any]) -> bytes:
    body = json.dumps(question).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class EtcdTarget(PeerTarget):
    async def start(self) -> None:
        loop, port = asyncio.get_running_loop(), self.spec["port"]
        tls = member_context(self.spec)
        self._key = b64(b"m%d" % self.number)
        self._waiting: deque[bytes] = deque()
        self._idle: list[Put] = []
        self.window = CONNECTIONS
        watched = loop.create_future()
        _, self._watch = await loop.create_connection(
            lambda: Watch(self, watched), "127.0.0.1", port, ssl=tls
        )
        await watched
        for _ in range(CONNECTIONS):
            _, put = await loop.create_connection(lambda: Put(self), "127.0.0.1", port, ssl=tls)
            self._idle.append(put)

    def put(self, marked: bytes) -> None:
        if self._idle:
            self._idle.pop().send(self._key, marked)
        else:
            self._waiting.append(marked)

    def free(self, put: "Put") -> None:
        if self._waiting:
            put.send(self._key, self._waiting.popleft())
        else:
            self._idle.append(put)

    async def close(self) -> None:
        self._watch.transport.close()
        for put in self._idle:
            put.transport.close()


class Put(asyncio.Protocol):
    def __init__(self, target: EtcdTarget) -> None:
        self._target = target
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, key: str, marked: bytes) -> None:
        self.transport.write(request("/v3/kv/put", {"key": key, "value": b64(marked)}))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"etcd: {self._buffer[:200]!r}")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            self._buffer = b""
            self._target.free(self)


class Watch(asyncio.Protocol):
    """The answer never ends: chunks, and in them one line of JSON for some events each."""

    def __init__(self, target: EtcdTarget, watched: "asyncio.Future[None]") -> None:
        self._target = target
        self._watched = watched
        self._buffer = b""
        self._line = b""
        self._headed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        what = {"key": b64(b"m"), "range_end": b64(b"n")}
        self.transport.write(request("/v3/watch", {"create_request": what}))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._headed:
            _, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            self._headed, self._buffer = True, rest
        while True:
            size, found, rest = self._buffer.partition(b"\r\n")
            if not found or len(rest) < (length := int(size, 16)) + 2:
                return
            self._line += rest[:length]
            self._buffer = rest[length + 2 :]
            *lines, self._line = self._line.split(b"\n")
            for line in lines:
                self._take(json.loads(line)["result"])

    def _take(self, result: dict[str, Any]) -> None:
        if result.get("created") and not self._watched.done():
            self._watched.set_result(None)
        events = result.get("events", ())
        if events:
            self._target.took([base64.b64decode(event["kv"]["value"]) for event in events])
