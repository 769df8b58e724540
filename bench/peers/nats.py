"""NATS JetStream: a stream orders, and every member has a consumer that is pushed all of it.

Publications ask for the acknowledgement that the stream has them, as JetStream's clients do.
"""

import asyncio
import json
import shutil
from typing import Any, cast

from bench.peers.servers import Servers
from bench.peers.target import PeerTarget, TurnWriter
from bench.peers.tls import HOST, Files, files_for, member_context, told, with_tls
from ordercast.net.bench.run import free_ports

DURABLE = "R3 file"


class Nats:
    name = "NATS JetStream"
    promise = (
        "a stream orders, in memory; R3 file: a majority of three has it in its files, unsynced"
    )
    variants = with_tls("", DURABLE)

    def missing(self) -> str:
        return "" if shutil.which("nats-server") else "nats-server is not installed"

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:
        durable = variant.startswith(DURABLE)
        count = 3 if durable else 1
        files = files_for(servers, variant)
        tls = _tls(files)
        ports = free_ports(2 * count)
        clients, routes = ports[:count], ports[count:]
        for number in range(count):
            store = servers.directory / f"jetstream{number}"
            text = [
                f"server_name: s{number}", f"listen: 127.0.0.1:{clients[number]}",
                f'jetstream {{ store_dir: "{store}" }}', tls,
            ]  # fmt: skip
            if count > 1:
                to = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
                cluster = f"listen: 127.0.0.1:{routes[number]}, routes: [{to}]"
                text.append(f"cluster {{ name: bench, {cluster}, {tls} }}")
            path = servers.directory / f"nats{number}.conf"
            path.write_text("\n".join(text) + "\n", encoding="utf-8")
            servers.start(["nats-server", "-c", str(path)])
        servers.wait_for(*clients)
        storage = "file" if durable else "memory"
        stream = {"storage": storage, "num_replicas": count}
        common = {"stream": stream, **told(files)}
        return [{"port": clients[n % count], **common} for n in range(members)]


def _tls(files: Files | None) -> str:
    """What its file says of TLS. Clients and routes have the same."""
    if files is None:
        return ""
    names = (
        f'cert_file: "{files.certificate}", key_file: "{files.key}", ca_file: "{files.authority}"'
    )
    return f"tls {{ {names}, verify: true }}"


class NatsTarget(PeerTarget):
    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        _, self._connection = await loop.create_connection(
            lambda: NatsConnection(self), "127.0.0.1", self.spec["port"]
        )
        await self._connection.greeted.wait()
        context = member_context(self.spec)
        if context is not None:  # this server greets first
            transport = await loop.start_tls(
                self._connection.transport, self._connection, context, server_hostname=HOST
            )
            self._connection.transport = cast(asyncio.Transport, transport)
        self._writer = TurnWriter(self._connection.transport)
        connect = json.dumps({"verbose": False, "pedantic": False, "headers": False})
        self._writer.write(
            f"CONNECT {connect}\r\nSUB answers.{self.number} 1\r\n".encode(),
            f"SUB acks.{self.number} 2\r\nSUB to.{self.number} 3\r\n".encode(),
        )
        self._head = f"PUB all acks.{self.number} ".encode()
        stream = {"name": "bench", "subjects": ["all"], **self.spec["stream"]}
        if self.number == 0:
            await self._ask("STREAM.CREATE.bench", stream)
        consumer = {
            "deliver_subject": f"to.{self.number}", "ack_policy": "none", "deliver_policy": "all",
        }  # fmt: skip
        await self._ask("CONSUMER.CREATE.bench", {"stream_name": "bench", "config": consumer})

    async def _ask(self, what: str, question: dict[str, Any]) -> None:
        """Until the servers can do it: they elect somebody first, and the stream may be to come."""
        body = json.dumps(question).encode()
        said = ""
        for _ in range(100):
            self._connection.answer = asyncio.get_running_loop().create_future()
            head = f"PUB $JS.API.{what} answers.{self.number} {len(body)}\r\n".encode()
            self._writer.write(head, body, b"\r\n")
            try:
                async with asyncio.timeout(1.0):
                    answer = json.loads(await self._connection.answer)
            except TimeoutError:
                continue
            if "error" not in answer:
                return
            said = str(answer["error"])
            await asyncio.sleep(0.1)
        raise SystemExit(f"nats: {what}: {said or 'no answer'}")

    def put(self, marked: bytes) -> None:
        self._writer.write(self._head, b"%d\r\n%b\r\n" % (len(marked), marked))

    def pong(self) -> None:
        self._writer.write(b"PONG\r\n")

    async def close(self) -> None:
        self._connection.transport.close()


class NatsConnection(asyncio.Protocol):
    def __init__(self, target: NatsTarget) -> None:
        self._target = target
        self._rest = b""
        self.greeted = asyncio.Event()
        self.answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        messages: list[bytes] = []
        at, end = 0, len(data)
        while (line := data.find(b"\r\n", at)) >= 0:
            words = data[at:line].split()
            if words[0] != b"MSG":
                self._other(words, data[at:line])
                at = line + 2
                continue
            begin = line + 2
            after = begin + int(words[-1])
            if after + 2 > end:
                break
            if words[2] == b"3":
                messages.append(data[begin:after])
            else:
                self._answered(words[2], data[begin:after])
            at = after + 2
        self._rest = data[at:]
        if messages:
            self._target.took(messages)

    def _answered(self, subscription: bytes, body: bytes) -> None:
        if subscription == b"2":
            if b'"error"' in body:
                raise SystemExit(f"nats: {body!r}")
        elif self.answer is not None and not self.answer.done():
            self.answer.set_result(body)

    def _other(self, words: list[bytes], line: bytes) -> None:
        if words[0] == b"INFO":
            self.greeted.set()
        elif words[0] == b"PING":
            self._target.pong()
        elif words[0] == b"-ERR":
            raise SystemExit(f"nats: {line!r}")
