"""Peers that come and go while a transport runs, and terms that become known."""

import asyncio
import logging
import random
from pathlib import Path

import pytest

from ordercast.model.epochs import AddGroup
from ordercast.model.limits import MEMBERS, RECORDS
from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.secret import ClusterSecret
from ordercast.net.link.hello import FOUNDING, Identity
from ordercast.net.link.tls import TlsConfig
from ordercast.wire.codec import WireFrame
from ordercast.wire.epochs import ChangeRequest, Fed, InEpoch
from ordercast.wire.frames import Data
from support.network.links import (
    CLUSTER,
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

AB = anywhere("ab")
ADMIT = "ordercast site add CLUSTER d --address HOST:PORT"


def founded(by: str) -> Identity:
    return Identity(CLUSTER, terms={**TERMS, FOUNDING: by})


def newcomer(tls: TlsConfig | None = None, secret: ClusterSecret | None = None) -> End:
    """A site that is in nobody's cluster file; it has the others'."""
    return End("d", anywhere("abd"), founded(""), tls, secret=secret)


async def introduce(d: End, *others: End) -> None:
    for other in others:
        other.transport.meet("d", d.transport.address)


async def alone(*ends: End) -> None:
    """Started without being told of each other."""
    for end in ends:
        await end.transport.start()


@both_loops
def test_a_newcomer_is_refused_before_it_is_met_and_taken_after(
    run: Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = ClusterSecret(tmp_path / "secret", make=True)

    async def main() -> None:
        a, d = End("a", AB, founded("f"), secret=secret), newcomer(secret=secret)
        async with started():
            await alone(a, d)
            d.knows(a)
            d.transport.connect("a")
            await until(lambda: a.transport.refusals["unknown site"] > 2, "refused")
            await until(lambda: d.transport.refusals["it refuses us"] > 2, "told")
            assert a.events == d.events == []
            assert d.state("a") in ("waiting", "dialling")
            assert ADMIT in next(x.last_error for x in d.transport.links() if x.peer == "a")
            a.transport.meet("d", d.transport.address)
            await until(lambda: connected_pair(a, d), "taken")
            a.transport.send("d", [frame(7)])
            await until(lambda: d.received("a") == [7], "a frame")
            assert a.events == [("connected", "d")]
            await a.transport.close()
            await d.transport.close()

    run(main())
    said = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    refused = f"unknown site: 'd' is not, or no longer, of this cluster; to admit it: {ADMIT}"
    assert f"127.0.0.1: {refused}" in said
    assert f"a: it refuses us: {refused}" in said
    assert len(said) == len(set(said))


def connected_pair(one: End, two: End) -> bool:
    return one.state(two.name) == two.state(one.name) == "connected"


@both_loops
def test_a_site_that_is_met_is_dialled_when_there_is_something_to_say(run: Runner) -> None:
    async def main() -> None:
        a, d = End("a", AB, founded("f")), newcomer()
        await alone(a, d)
        a.transport.meet("d", d.transport.address)
        assert a.state("d") == "idle"
        a.transport.send("d", [frame(1)])
        await until(lambda: connected_pair(a, d), "connected")
        await a.transport.close()
        await d.transport.close()

    run(main())


@both_loops
def test_parting_sends_what_is_written_then_hangs_up_and_refuses(run: Runner) -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            sent = [frame(number, 100_000) for number in range(1, 40)]
            a.transport.send("b", sent)
            a.transport.part("b")
            assert a.events == [("connected", "b"), ("lost", "b")], "at once, and once"
            assert a.transport.links() == []
            await until(lambda: b.received("a") == list(range(1, 40)), "the last words")
            await until(lambda: ("lost", "a") in b.events, "the end")
            b.transport.connect("a")
            await until(lambda: b.transport.refusals["it refuses us"] > 2, "refused")
            await asyncio.sleep(0.1)
            assert a.events == [("connected", "b"), ("lost", "b")]
            assert a.frames == []

    run(main())


@both_loops
def test_a_site_that_parted_may_come_again_while_its_process_runs(run: Runner) -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(a, b):
            address = b.transport.address
            for times in range(1, 6):
                (a, b)[times % 2].transport.connect("ba"[times % 2])
                await until(lambda: connected(a, b), "connected")
                a.transport.send("b", [frame(times)])
                await until(lambda: b.received("a") == list(range(1, times + 1)), "frame")  # noqa: B023
                a.transport.part("b")
                if times % 2:
                    await until(lambda: b.state("a") != "connected", "it has noticed")
                a.transport.meet("b", address)
            assert a.paired("b")
            assert a.events.count(("lost", "b")) == 5
            await until(lambda: connected(a, b), "connected")
            assert set(a.transport.refusals) <= {"unknown site", "it refuses us"}

    run(main())


@both_loops
def test_adding_and_parting_peers_leaves_the_others_traffic_alone(run: Runner) -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            sent = 0
            for generation in range(12):
                guest = End(
                    "d", anywhere("abd"), Identity(CLUSTER, boot=generation + 1, terms=TERMS)
                )
                await alone(guest)
                guest.knows(a, b)
                await introduce(guest, a, b)
                guest.transport.connect("a")
                guest.transport.connect("b")
                if generation % 3:
                    await until(lambda: connected(a, b, guest), "all are connected")  # noqa: B023
                for _ in range(20):
                    sent += 1
                    a.transport.send("b", [frame(sent, 3_000)])
                    b.transport.send("a", [frame(sent)])
                    a.transport.send("d", [frame(sent)])
                    guest.transport.send("a", [frame(sent)])
                    await asyncio.sleep(0)
                a.transport.part("d")
                b.transport.part("d")
                await guest.transport.close()
            await until(lambda: b.received("a") == list(range(1, sent + 1)), "frames of a")
            await until(lambda: a.received("b") == list(range(1, sent + 1)), "frames of b")
            for end, other in ((a, "b"), (b, "a")):
                assert [e for e in end.events if e[1] == other] == [("connected", other)]
                assert end.paired("d")
                assert end.events.count(("connected", "d")) == end.events.count(("lost", "d"))
                assert [link.peer for link in end.transport.links()] == [other]
                await until(lambda: end.transport.connections == 1, "no connection is left")  # noqa: B023

    run(main())


def test_parting_while_dialling_leaves_nothing_behind() -> None:
    async def main() -> None:
        a = End("a", AB)
        async with started(a):
            for _ in range(50):
                a.transport.meet("d", ("127.0.0.1", 9))
                a.transport.send("d", [frame(1)])
                await asyncio.sleep(0)
                a.transport.part("d")
            a.transport.part("d")
            await until(lambda: a.transport.connections == 0, "no dial is under way")
            await asyncio.sleep(0.05)
            assert [link.peer for link in a.transport.links()] == ["b"]
            assert a.transport.connections == 0
            assert a.events == []

    on_asyncio(main())


def test_a_peer_that_has_moved_is_dialled_at_its_new_place() -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(b):
            await alone(a)
            a.transport.meet("b", ("127.0.0.1", 9))
            a.transport.connect("b")
            await until(lambda: a.transport.refusals["cannot be reached"] > 1, "not there")
            a.transport.meet("b", b.transport.address)
            await until(lambda: a.state("b") == "connected", "connected")
            a.transport.meet("b", b.transport.address)  # said again at every change
            a.transport.meet("b")
            a.transport.meet("a", ("127.0.0.1", 9))
            await asyncio.sleep(0.05)
            assert a.events == [("connected", "b")]
            await a.transport.close()

    on_asyncio(main())


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "no address is known"),
        (("192.0.2.7", 7104), "192.0.2.7 is not loopback, and there are no certificates"),
    ],
)
def test_a_peer_that_cannot_be_dialled_is_waited_for_and_said_once(
    address: tuple[str, int] | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        a, d = End("a", AB), End("d", anywhere("abd"))
        await alone(a, d)
        d.knows(a)
        a.transport.meet("d", address)
        for _ in range(10):
            a.transport.send("d", [frame(1)])
            await asyncio.sleep(0.01)
        assert a.transport.refusals["cannot be reached"] == 0
        d.transport.connect("a")
        await until(lambda: connected_pair(a, d), "connected")
        await a.transport.close()
        await d.transport.close()

    on_asyncio(main())
    assert sum(why in record.message for record in caplog.records) == 1


# --- terms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "two"), [("", ""), ("", "f"), ("f", ""), ("f", "f")])
def test_a_founding_that_is_not_known_yet_agrees_with_every_other(one: str, two: str) -> None:
    async def main() -> None:
        a, b = End("a", AB, founded(one)), End("b", AB, founded(two))
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")

    on_asyncio(main())


def test_another_founding_is_refused_in_words_and_so_are_other_terms_of_a_newcomer() -> None:
    async def main() -> None:
        a, b = End("a", AB, founded("f1")), End("b", AB, founded("f2"))
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: a.transport.refusals["other terms"] > 1, "refused")
            line = "'founding' is 'f2' there, 'f1' here: two clusters of one name, a store of"
            assert line in a.transport.links()[0].last_error
            b.transport.retell({**TERMS, FOUNDING: "", "deliver": "agreed"}, ())
            line = "'deliver' is 'agreed' there, 'safe' here"
            await until(lambda: line in a.transport.links()[0].last_error, "refused")
            assert a.events == []
            b.transport.retell({**TERMS, FOUNDING: ""}, ())
            await until(lambda: connected(a, b), "connected")

    on_asyncio(main())


