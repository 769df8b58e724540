"""ZeroMQ: one process forwards what it pulls to all subscribers (`zmq.proxy`, which is C)."""

import asyncio
import importlib.util
import sys
from typing import Any

from bench.peers.servers import Servers
from bench.peers.target import PeerTarget
from ordercast.net.bench.run import free_ports

PROXY = (
    "import sys, zmq\n"
    "context = zmq.Context()\n"
    "pull, publish = context.socket(zmq.PULL), context.socket(zmq.PUB)\n"
    "pull.rcvhwm = publish.sndhwm = 0\n"
    "pull.bind(sys.argv[1])\n"
    "publish.bind(sys.argv[2])\n"
    "zmq.proxy(pull, publish)\n"
)


class ZeroMq:
    name = "ZeroMQ"
    promise = "one forwarder orders; nothing is kept, what is lost is lost"
    variants = ("",)

    def missing(self) -> str:
        return "" if importlib.util.find_spec("zmq") else "pyzmq is not installed"

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:  # noqa: ARG002
        pull, publish = free_ports(2)
        ends = [f"tcp://127.0.0.1:{port}" for port in (pull, publish)]
        servers.start([sys.executable, "-c", PROXY, *ends])
        servers.wait_for(pull, publish)
        return [{"push": ends[0], "publish": ends[1]}] * members


class ZeroMqTarget(PeerTarget):
    async def start(self) -> None:
        import zmq

        self._again = zmq.Again
        self._no_wait = zmq.NOBLOCK
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._push, self._subscribe = (self._context.socket(kind) for kind in (zmq.PUSH, zmq.SUB))
        self._push.sndhwm = self._subscribe.rcvhwm = 0
        self._push.connect(self.spec["push"])
        self._subscribe.connect(self.spec["publish"])
        self._subscribe.subscribe(b"")
        self._probed = asyncio.Event()
        self._loop.add_reader(int(self._subscribe.getsockopt(zmq.FD)), self._readable)
        while not self._probed.is_set():  # until the subscription has reached the forwarder
            self._push.send(bytes((self.number,)))
            await asyncio.sleep(0.01)
            self._readable()

    def put(self, marked: bytes) -> None:
        self._push.send(marked, self._no_wait)

    def _readable(self) -> None:
        """The descriptor tells only of changes: read until there is nothing."""
        messages: list[bytes] = []
        receive, no_wait = self._subscribe.recv, self._no_wait
        try:
            while len(messages) < 4_096:
                message = receive(no_wait)
                if len(message) > 1:
                    messages.append(message)
                elif message[0] == self.number:
                    self._probed.set()
            self._loop.call_soon(self._readable)
        except self._again:
            pass
        if messages:
            self.took(messages)

    async def close(self) -> None:
        self._context.destroy(linger=0)
