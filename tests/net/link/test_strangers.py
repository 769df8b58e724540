"""Connections without a hello: however many there are, a site that starts again gets in."""

import asyncio
import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.model.options import MILLISECOND
from ordercast.net.cluster.addresses import plain_host
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.sockets import share_of_files
from ordercast.net.link.connection import LinkLimits, LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.strangers import PeerHosts
from ordercast.net.link.tls import TlsConfig
from support.harness.loops import in_loop
from support.network.links import (
    CLUSTER,
    QUICK,
    TERMS,
    End,
    Runner,
    anywhere,
    both_loops,
    connected,
    on_asyncio,
    started,
    until,
)

AB = anywhere("ab")
ELSEWHERE = "127.0.0.9"  # a host of this machine where no peer is
BACK_S = 1.0
PATIENT = LinkTimes()


class Crowd:
    """Sockets that connect to a site and say nothing."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._sockets: list[socket.socket] = []

    def come(self, count: int = 1, host: str = "127.0.0.1") -> None:
        for _ in range(count):
            one = socket.socket()
            one.bind((host, 0))
            one.setblocking(False)
            one.connect_ex(self._address)
            self._sockets.append(one)

    async def keep_coming(self, pause_s: float) -> None:
        while True:
            self.come()
            await asyncio.sleep(pause_s)

    def leave(self) -> None:
        for one in self._sockets:
            one.close()


@contextmanager
def crowd_at(end: End) -> Iterator[Crowd]:
    crowd = Crowd(end.transport.address)
    try:
        yield crowd
    finally:
        crowd.leave()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsConfig:
    place: Path = tmp_path_factory.mktemp("certificates")
    write_certificates(CLUSTER, "ab", place)
    return TlsConfig(place)


@both_loops
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_restarted_site_is_back_within_a_second_whatever_comes(
    run: Runner, tls: bool, certificates: TlsConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """All places are taken, and a hundred more come in each second while it dials again."""
    files = certificates if tls else None

    def end(name: str, boot: int, times: LinkTimes) -> End:
        return End(name, AB, Identity(CLUSTER, boot, terms=TERMS), files, times)

    async def main() -> None:
        a, before, again = end("a", 1, PATIENT), end("b", 1, QUICK), end("b", 2, QUICK)
        async with started(a, before):
            before.transport.connect("a")
            await until(lambda: connected(a, before), "connected")
            with crowd_at(a) as crowd:
                refused = a.transport.refusals
                while not refused["too many connections without a hello"]:
                    crowd.come(10)
                    await asyncio.sleep(0.002)
                await before.transport.close()
                coming = asyncio.create_task(crowd.keep_coming(0.01))
                async with started(again):
                    again.knows(a)
                    again.transport.connect("a")
                    await until(lambda: connected(a, again), "it is back", BACK_S)
                    coming.cancel()
                    await until(lambda: a.transport.connections <= 257, "the others are dropped")
        assert a.events == [("connected", "b"), ("lost", "b")] * 2

    with caplog.at_level(logging.WARNING, "ordercast.net.transport"):
        run(main())
    said = [r.getMessage() for r in caplog.records if "too many connections" in r.getMessage()]
    assert len(said) == 1, "one line for the cause, not one for each socket"


def test_strangers_from_elsewhere_cannot_take_the_places_of_peers() -> None:
    async def main() -> None:
        limits = LinkLimits(strangers=8, strangers_elsewhere=3)
        a = End("a", AB, times=PATIENT, limits=limits)
        async with started(a):
            with crowd_at(a) as peers, crowd_at(a) as others:
                peers.come(2)
                await until(lambda: a.transport.connections == 2, "there")
                others.come(20, ELSEWHERE)
                await until(lambda: a.transport.refusals.total() == 17, "the oldest go")
                await until(lambda: a.transport.connections == 5, "closed")
                # A full house: those from elsewhere go for hosts of peers, not these for those.
                peers.come(6)
                await until(lambda: a.transport.refusals.total() == 20, "elsewhere goes first")
                await until(lambda: a.transport.connections == 8, "closed")

    on_asyncio(main())


def test_strangers_have_at_most_a_quarter_of_the_files_that_a_process_may_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        assert share_of_files(256) == 100
        assert share_of_files(64) == 64
        a = End("a", AB, times=PATIENT, limits=LinkLimits(crowd=1_000))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    async def main() -> None:
        async with started(a):
            with crowd_at(a) as crowd:
                for there in range(20, 161, 20):  # the system holds a hundred for us
                    crowd.come(20)
                    gone = max(0, there - 100)
                    await until(lambda: a.transport.refusals.total() == gone, "the oldest go")  # noqa: B023
                    await until(lambda: a.transport.connections == there - gone, "closed")  # noqa: B023

    on_asyncio(main())


def test_while_there_is_a_crowd_strangers_get_less_time() -> None:
    async def main() -> None:
        times = replace(PATIENT, suspect=300 * MILLISECOND, hurry=100 * MILLISECOND)
        a = End("a", AB, times=times, limits=LinkLimits(crowd=5))
        async with started(a):
            with crowd_at(a) as crowd:
                crowd.come(12)
                await until(lambda: a.transport.refusals["too slow to say hello"] == 8, "hurried")
                await until(lambda: a.transport.connections == 4, "those stay that are no crowd")

    on_asyncio(main())


@in_loop
async def test_hosts_of_peers_are_their_addresses_resolved_and_where_they_were_met() -> None:
    hosts = PeerHosts()
    hosts.look_up({"a": ("10.0.0.1", 1), "b": ("localhost", 1), "c": ("no.such.invalid", 1)})
    assert "10.0.0.1" in hosts
    await until(lambda: "127.0.0.1" in hosts, "resolved")
    for number in range(5):
        hosts.learn("a", f"10.0.1.{number}")
    assert "10.0.1.4" in hosts
    assert "10.0.0.1" not in hosts, "few of each peer"
    hosts.part("a")
    assert "10.0.1.4" not in hosts
    hosts.close()
    assert [plain_host(host) for host in ("::ffff:10.0.0.1", "fe80::1%eth0", "FE80::1", "x")] == [
        "10.0.0.1", "fe80::1", "fe80::1", "x",
    ]  # fmt: skip