@both_loops
def test_terms_told_anew_keep_who_agrees_and_drop_who_does_not(run: Runner) -> None:
    async def main() -> None:
        names = anywhere("abcd")
        a, b = End("a", names, founded("f")), End("b", names, founded(""))
        c, d = End("c", names, founded("other")), End("d", names, founded(""))
        async with started(a, b, c, d):
            for peer in "abc":
                d.transport.connect(peer)
            await until(lambda: len(d.events) == 3, "connected with all")
            d.transport.retell({**TERMS, FOUNDING: "f"}, ())
            await until(lambda: ("lost", "c") in d.events, "dropped")
            await until(lambda: c.transport.refusals["other terms"] > 1, "and refused")
            assert [e for e in d.events if e[1] != "c"] == [("connected", "a"), ("connected", "b")]
            assert d.state("a") == d.state("b") == "connected"

    run(main())


# --- what is carried ------------------------------------------------------------------------------


def test_all_kinds_of_frames_are_carried_and_what_would_be_refused_is_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good: list[WireFrame] = [
        InEpoch(3, frame(1)),
        Fed(-1, ()),
        ChangeRequest("c", (AddGroup("g", ("a",)),)),
    ]
    bad: list[WireFrame] = [
        ChangeRequest("c", (AddGroup("g", ("a",) * (MEMBERS + 1)),)),
        Fed(0, (("c", ()),) * (RECORDS + 1)),
    ]

    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            for _ in range(3):
                a.transport.send("b", bad)
                a.transport.send("b", [good[0], *bad, *good[1:]])
            await until(lambda: len(b.frames) == 9, "frames")
            assert [each for _, each in b.frames] == good * 3
            assert a.events == [("connected", "b")]
            assert a.transport.refusals["a frame for it was not sent"] == 12

    on_asyncio(main())
    said = [record.message for record in caplog.records]
    assert len(said) == 1
    told = "b: a frame for it was not sent: ChangeRequest: edits[0].members has 16,385"
    assert said[0].startswith(told)


