"""Links between sites over TCP: made, kept, lost and made again; the same on both event loops."""

import asyncio
import logging
import random
import socket
import time

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.link.connection import LinkLimits, LinkTimes
from ordercast.net.link.hello import Identity
from ordercast.net.link.peers import Peer
from support.network.links import (
    CLUSTER,
    HASTY,
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
from support.network.proxy import Manners, Proxy

AB = anywhere("ab")


def pair(times: LinkTimes = QUICK) -> tuple[End, End]:
    return End("a", AB, times=times), End("b", AB, times=times)


def again(boot: int, name: str = "b") -> End:
    return End(name, AB, identity=Identity(CLUSTER, boot=boot, terms=TERMS))


@both_loops
def test_the_first_send_dials_and_what_is_sent_then_arrives_in_order(run: Runner) -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b):
            assert a.state("b") == "idle"
            a.transport.send("b", [frame(1)])  # dropped: the link layer sends again
            await until(lambda: connected(a, b), "connected")
            for number in range(2, 500):
                a.transport.send("b", [frame(number)])
                b.transport.send("a", [frame(number, 3_000), frame(1_000 + number)])
            await until(lambda: len(b.frames) == 498 and len(a.frames) == 996, "frames")
            assert b.received("a") == list(range(2, 500))
            assert a.received("b") == [n for k in range(2, 500) for n in (k, 1_000 + k)]
            assert a.events == [("connected", "b")]
            assert b.events == [("connected", "a")]
        assert a.events == [("connected", "b"), ("lost", "b")]
        assert b.events == [("connected", "a"), ("lost", "a")]

    run(main())


@both_loops
def test_frames_of_one_send_are_handed_over_in_one_call(run: Runner) -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            a.transport.send("b", [frame(number) for number in range(1, 200)])
            await until(lambda: len(b.frames) == 199, "frames")
            assert b.reads == [199]

    run(main())


@both_loops
def test_frames_larger_than_a_read_arrive_whole(run: Runner) -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            sizes = [7_000_000, 1, 262_144, 262_143, 300_000, 0]
            sent = [frame(number, size) for number, size in enumerate(sizes, 1)]
            a.transport.send("b", sent)
            await until(lambda: len(b.frames) == len(sizes), "frames")
            assert [found for _, found in b.frames] == sent

    run(main())


@both_loops
def test_what_was_sent_before_closing_arrives(run: Runner) -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            a.transport.send("b", [frame(number, 100_000) for number in range(1, 20)])
            await a.transport.close()
            await until(lambda: ("lost", "a") in b.events, "lost")
            assert b.received("a") == list(range(1, 20))

    run(main())


@both_loops
def test_when_both_dial_at_once_one_connection_stays_and_nothing_is_lost(run: Runner) -> None:
    async def once() -> None:
        a, b = pair()
        async with started(a, b):
            a.transport.connect("b")
            b.transport.connect("a")
            sent = {a.name: 0, b.name: 0}
            for _ in range(60):
                for end, other in ((a, b), (b, a)):
                    if end.state(other.name) == "connected":
                        sent[end.name] += 1
                        end.transport.send(other.name, [frame(sent[end.name])])
                await asyncio.sleep(0.002)
            await until(lambda: connected(a, b), "connected")
            await until(lambda: len(b.frames) == sent["a"] > 0, "frames of a")
            await until(lambda: len(a.frames) == sent["b"] > 0, "frames of b")
            await until(lambda: a.transport.connections == 1, "one connection")
            await until(lambda: b.transport.connections == 1, "one connection")
            assert a.events == [("connected", "b")]
            assert b.events == [("connected", "a")]

    async def main() -> None:
        for _ in range(6):
            await once()

    run(main())


@both_loops
def test_a_lost_connection_is_made_again_and_connected_and_lost_alternate(run: Runner) -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            b.transport.addresses["a"] = ("127.0.0.1", 9)  # only a reaches the other
            a.transport.connect("b")
            for times in range(1, 8):
                await until(lambda: connected(a, b), "connected")
                proxy.cut()
                lost = times
                await until(lambda: a.events.count(("lost", "b")) == lost, "lost")  # noqa: B023
            await until(lambda: connected(a, b), "connected")
            assert a.events.count(("connected", "b")) == 8
            assert a.paired("b")
            assert b.paired("a")

    run(main())


@both_loops
def test_a_connection_that_is_dead_at_one_end_only_is_replaced_by_the_others_dial(
    run: Runner,
) -> None:
    """a's end stays open, held by nobody: only b's new hello can tell."""

    async def main() -> None:
        a, b = pair()
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            begun = asyncio.get_running_loop().time()
            proxy.forget_far_ends()
            await until(lambda: ("lost", "a") in b.events, "lost at b")
            await until(lambda: b.events.count(("connected", "a")) == 2, "connected again")
            await until(lambda: a.events.count(("connected", "b")) == 2, "connected again")
            assert asyncio.get_running_loop().time() - begun < QUICK.suspect / 1e9
            assert a.paired("b")

    run(main())


