"""Links through a third site: when they are made and left again, and what bounds them."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.model.limits import PIPE_WINDOW
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.link.connection import Connection, LinkLimits
from ordercast.net.link.hello import Hello
from ordercast.net.link.pipe_carrier import PipeCarrier
from ordercast.net.link.pipes import Pipes, RelaySide, most_pipes, most_pipes_of_peer
from ordercast.net.link.proof import NOT_PROVED
from ordercast.net.link.tls import WRONG_NAME, TlsConfig
from ordercast.net.link.transport import Transport
from ordercast.wire.codec import WireFrame
from ordercast.wire.pipes import PipeData, PipeEnd, PipeOffered, PipeRoom, PipeWanted
from support.harness.ports import free_ports
from support.network.links import (
    CLUSTER,
    QUICK,
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
from support.network.meshes import mesh

TIMES = replace(QUICK, suspect=400 * MILLISECOND)
CALM = replace(QUICK, suspect=60 * SECOND)  # no pipe is made by itself


def some(names: str, tls: TlsConfig | None = None) -> list[End]:
    return [End(name, anywhere(names), tls=tls, times=TIMES) for name in names]


@both_loops
def test_a_link_that_is_cut_goes_through_a_third_site_and_is_direct_again_when_it_is_whole(
    run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            a.transport.send("b", [frame(number) for number in range(1, 50)])
            b.transport.send("a", [frame(number, 100_000) for number in range(1, 50)])
            await until(lambda: b.received("a") == list(range(1, 50)), "to b")
            await until(lambda: a.received("b") == list(range(1, 50)), "to a")
            # Both may have asked at once: then there are two pipes for a while.
            await until(lambda: c.transport.relayed().pipes == 1, "one pipe")
            assert c.transport.relayed().bytes > 4_900_000
            net.heal("a", "b")
            before = list(a.events), list(b.events)
            await until(lambda: net.joined("a", "b", ""), "direct")
            a.transport.send("b", [frame(number) for number in range(50, 99)])
            await until(lambda: b.received("a") == list(range(1, 99)), "to b")
            await until(lambda: c.transport.relayed().pipes == 0, "no pipe any more")
            assert (a.events, b.events) == before  # nobody is told of the way back
            assert a.paired("b")
            assert b.paired("a")
            assert [event for event, _ in c.events] == ["connected", "connected"]
            await until(lambda: a.detoured == [("b",), ()], "its driver is told")
            await until(lambda: b.detoured == [("a",), ()], "its driver is told")
            assert c.detoured == []

    with caplog.at_level(logging.INFO, "ordercast.net.transport"):
        run(main())
    said = [record.getMessage() for record in caplog.records]
    for peer in "ab":
        assert sum(f"{peer}: through another site (c; " in line for line in said) == 1
        assert said.count(f"{peer}: direct again (no longer through c)") == 1


@pytest.mark.parametrize("deaf", ["a", "b"])
def test_a_link_that_is_cut_one_way_goes_through_a_third_site_too(deaf: str) -> None:
    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut_one_way("b" if deaf == "a" else "a", deaf)
            await until(lambda: net.joined("a", "b", "c"), "through c")
            before = list(a.events), list(b.events)
            for number in range(1, 13):  # dials that are heard at one end change nothing
                a.transport.send("b", [frame(number)])
                b.transport.send("a", [frame(number)])
                await asyncio.sleep(0.05)
            await until(lambda: b.received("a") == list(range(1, 13)), "to b")
            await until(lambda: a.received("b") == list(range(1, 13)), "to a")
            assert (a.events, b.events) == before
            assert net.joined("a", "b", "c")

    on_asyncio(main())


def test_frames_that_are_under_way_when_the_link_is_whole_again_arrive() -> None:
    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            net.heal("a", "b")
            sent = 0
            while not net.joined("a", "b", ""):
                sent += 1
                a.transport.send("b", [frame(sent, 20_000)])
                await asyncio.sleep(0.001)
            await until(lambda: len(b.received("a")) == sent, "all of them")
            assert sorted(b.received("a")) == list(range(1, sent + 1))
            assert [event for event, _ in a.events].count("lost") == 1  # when it was cut

    on_asyncio(main())


def test_what_was_sent_through_a_pipe_before_closing_arrives() -> None:
    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            a.transport.send("b", [frame(number, 100_000) for number in range(1, 20)])
            await a.transport.close()
            await until(lambda: b.events.count(("lost", "a")) == 2, "lost")
            assert b.received("a") == list(range(1, 20))

    on_asyncio(main())


def test_the_end_of_a_pipe_that_was_left_ends_nothing_else() -> None:
    """a and b are joined through c, then directly; then a loses c, and reaches it through b."""

    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            net.heal("a", "b")
            await until(lambda: net.joined("a", "b", ""), "direct")
            connections = [link.connections for link in a.transport.links()]
            net.proxies["a", "c"].cut()  # the pipe that was left ends with it
            net.cut("a", "c")
            await until(lambda: net.joined("a", "c", "b"), "through b")
            assert net.joined("a", "b", "")
            now = [link.connections for link in a.transport.links()]
            assert [new - old for new, old in zip(now, connections, strict=True)] == [0, 1]
            assert a.paired("b")
            assert b.paired("a")

    on_asyncio(main())


def test_a_site_that_refuses_is_left_for_another_one() -> None:
    async def main() -> None:
        a, b, _, d = some("abcd")
        c = End("c", anywhere("abcd"), times=TIMES, limits=LinkLimits(pipes=0))
        async with mesh(a, b, c, d) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "d"), "through d")
            assert c.transport.relayed().refused > 0
            assert c.transport.relayed().opened == 0

    on_asyncio(main())


def test_a_relay_that_fails_is_left_for_another_one() -> None:
    async def main() -> None:
        a, b, c, d = some("abcd")
        async with mesh(a, b, c, d) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            net.cut("a", "c")  # so a reaches b and c through d
            await until(lambda: net.joined("a", "b", "d"), "through d")
            await until(lambda: net.joined("a", "c", "d"), "c too")
            await until(lambda: d.transport.relayed().pipes == 2, "one pipe for each of them")

    on_asyncio(main())


def test_a_site_that_reaches_one_other_site_reaches_all() -> None:
    async def main() -> None:
        ends = some("abcde")
        async with mesh(*ends) as net:
            for other in "bde":
                net.cut("a", other)
            await until(lambda: all(net.joined("a", other, "c") for other in "bde"), "through c")
            for end in ends[1:]:
                ends[0].transport.send(end.name, [frame(5)])
            await until(lambda: all(end.received("a") == [5] for end in ends[1:]), "everywhere")

    on_asyncio(main())


def test_of_many_sites_one_that_reaches_a_single_other_site_reaches_all() -> None:
    """a and c reach each other, and c all others; a and the others never hear each other."""

    async def main() -> None:
        names = ["a", "c", *(f"s{number}" for number in range(40))]
        ends = [End(name, anywhere(names), times=replace(QUICK, suspect=SECOND)) for name in names]
        a, c, *others = ends
        async with started(*ends):
            nowhere = ("127.0.0.1", free_ports(1)[0])
            for other in others:
                a.transport.addresses[other.name] = other.transport.addresses["a"] = nowhere
                for name in ("a", "c"):
                    other.transport.connect(name)
                a.transport.connect(other.name)
            a.transport.connect("c")
            for number, other in enumerate(others):
                a.transport.send(other.name, [frame(number)])
                other.transport.send("a", [frame(number)])
            await until(lambda: all(connected(a, other) for other in others), "through c")
            for number, other in enumerate(others):
                a.transport.send(other.name, [frame(100 + number)])
                other.transport.send("a", [frame(100 + number)])
            await until(
                lambda: all(
                    100 + n in other.received("a") and 100 + n in a.received(other.name)
                    for n, other in enumerate(others)
                ),
                "both ways",
            )
            assert c.transport.relayed().pipes >= 40

    on_asyncio(main())


@pytest.mark.parametrize(
    ("peers", "pipes", "of_one"), [(2, 64, 32), (9, 72, 32), (41, 1_024, 80), (2_000, 1_024, 1_024)]
)
def test_a_relay_has_pipes_for_every_pair_of_its_peers_within_its_memory(
    peers: int, pipes: int, of_one: int
) -> None:
    assert (most_pipes(peers), most_pipes_of_peer(peers)) == (pipes, of_one)
    assert 2 * PIPE_WINDOW * most_pipes(peers) <= 512 * 1024 * 1024


def test_there_is_no_pipe_to_a_site_that_nobody_hears() -> None:
    """A site that has died, or that is silent itself, is not where a link is broken."""

    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            net.cut("c", "b")
            await asyncio.sleep(1.0)
            assert c.transport.relayed().opened == a.transport.relayed().opened == 0
            net.heal("a", "b")
            net.heal("c", "b")
            await until(lambda: connected(a, b, c), "connected")

    on_asyncio(main())


# --- what a relay sees ----------------------------------------------------------------------------


def test_sites_prove_the_secret_of_the_cluster_to_each_other_within_the_pipe(
    tmp_path: Path,
) -> None:
    """b has another secret since a and b were connected: c, which knows both, cannot help."""
    one, two = (ClusterSecret(tmp_path / name / "secret", make=True) for name in ("one", "two"))

    async def main() -> None:
        a, b, c = some("abc")
        for end in (a, b, c):
            end.transport._secret = one
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            a.transport.send("b", [frame(1)])
            await until(lambda: b.received("a") == [1], "there")
            b.transport._secret = two
            net.proxies["a", "c"].cut()  # and the pipe with it
            await until(lambda: c.transport.relayed().opened > 2, "asked again")
            await until(lambda: b.transport.refusals[NOT_PROVED] > 0, "refused")
            assert net.through("a", "b") == ""

    on_asyncio(main())


@pytest.mark.parametrize("tls", [True, False])
def test_the_relay_sees_no_plain_bytes_of_sites_with_certificates(
    tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificates(CLUSTER, list("abc"), tmp_path / "certs")
    seen = bytearray()
    took = RelaySide.took

    def spy(self: RelaySide, data: bytes) -> None:
        seen.extend(data)
        took(self, data)

    monkeypatch.setattr(RelaySide, "took", spy)

    async def main() -> None:
        a, b, c = some("abc", TlsConfig(tmp_path / "certs") if tls else None)
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            a.transport.send("b", [frame(1, 70_000)])
            await until(lambda: b.received("a") == [1], "there")

    on_asyncio(main())
    assert len(seen) > 70_000
    assert (bytes(10_000) in seen) is (b"och" in seen) is (CLUSTER.encode() in seen) is not tls


def test_a_relay_that_answers_in_the_place_of_the_site_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_certificates(CLUSTER, list("abc"), tmp_path / "certs")
    wanted, greeted = Pipes._wanted, Transport.greeted

    def answer(self: Pipes, carrier: PipeCarrier, frame: PipeWanted) -> None:
        if self._us != "c":
            wanted(self, carrier, frame)
            return
        carrier.opened(frame.number)
        self._end(carrier, frame.number, None)

    def pretend(self: Transport, connection: Connection, hello: Hello) -> None:
        if self.site != "c" or not connection.through:
            greeted(self, connection, hello)
            return
        connection.say(answer_of_another(hello))

    monkeypatch.setattr(Pipes, "_wanted", answer)
    monkeypatch.setattr(Transport, "greeted", pretend)

    async def main() -> None:
        a, b, c = some("abc", TlsConfig(tmp_path / "certs"))
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: a.transport.refusals[WRONG_NAME] > 1, "refused")
            assert net.through("a", "b") == net.through("b", "a") == ""
            assert [event for event in a.events if event[1] == "b"] == [("connected", "b")]

    on_asyncio(main())


def answer_of_another(hello: Hello) -> Hello:
    """What the site that the hello is for would answer."""
    fields = (hello.cluster, hello.to, hello.site, 1, 1, bytes(8), 999, hello.number, 0)
    return Hello(*fields, hello.terms)


# --- limits ---------------------------------------------------------------------------------------


def test_a_relay_holds_no_more_than_the_window_of_a_pipe() -> None:
    size = 200_000

    async def main() -> None:
        a, b, c = (End(name, anywhere("abc"), times=slow) for name in "abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            before = c.transport.relayed().bytes
            net.cut("c", "b")  # for less time than makes a link silent
            a.transport.send("b", [frame(number, size) for number in range(1, 41)])
            await asyncio.sleep(0.3)
            assert c.transport.relayed().bytes - before <= PIPE_WINDOW
            assert ("congested True", "b") in a.events
            net.heal("c", "b")
            await until(lambda: b.received("a") == list(range(1, 41)), "all of them")
            await until(lambda: ("congested False", "b") in a.events, "room again")

    slow = replace(QUICK, suspect=SECOND)
    on_asyncio(main())


def test_pipes_are_counted_and_those_above_the_limits_refused() -> None:
    async def main() -> None:
        a, b, c = (
            End(name, anywhere("abc"), times=CALM, limits=LinkLimits(pipes=9, pipes_of_peer=3))
            for name in "abc"
        )
        async with mesh(a, b, c):
            numbers(a, "c", 7)
            a.transport.send("c", [PipeWanted(number, "b") for number in (1, 3, 5, 7, 9)])
            await until(lambda: c.transport.relayed().refused == 2, "refused")
            assert c.transport.relayed().opened == c.transport.relayed().pipes == 3
            a.transport.send("c", [PipeEnd(1, ""), PipeWanted(11, "b"), PipeWanted(13, "zz")])
            await until(lambda: c.transport.relayed().refused == 3, "unknown")
            assert c.transport.relayed().opened == 4
            assert c.transport.relayed().pipes == 3
            c.transport.part("a")
            await until(lambda: c.transport.relayed().pipes == 0, "gone with the site")
            assert [event for event, _ in b.events] == ["connected", "connected"]

    on_asyncio(main())


def numbers(end: End, peer: str, count: int) -> None:
    """So many numbers of pipes are in use: what the peer says of them is no mistake."""
    connection = end.transport._peers[peer].current
    assert connection is not None
    for _ in range(count):
        end.transport._pipes._carrier(connection).number()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([PipeData(1, b"x")], "pipe 1 was never opened"),
        ([PipeRoom(2, 1)], "pipe 2 was never opened"),
        ([PipeEnd(7, "")], "pipe 7 was never opened"),
        ([PipeWanted(2, "b")], "a new pipe has the number 2"),
        ([PipeWanted(1, "b"), PipeWanted(1, "b")], "a new pipe has the number 1"),
        ([PipeWanted(1, "b"), PipeRoom(1, 5)], "room for 5 bytes of a pipe that were not sent"),
        (
            [PipeWanted(1, "b"), *[PipeData(1, bytes(32_768))] * 9],
            "more bytes of a pipe than there is room for",
        ),
        ([PipeOffered(1, "b"), *[PipeData(1, b"och" + bytes(99))]], ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_peer_that_breaks_the_rules_of_pipes_is_dropped(said: list[WireFrame], why: str) -> None:
    async def main() -> None:
        a, b, c = (End(name, anywhere("abc"), times=CALM) for name in "abc")
        async with mesh(a, b, c):
            if not why:
                numbers(a, "c", 1)
            a.transport.send("c", said)
            if why:
                await until(lambda: ("lost", "a") in c.events, "dropped")
                assert why in last_error(c, "a")
            else:  # what is in the pipe is not the carrier's mistake
                await until(lambda: c.transport.refusals["another version"] == 1, "refused")
                assert ("lost", "a") not in c.events
            await until(lambda: connected(a, b, c), "connected")
            assert ("lost", "b") not in c.events

    on_asyncio(main())


def last_error(end: End, peer: str) -> str:
    return next(link.last_error for link in end.transport.links() if link.peer == peer)


def test_there_is_no_pipe_within_a_pipe(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        a, b, c = some("abc")
        async with mesh(a, b, c) as net:
            net.cut("a", "b")
            await until(lambda: net.joined("a", "b", "c"), "through c")
            a.transport.send("b", [PipeWanted(1, "c")])
            await until(
                lambda: "a: wrong frame: a pipe within a pipe" in caplog.messages, "refused"
            )
            await until(lambda: net.joined("a", "b", "c"), "through c")

    on_asyncio(main())
