"""Soak campaign: hostile clients of a daemon, while an honest one goes on working.

A case brings 1,000 hostile connections, and 3,000 frames on connections that were let in: plain
rubbish, TLS without a certificate, a certificate without a grant, frames without a grant, damaged
frames, floods of questions. The cluster outlives the case, so what is left behind adds up.
"""

import asyncio
import atexit
import random
import ssl
import tempfile
from functools import cache
from pathlib import Path

from ordercast.model.messages import CLIENT_BYTES
from ordercast.net.admin.frames import (
    VERSION,
    ClientFrame,
    ClientHello,
    Confirm,
    Follow,
    ReaderRemoval,
    StatusRequest,
    Subscribe,
    frame_of,
)
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from support.clusters.served import Served, served
from support.harness.memory import resident_kib
from tools.soak.campaign import Outcome

CASE_S = 20
AT_ONCE = 300  # most of them wait: for an answer, or to be dropped
CONNECTIONS, FRAMES = 1_000, 3_000
WARM = 3  # cases before memory is measured
GROWTH_KIB = 32 * 1024


class Attacked:
    """A cluster on a loop that runs only while a case does."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.place = Path(self.directory.name)
        self.cases = self.baseline = self.sent = 0
        self.runner.run(self._start())
        atexit.register(self.directory.cleanup)  # the sites end with the process

    async def _start(self) -> None:
        certs = self.place / "certs"
        write_certificates("local", ["a", "b"], certs)
        add_client_certificates("local", ["good", "weak", "none"], certs)
        grants = {"socket": ["admin"], "client:good": ["send", "read"], "client:weak": ["send:no"]}
        self._served = served(
            self.place, {"alpha": ["a", "b"]}, remote=True, tls={"dir": str(certs)}, grants=grants,
            timeouts={"suspect": "10s"},  # sites, attackers and the honest client share one thread
        )  # fmt: skip
        self.running: Served = await self._served.__aenter__()
        cert = certs / "clients" / "good.pem"
        self.client: Client = connect(self.running.address("a"), cert=cert, start_s=30)
        await self.client.__aenter__()
        self.contexts = [self._context(certs, name) for name in ("weak", "none", "")]

    def _context(self, certs: Path, name: str) -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        found.check_hostname = False
        found.load_verify_locations(certs / "ca.pem")
        if name:
            clients = certs / "clients"
            found.load_cert_chain(clients / f"{name}.pem", clients / f"{name}.key")
        return found

    async def case(self, seed: int) -> list[str]:
        chance = random.Random(seed)
        attack = asyncio.create_task(self._attack(chance))
        slowest = 0.0
        loop = asyncio.get_running_loop()
        while not attack.done():
            begun = loop.time()
            async with asyncio.timeout(60):
                await (await self.client.multicast("alpha", b"honest")).ordered()
            slowest = max(slowest, loop.time() - begun)
            self.sent += 1
            await asyncio.sleep(0.1)  # nobody reads: what is delivered adds up, too
        await attack
        self.cases += 1
        if self.cases == WARM:
            self.baseline = resident_kib()
        self.slowest = slowest
        wrong = []
        if self.client.boot != 1:
            wrong.append("the daemon was restarted")
        if self.cases > WARM and resident_kib() > self.baseline + GROWTH_KIB:
            wrong.append(f"memory grew from {self.baseline} to {resident_kib()} KiB")
        return wrong

    async def _attack(self, chance: random.Random) -> None:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(work: random.Random) -> None:
            async with gate:
                await self._connection(work)

        each = [one(random.Random(chance.random())) for _ in range(CONNECTIONS)]
        await asyncio.gather(*each, self._frames(chance))

    async def _connection(self, chance: random.Random) -> None:
        tls = chance.choice([None, *self.contexts])
        try:
            async with asyncio.timeout(20):
                address = self.running.remotes["a"].address
                reader, writer = await asyncio.open_connection(*address, ssl=tls)
                writer.write(chance.choice([hello(chance), chance.randbytes(200), b""]))
                if chance.random() < 0.5:
                    await reader.read(1_000)
        except (OSError, ssl.SSLError, TimeoutError):
            return
        writer.transport.abort()

    async def _frames(self, chance: random.Random) -> None:
        """Frames of a client that is let in, and may do nothing of what it asks."""
        sent = 0
        while sent < FRAMES:
            try:
                address = self.running.remotes["a"].address
                reader, writer = await asyncio.open_connection(*address, ssl=self.contexts[0])
                writer.write(hello(chance))
                await reader.read(10_000)
                for number in range(1, 101):
                    data = frame_of(question(chance, number))
                    if chance.random() < 0.02:
                        data = data[:4] + bytes(chance.randbytes(len(data) - 4))
                    writer.write(data)
                    sent += 1
                await writer.drain()
                await reader.read(10_000)
                writer.transport.abort()
            except (OSError, ssl.SSLError):
                continue


def hello(chance: random.Random) -> bytes:
    return frame_of(ClientHello(VERSION, "local", "", chance.randbytes(CLIENT_BYTES)))


def question(chance: random.Random, number: int) -> ClientFrame:
    asked: list[ClientFrame] = [
        StatusRequest(number),
        Confirm(number, 1),
        ReaderRemoval(number, "r"),
        Subscribe(number, 1, False),
        Follow(number, "r", ("alpha",)),
    ]
    return chance.choice(asked)


@cache
def attacked() -> Attacked:
    return Attacked()


def run(seed: int) -> Outcome:
    here = attacked()
    refused = here.running.admins["a"].desk.permits.refused
    before, honest = refused.total(), here.sent
    wrong = here.runner.run(here.case(seed))
    counters = {
        "connections": CONNECTIONS,
        "frames": FRAMES,
        "refusals counted": refused.total() - before,
        "honest messages": here.sent - honest,
        "slowest honest message, ms": round(1_000 * here.slowest),
    }
    return Outcome(not wrong, counters, "; ".join(wrong))