@both_loops
def test_an_idle_link_stays_up(run: Runner) -> None:
    async def main() -> None:
        a, b = pair(HASTY)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            await asyncio.sleep(5 * HASTY.suspect / 1e9)
            assert a.events == [("connected", "b")]
            assert b.events == [("connected", "a")]
            assert a.frames == []  # signs of life are not handed over

    run(main())


@both_loops
def test_a_peer_that_stalls_without_a_word_is_dropped_and_dialled_again(
    run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = pair(HASTY)
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            b.transport.addresses["a"] = ("127.0.0.1", 9)
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            proxy.stalled = True
            await until(lambda: ("lost", "b") in a.events, "dropped")
            assert a.transport.links()[0].last_error.startswith("silent: nothing heard for 0.45 s")
            proxy.stalled = False
            await until(lambda: a.events.count(("connected", "b")) == 2, "connected again")

    run(main())
    assert sum("silent" in record.message for record in caplog.records) <= 2  # one at each end


@both_loops
def test_a_peer_that_does_not_read_congests_and_is_dropped_at_the_limit(run: Runner) -> None:
    async def main() -> None:
        limits = LinkLimits(congested_bytes=100_000, write_bytes=30_000_000)
        a, b = End("a", AB, limits=limits), End("b", AB)
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            a.transport.send("b", [frame(1, 1_000_000) for _ in range(5)])
            await until(lambda: len(b.frames) == 5, "frames")
            proxy.stalled = True
            for _ in range(100):
                if a.state("b") != "connected":
                    break
                a.transport.send("b", [frame(1, 1_000_000)])
                assert a.transport.links()[0].waiting_bytes < 31_100_000
                await asyncio.sleep(0)
            await until(lambda: ("lost", "b") in a.events, "dropped")
            assert "it does not read" in a.transport.links()[0].last_error
            proxy.stalled = False
            at = a.events.index(("lost", "b"))
            assert a.events[at - 1] == ("congested False", "b"), "before it is lost"
        told = [event for event, _ in a.events if event.startswith("congested")]
        assert told == ["congested True", "congested False"] * (len(told) // 2)

    run(main())


def test_a_stopped_process_does_not_blame_its_peers() -> None:
    async def main() -> None:
        a, b = pair(HASTY)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            time.sleep(4 * HASTY.suspect / 1e9)  # both of them
            await asyncio.sleep(0.1)
            assert a.events == [("connected", "b")]
            assert b.events == [("connected", "a")]

    on_asyncio(main())


def test_a_restarted_peer_takes_the_place_of_its_earlier_start() -> None:
    async def main() -> None:
        a, first, second = End("a", AB), again(1), again(2)
        async with started(a, first, second):
            first.transport.connect("a")
            await until(lambda: connected(a, first), "connected")
            second.transport.connect("a")
            await until(lambda: second.state("a") == "connected", "the second is connected")
            assert a.transport._peers["b"].gone == 0, "of the second's hellos none has ended"
            a.transport.send("b", [frame(7)])
            await until(lambda: second.received("a") == [7], "frame to the second")
            await until(lambda: first.events[-1] == ("lost", "a"), "the first is dropped")
            refusals = a.transport.refusals
            await until(lambda: refusals["an earlier start of the site"] > 0, "it tries in vain")
            assert first.events.count(("connected", "a")) == 1
            assert a.paired("b")
            assert a.events.count(("connected", "b")) == 2

    on_asyncio(main())


def test_a_second_process_of_the_same_start_is_refused_also_after_the_first() -> None:
    async def main() -> None:
        a, first, second = End("a", AB), again(3), again(3)
        async with started(a, first, second):
            first.transport.connect("a")
            await until(lambda: connected(a, first), "connected")
            second.transport.connect("a")
            await until(lambda: a.transport.refusals["two processes of one site"] > 2, "refused")
            assert a.events == [("connected", "b")]
            assert second.events == []
            await first.transport.close()  # its links count on what it had
            before = a.transport.refusals["two processes of one site"]
            await until(
                lambda: a.transport.refusals["two processes of one site"] > before, "refused"
            )
            assert a.events == [("connected", "b"), ("lost", "b")]

    on_asyncio(main())


def test_an_address_that_leads_to_ourselves_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        a = End("a", AB)
        async with started(a):
            a.transport.addresses["b"] = a.transport.address
            a.transport.connect("b")
            await until(lambda: a.transport.refusals["connected to ourselves"] > 6, "refused")
            assert a.events == []

    on_asyncio(main())
    said = [r.message for r in caplog.records if "connected to ourselves" in r.message]
    assert len(said) == 2  # of b, which was dialled, and of the host that dialled
    assert "an address leads to 'a' itself" in said[0]


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (Identity("elsewhere", terms=TERMS), "another cluster: 'elsewhere', this one is 'demo'"),
        (
            Identity(CLUSTER, terms={**TERMS, "protocol": "ring"}),
            "other terms: 'protocol' is 'ring' there, 'propagation' here",
        ),
    ],
)
def test_a_peer_on_other_terms_is_refused_and_both_say_why_once(
    other: Identity, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB, identity=other)
        async with started(a, b):
            a.transport.connect("b")
            b.transport.connect("a")
            await until(lambda: sum(a.transport.refusals.values()) > 6, "refused")
            await until(lambda: sum(b.transport.refusals.values()) > 6, "refused")
            assert a.events == b.events == []
            assert line in a.transport.links()[0].last_error
            said = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
            assert len(said) == len(set(said)) == 2
            assert f"b: {line}" in said

    on_asyncio(main())


