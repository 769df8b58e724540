"""Strangers: each kind is refused for its cause, and thousands of them disturb nobody."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from ordercast.model.options import MILLISECOND
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.link.connection import LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.tls import TlsConfig
from support.harness.memory import resident_kib
from support.network.hostile import Attacker
from support.network.links import (
    CLUSTER,
    QUICK,
    TERMS,
    End,
    Runner,
    anywhere,
    both_loops,
    connected,
    frame,
    on_asyncio,
    started,
    until,
)

ABZ = anywhere("abz")  # z never runs
IMPATIENT = LinkTimes(handshake=150 * MILLISECOND)
CAUSES: Mapping[str, str] = {
    "garbage": "no hello",
    "half hello": "no hello",
    "oversize hello": "no hello",
    "damaged hello": "no hello",
    "TLS to plain": "no hello",
    "slow-loris": "too slow to say hello",
    "silence": "too slow to say hello",
    "other cluster": "another cluster",
    "other terms": "other terms",
    "unknown site": "unknown site",
    "other addressee": "meant for another site",
    "oversize frame": "wrong frame",
    "wrong frame": "wrong frame",
    "wrong change": "wrong frame",
}
TLS_CAUSES: Mapping[str, str] = {
    "garbage": "no TLS|TLS failed",
    "half hello": "no TLS|TLS failed",
    "oversize hello": "no TLS|TLS failed",
    "silence": "too slow to say hello",
    "slow-loris": "too slow to say hello|no TLS|TLS failed",
    "foreign certificate": "its certificate is not accepted",
    "no certificate": "its certificate is not accepted",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificates of the cluster, and of another authority that uses the same names."""
    ours, theirs = tmp_path_factory.mktemp("ours"), tmp_path_factory.mktemp("theirs")
    for place in (ours, theirs):
        write_certificates(CLUSTER, "abz", place)
    return ours, theirs


def times_for(kind: str) -> LinkTimes:
    """Only the slow ones are to meet the limit in time, also on a busy machine."""
    return IMPATIENT if kind in ("silence", "slow-loris") else QUICK


def attacker_of(end: End, foreign: Path | None = None) -> Attacker:
    return Attacker(end.transport.address, CLUSTER, end.name, "z", TERMS, foreign)


@both_loops
@pytest.mark.parametrize("kind", CAUSES)
def test_each_kind_is_refused_for_its_cause(run: Runner, kind: str) -> None:
    async def main() -> None:
        a = End("a", ABZ, times=times_for(kind))
        async with started(a):
            attacker = attacker_of(a)
            await asyncio.gather(*(attacker.one(kind, random.Random(n)) for n in range(3)))
            await until(lambda: a.transport.connections == 0, "closed")
            causes = {cause for cause in a.transport.refusals if cause != "cannot be reached"}
            assert causes == {CAUSES[kind]}
            assert a.paired("z")
            assert a.frames == []

    run(main())


@both_loops
@pytest.mark.parametrize("kind", TLS_CAUSES)
def test_with_tls_each_kind_is_refused_for_its_cause(
    run: Runner, kind: str, places: tuple[Path, Path]
) -> None:
    async def main() -> None:
        a = End("a", ABZ, tls=TlsConfig(places[0]), times=times_for(kind))
        async with started(a):
            attacker = attacker_of(a, places[1])
            await asyncio.gather(*(attacker.one(kind, random.Random(n)) for n in range(3)))
            await until(lambda: a.transport.connections == 0, "closed")
            assert set(a.transport.refusals) <= set(TLS_CAUSES[kind].split("|"))
            assert a.transport.refusals.total() == 3
            assert a.events == []

    run(main())


def test_a_recorded_hello_is_of_no_use_while_or_after_its_connection_lives() -> None:
    async def main() -> None:
        a = End("a", ABZ)
        async with started(a):
            attacker = attacker_of(a)
            await attacker.one("wrong frame", random.Random(1))  # accepted, then dropped
            assert a.events == [("connected", "z"), ("lost", "z")]
            await attacker.one("replayed hello", random.Random(1))
            assert a.transport.refusals["an old hello again"] == 1
            assert a.events == [("connected", "z"), ("lost", "z")]

    on_asyncio(main())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_two_thousand_hostile_connections_disturb_nobody(
    tls: bool, places: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    count = 500 if tls else 1_500
    names = anywhere("abcz")
    files = TlsConfig(places[0]) if tls else None
    identity = Identity(CLUSTER, terms=TERMS)

    async def main() -> None:
        a = End("a", names, identity, files, IMPATIENT, keep=False)
        b = End("b", names, identity, files, IMPATIENT, keep=False)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            attacker = attacker_of(a, places[1] if tls else None)
            attacker.drip_s = 0.02
            await attacker.many(100, "warm")  # buffers, caches, modules
            before = resident_kib()
            most = 0
            progress: list[int] = []
            attack = asyncio.create_task(attacker.many(count, "attack"))
            while not attack.done():
                for _ in range(20):
                    a.transport.send("b", [frame(n, 200) for n in range(1, 21)])
                    b.transport.send("a", [frame(n, 200) for n in range(1, 21)])
                    most = max(most, a.transport.connections)
                    await asyncio.sleep(0.001)
                progress.append(a.taken + b.taken)
            await attack
            await until(lambda: a.transport.connections == 1, "strangers are gone")
            assert a.events.count(("lost", "b")) == b.events.count(("lost", "a")) == 0
            # In every stretch of the attack the two went on.
            assert all(x < y for x, y in pairwise(progress))
            assert progress[-1] > 20 * 20 * len(progress)
            assert most <= a.limits.strangers + 2
            assert resident_kib() - before < 16 * 1024
            assert sum(attacker.counts.values()) == count + 100
            assert a.transport.refusals.total() >= 0.9 * count

    on_asyncio(main())
    said = Counter(
        tuple(record.getMessage().split(": ")[:2])  # who, and the cause
        for record in caplog.records
        if record.levelno >= logging.WARNING
    )
    assert {who for who, _ in said} >= ({"127.0.0.1"} if tls else {"127.0.0.1", "z"})
    assert set(said.values()) == {1}