def test_a_newcomer_needs_a_certificate_of_the_clusters_authority(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write_certificates(CLUSTER, "ab", ours)
    write_certificates(CLUSTER, "abd", theirs)

    async def main() -> None:
        a, stranger = End("a", AB, founded("f"), TlsConfig(ours)), newcomer(TlsConfig(theirs))
        await alone(a, stranger)
        stranger.knows(a)
        a.transport.meet("d", stranger.transport.address)
        stranger.transport.connect("a")
        await until(lambda: stranger.transport.refusals.total() > 2, "refused")
        assert a.events == []
        await stranger.transport.close()
        write_certificates(CLUSTER, "d", ours)
        d = newcomer(TlsConfig(ours))
        await alone(d)
        d.knows(a)
        d.transport.connect("a")
        await until(lambda: connected_pair(a, d), "connected")
        d.transport.send("a", [frame(3)])
        await until(lambda: a.received("d") == [3], "frame")
        await a.transport.close()
        await d.transport.close()

    on_asyncio(main())


def test_data_within_an_epoch_arrives_as_it_was() -> None:
    async def main() -> None:
        a, b = End("a", AB), End("b", AB)
        async with started(a, b):
            a.transport.connect("b")
            await until(lambda: connected(a, b), "connected")
            a.transport.send("b", [InEpoch(n, frame(n, 300)) for n in range(1, 100)])
            await until(lambda: len(b.frames) == 99, "frames")
            for number, (_, found) in enumerate(b.frames, 1):
                assert isinstance(found, InEpoch)
                assert isinstance(found.frame, Data)
                assert (found.epoch, found.frame.number) == (number, number)

    on_asyncio(main())


# --- anything, in any order -----------------------------------------------------------------------


@both_loops
@pytest.mark.parametrize("seed", range(6))
def test_after_any_meeting_parting_cutting_and_restarting_those_who_met_are_connected(
    run: Runner, seed: int
) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        names = anywhere("abc")
        ends = {name: End(name, names) for name in names}
        boots = dict.fromkeys(names, 1)
        past: list[End] = []
        await alone(*ends.values())
        for end in ends.values():
            end.knows(*(other for other in ends.values() if other is not end))
        for _ in range(150):
            name, peer = rng.sample(sorted(names), 2)
            end, address = ends[name], ends[peer].transport.address
            what = rng.choice(("part", "meet", "meet", "connect", "send", "send", "start", "rest"))
            if what == "part":
                end.transport.part(peer)
            elif what == "meet":
                end.transport.meet(peer, address)
            elif what == "connect" and peer in [link.peer for link in end.transport.links()]:
                end.transport.connect(peer)
            elif what == "send":
                end.transport.send(peer, [frame(1, rng.choice((10, 100_000)))])
            elif what == "start" and rng.random() < 0.3:
                await end.transport.close()
                past.append(end)
                boots[name] += 1
                again = Identity(CLUSTER, boot=boots[name], terms=TERMS)
                ends[name] = End(name, {**names, name: end.transport.address}, again)
                await alone(ends[name])
            else:
                await asyncio.sleep(rng.random() * 0.02)
        for name, end in ends.items():
            for peer, other in ends.items():
                end.transport.meet(peer, other.transport.address)
                if peer > name:
                    end.transport.connect(peer)
        await until(lambda: connected(*ends.values()), "all are connected")
        await until(lambda: all(e.transport.connections == 2 for e in ends.values()), "no more")
        for end in (*ends.values(), *past):
            assert all(end.paired(peer) for peer in names)
        for end in ends.values():
            end.frames.clear()
            for peer in names:
                if peer != end.name:
                    end.transport.send(peer, [frame(7)])
        for end in ends.values():
            await until(lambda: len(end.frames) == 2, "a frame from each")  # noqa: B023
            await end.transport.close()

    run(main())