def test_an_unreachable_peer_is_told_once_and_dialled_ever_more_seldom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)  # a peer that has never been there is no warning

    async def main() -> None:
        a = End("a", AB)
        async with started(a):
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                a.transport.addresses["b"] = closed.getsockname()
                began = time.monotonic()
                for _ in range(100):
                    a.transport.send("b", [frame(1)])
                    await asyncio.sleep(0.005)
                took_s = time.monotonic() - began  # half a second, or more on a busy machine
            dials = a.transport.refusals["cannot be reached"]
            # 4 ms doubling to 60 ms, each shortened to a half at most
            assert 8 <= dials <= 13 + took_s / 0.03
            link = a.transport.links()[0]
            assert link.state in ("waiting", "dialling")
            assert "Connect call failed" in link.last_error or "refused" in link.last_error

    on_asyncio(main())
    assert sum("cannot be reached" in record.message for record in caplog.records) == 1


def test_a_port_in_use_is_one_clear_line() -> None:
    async def main() -> None:
        a = End("a", AB)
        async with started(a):
            twin = End("a", {**AB, "a": a.transport.address})
            with pytest.raises(ConfigError, match=r"address of site 'a': cannot listen on 127\."):
                await twin.transport.start()

    on_asyncio(main())


@pytest.mark.parametrize("host", ["Localhost", "LOCALHOST", "127.0.0.2", "::1"])
def test_the_transport_takes_as_loopback_what_the_cluster_file_takes(host: str) -> None:
    shown = f"[{host}]" if ":" in host else host
    cluster = cluster_of_groups({"x": ["a", "b"]}, addresses={"b": f"{shown}:7101"})
    assert cluster.address("b") == (host, 7101)
    End("a", cluster.addresses())


@pytest.mark.parametrize("host", ["10.0.0.7", "example.org", "0.0.0.0", "::"])
def test_without_certificates_only_loopback_is_allowed(host: str) -> None:
    with pytest.raises(ConfigError, match=rf"address of site 'b': {host} is not loopback"):
        End("a", {"a": ("localhost", 0), "b": (host, 7101)})


def test_frames_for_who_is_no_peer_are_dropped_which_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        a = End("a", anywhere(["a", "bank"]))
        async with started(a):
            a.transport.send("bnak", [frame(1)])
            a.transport.send("bnak", [frame(1)])
            assert a.transport.refusals.total() == 2

    on_asyncio(main())
    said = [record.message for record in caplog.records]
    assert said == ["bnak: no site of this cluster, frames for it are dropped"]


def test_status_counts_over_all_connections() -> None:
    async def main() -> None:
        a, b = pair()
        async with started(a, b), Proxy(b.transport.address, 1, Manners(kinds=("delay",))) as proxy:
            a.transport.addresses["b"] = proxy.address
            b.transport.addresses["a"] = ("127.0.0.1", 9)
            a.transport.connect("b")
            for number in (1, 2):
                await until(lambda: connected(a, b), "connected")
                a.transport.send("b", [frame(number, 1_000)])
                wanted = number
                await until(lambda: len(b.frames) == wanted, "frame")  # noqa: B023
                proxy.cut()
                await until(lambda: a.events.count(("lost", "b")) == wanted, "lost")  # noqa: B023
            await until(lambda: connected(a, b), "connected")
            (link,) = b.transport.links()
            assert link.connections == 3
            assert link.frames_in >= 2
            assert link.bytes_in > 2_000
            assert link.heard_s is not None

    on_asyncio(main())


def test_redialling_has_chance_in_it() -> None:
    random.seed(7)
    peer = Peer("b", "a", HASTY)
    peer.failures = 3
    pauses = {peer.pause() for _ in range(100)}
    assert len(pauses) > 50
    assert all(0.016 <= pause <= 0.032 for pause in pauses)
