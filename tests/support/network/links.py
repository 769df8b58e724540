"""Transports for tests: started on free ports of the loopback; what they report is kept."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest
import uvloop

from ordercast.model.messages import Batch
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.link import transport
from ordercast.net.link.connection import LinkLimits, LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.tls import TlsConfig
from ordercast.net.link.transport import Transport
from ordercast.wire.codec import CODECS, Codec, WireFrame
from ordercast.wire.frames import UP, Data, Frame, Submit
from support.harness import loops

Runner = Callable[[Coroutine[Any, Any, None]], None]

CLUSTER = "demo"
TERMS = {"protocol": "propagation", "deliver": "safe"}
QUICK = LinkTimes(
    suspect=5 * SECOND,  # a busy machine is no dead peer
    redial_least=4 * MILLISECOND,
    redial_most=60 * MILLISECOND,
    linger=200 * MILLISECOND,
)
HASTY = replace(QUICK, suspect=150 * MILLISECOND)
WAIT_S = 30.0


def on_asyncio(main: Coroutine[Any, Any, None]) -> None:
    loops.run(main)


def on_uvloop(main: Coroutine[Any, Any, None]) -> None:
    loops.run(main, loop=uvloop.new_event_loop)


both_loops = pytest.mark.parametrize(
    "run", [pytest.param(on_asyncio, id="asyncio"), pytest.param(on_uvloop, id="uvloop")]
)


@dataclass
class End:
    """One site's transport and what it reported."""

    name: str
    addresses: dict[str, tuple[str, int]]
    identity: Identity = field(default_factory=lambda: Identity(CLUSTER, terms=TERMS))
    tls: TlsConfig | None = None
    times: LinkTimes = QUICK
    limits: LinkLimits = field(default_factory=LinkLimits)
    secret: ClusterSecret | None = None
    codecs: Mapping[int, Codec] = field(default_factory=lambda: CODECS)
    events: list[tuple[str, str]] = field(default_factory=list)
    frames: list[tuple[str, WireFrame]] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)  # frames handed over in each call
    detoured: list[tuple[str, ...]] = field(default_factory=list)
    keep: bool = True  # the frames, or only how many

    def __post_init__(self) -> None:
        self.taken = 0
        with patch.object(transport, "CODECS", self.codecs):
            self.transport = Transport(
                self.name,
                self.identity,
                self.addresses,
                self.tls,
                on_frames=self._took,
                on_connected=lambda peer: self.events.append(("connected", peer)),
                on_lost=lambda peer: self.events.append(("lost", peer)),
                on_congested=lambda peer, yes: self.events.append((f"congested {yes}", peer)),
                on_detoured=self.detoured.append,
                times=self.times,
                limits=self.limits,
                secret=self.secret,
            )

    def _took(self, peer: str, frames: list[WireFrame]) -> None:
        self.taken += len(frames)
        if self.keep:
            self.reads.append(len(frames))
            self.frames += [(peer, frame) for frame in frames]

    def knows(self, *others: "End") -> None:
        for other in others:
            self.transport.addresses[other.name] = other.transport.address

    def state(self, peer: str) -> str:
        return next(link.state for link in self.transport.links() if link.peer == peer)

    def received(self, peer: str) -> list[int]:
        """Numbers of the frames that came from a peer."""
        return [f.number for source, f in self.frames if source == peer and type(f) is Data]

    def paired(self, peer: str) -> bool:
        """Whether connected and lost alternate, beginning with connected."""
        mine = [event for event, other in self.events if other == peer]
        mine = [event for event in mine if event in ("connected", "lost")]
        return all(e == ("connected", "lost")[n % 2] for n, e in enumerate(mine))


def frame(number: int, size: int = 10) -> Frame:
    return Data(1, 1, UP, number, (Submit(Batch("a", 1, "g", number, 1, bytes(size))),))


def anywhere(names: Sequence[str]) -> dict[str, tuple[str, int]]:
    return dict.fromkeys(names, ("127.0.0.1", 0))


@asynccontextmanager
async def started(*ends: End) -> AsyncIterator[None]:
    """All of them listening and knowing each other's ports."""
    try:
        for end in ends:
            await end.transport.start()
        for end in ends:
            end.knows(*(other for other in ends if other is not end))
        yield
    finally:
        for end in ends:
            if listens(end.transport):
                await end.transport.close()


def listens(end: Transport) -> bool:
    return end._server is not None and end._server.is_serving()


async def until(condition: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.002)


def connected(*ends: End) -> bool:
    return all(one.state(two.name) == "connected" for one in ends for two in ends if one is not two)
