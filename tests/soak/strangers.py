"""Soak campaign: hostile connections against two honest sites that go on talking meanwhile.

The attacks of a case follow from its seed. The sites are those of the process and outlive the
case, on purpose: what a stranger leaves behind would add up. Each process has a pair that proves
nothing, a pair with certificates and a pair with a secret, for cases in turn.
"""

import asyncio
import atexit
import logging
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path

from ordercast.model.options import MILLISECOND
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.link.connection import LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.tls import TlsConfig
from support.harness.memory import resident_kib
from support.network.hostile import Attacker
from support.network.links import CLUSTER, TERMS, End, anywhere, connected, frame, until
from tools.soak.campaign import Outcome

CONNECTIONS = 60
WARM = 5  # cases before memory is measured
GROWTH_KIB = 16 * 1024
ATTACKED = LinkTimes(handshake=60 * MILLISECOND)


class Talk:
    """Two sites on a loop that runs only while a case does."""

    def __init__(self, kind: str) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        ours, theirs = Path(self.directory.name) / "ours", Path(self.directory.name) / "theirs"
        for place in (ours, theirs):
            write_certificates(CLUSTER, "abz", place)
        self.foreign = theirs if kind == "tls" else None
        self.files = TlsConfig(ours) if kind == "tls" else None
        self.secret = ClusterSecret(ours / "secret", make=True) if kind == "secret" else None
        self.cases = self.baseline = 0
        self.lines: Counter[str] = Counter()
        self.runner.run(self._start())
        atexit.register(self.close)

    async def _start(self) -> None:
        names = anywhere("abz")
        self.a, self.b = (
            # The other one's log is heard, too, and may not find its peer too slow.
            End(
                name,
                names,
                Identity(CLUSTER, terms=TERMS),
                self.files,
                times,
                secret=self.secret,
                keep=False,
            )
            for name, times in (("a", ATTACKED), ("b", LinkTimes()))
        )
        for end in (self.a, self.b):
            await end.transport.start()
        self.a.knows(self.b)
        self.b.knows(self.a)
        self.a.transport.connect("b")
        await until(lambda: connected(self.a, self.b), "connected")
        transport = self.a.transport
        self.attacker = Attacker(transport.address, CLUSTER, "a", "z", TERMS, self.foreign)
        self.attacker.drip_s = 0.01

    async def case(self, seed: int) -> list[str]:
        before = (self.a.taken, self.b.taken)
        attack = asyncio.create_task(self.attacker.many(CONNECTIONS, seed))
        most = 0
        while not attack.done():
            self.a.transport.send("b", [frame(n, 200) for n in range(1, 21)])
            self.b.transport.send("a", [frame(n, 200) for n in range(1, 21)])
            most = max(most, self.a.transport.connections)
            await asyncio.sleep(0.001)
        await attack
        await until(lambda: self.a.transport.connections == 1, "the strangers are gone")
        self.cases += 1
        if self.cases == WARM:
            self.baseline = resident_kib()
        wrong = []
        if ("lost", "b") in self.a.events or ("lost", "a") in self.b.events:
            wrong.append("the honest sites lost their connection")
        if self.a.taken <= before[0] or self.b.taken <= before[1]:
            wrong.append("the honest sites did not get on")
        if most > self.a.limits.strangers + 2:
            wrong.append(f"{most} connections at once")
        if self.cases > WARM and resident_kib() > self.baseline + GROWTH_KIB:
            wrong.append(f"memory grew from {self.baseline} to {resident_kib()} KiB")
        for end in (self.a, self.b):
            end.events.clear()
        twice = [line for line, times in self.lines.items() if times > 1]
        return wrong + [f"logged more than once: {line}" for line in twice]

    def close(self) -> None:
        for end in (self.a, self.b):
            self.runner.run(end.transport.close())
        self.runner.close()
        self.directory.cleanup()


class Listener(logging.Handler):
    def __init__(self, lines: Counter[str]) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines[": ".join(record.getMessage().split(": ")[:2])] += 1


@cache
def talk(kind: str) -> Talk:
    return Talk(kind)


def run(seed: int) -> Outcome:
    here = talk(("plain", "tls", "secret")[seed % 3])
    listener = Listener(here.lines)
    log = logging.getLogger("ordercast.net.transport")
    log.addHandler(listener)
    refused = here.a.transport.refusals.copy()
    try:
        wrong = here.runner.run(here.case(seed))
    finally:
        log.removeHandler(listener)
    causes = here.a.transport.refusals - refused
    counters = {"connections": CONNECTIONS, "refused": causes.total()}
    counters |= {f"for: {cause}": times for cause, times in causes.items()}
    return Outcome(not wrong, counters, "; ".join(wrong))
