"""Places that run out: what some subjects take of them leaves some for the next one."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from net.daemon.test_remote_listener import Raw, context, hello
from ordercast.model.epochs import AddProducer
from ordercast.model.errors import ConfigError
from ordercast.net.admin.frames import DaemonRefusal, Welcome
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.net.daemon.places import KEPT, has_place
from ordercast.net.daemon.remote_listener import MOST_CLIENTS
from ordercast.net.store.reader_rows import MOST_READERS
from support.clusters.served import Served, served
from support.harness.loops import in_loop

ALL = ["send", "read", "observe", "admin"]
GREEDY = [f"greedy{number}" for number in range(1, 9)]


@asynccontextmanager
async def running(tmp_path: Path, **options: Any) -> AsyncIterator[Served]:
    certs = tmp_path / "certs"
    write_certificates("local", ["a"], certs)
    add_client_certificates("local", ["modest", *GREEDY], certs)
    grants: dict[str, list[str]] = dict.fromkeys(["socket", "site:*"], ALL)
    grants["client:*"] = ["send:alpha", "read:alpha"]
    groups = {"alpha": ["a"]}
    async with served(
        tmp_path, groups, remote=True, tls={"dir": str(certs)}, grants=grants, **options
    ) as found:
        yield found


def client(found: Served, name: str) -> Client:
    cert = found.directory / "certs" / "clients" / f"{name}.pem"
    return connect(found.address("a"), cert=cert, start_s=30, flush_s=0.1)


def refusals(found: Served) -> dict[tuple[str, str], int]:
    return dict(found.admins["a"].desk.permits.refused)


def taken(held: list[int], most: int) -> int:
    """How many places a newcomer gets that takes all it can, beside those who hold these."""
    got = 0
    while has_place(got, len(held) + (got > 0), most - sum(held) - got, most):
        got += 1
    return got


@pytest.mark.parametrize("most", [256, 1_000, 4_096])
def test_whatever_subjects_take_the_next_one_finds_a_place(most: int) -> None:
    held: list[int] = []
    for number in range(1, most // KEPT):
        held.append(taken(held, most))
        left = most - most // KEPT
        assert held[-1] >= max(1, left // (number * (number + 1)) - 2)  # as the page says
        assert most - sum(held) > 0
    assert has_place(0, len(held), most - sum(held), most)
    assert not has_place(0, most, 0, most)


def test_a_subject_whose_names_are_forgotten_at_restarts_takes_few_of_those_that_are_kept() -> None:
    left = 1_000
    for restarts in range(1, 31):  # each time the daemon has forgotten who made what
        got = 0
        while has_place(got, 1, left - got, 1_000):
            got += 1
        left -= got
        assert left >= 1_000 // KEPT - restarts  # its first one, each time


@in_loop
async def test_eight_subjects_do_not_keep_the_ninth_out_of_the_places_for_connections(
    tmp_path: Path,
) -> None:
    """With all 256 places, and each of the eight takes whatever it is given."""
    async with running(tmp_path) as found:
        certs, there, held = tmp_path / "certs", [], []
        for name in GREEDY:
            mine = context(certs, f"clients/{name}")
            for number in range(33):
                raw = await Raw.open(found, mine)
                there.append(raw)
                raw.say(hello(number))
                told = await raw.hear()
                if not isinstance(told, Welcome):
                    assert isinstance(told, DaemonRefusal)
                    held.append(number)
                    break
        assert held[0] == 32  # `subject_connections`, by default
        assert held == sorted(held, reverse=True)
        assert held[-1] >= 4
        assert sum(held) < MOST_CLIENTS
        assert "too many clients from elsewhere" in told.reason  # type: ignore[union-attr]
        assert refusals(found) == {(f"client:{name}", "connect"): 1 for name in GREEDY}
        async with client(found, "modest") as one, client(found, "modest") as two:
            await (await one.multicast("alpha", b"x")).stable()
            await (await two.multicast("alpha", b"y")).stable()
        for raw in there:
            raw.writer.transport.abort()


async def makes_readers(remote: Client, name: str) -> int:
    """How many readers the client can make."""
    for count in range(MOST_READERS + 1):
        async with aclosing(remote.deliveries(reader=f"{name}-{count}", groups=["alpha"])) as own:
            try:
                await anext(own)
            except ConfigError:
                return count
    raise AssertionError("there is no limit")


@in_loop
async def test_a_subject_that_makes_readers_leaves_names_for_others_also_over_restarts(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as found:
        await (await found.cluster["a"].multicast("alpha", b"x")).stable()
        made = []
        for again in range(2):
            async with client(found, "greedy1") as greedy:
                made.append(await makes_readers(greedy, f"g{again}"))
                own = greedy.deliveries(reader=f"g{again}-0", groups=["alpha"])
                await anext(own)  # one that is there is not made
                await own.aclose()
                assert refusals(found) == {("client:greedy1", "reader"): 1}
                async with found.connect("a") as owner:  # who has no limit, and may remove them
                    await owner.remove_reader(f"g{again}-0")
                own = greedy.deliveries(reader=f"another{again}", groups=["alpha"])
                await anext(own)
                await own.aclose()
            async with client(found, "modest") as modest:
                own = modest.deliveries(reader=f"m{again}", groups=["alpha"])
                await anext(own)
                await own.aclose()
            await found.kill("a")
            await found.start("a")
        assert made == [375, 187]


@in_loop
async def test_a_subject_that_makes_producers_leaves_tickets_for_others(tmp_path: Path) -> None:
    async with (
        running(tmp_path) as found,
        client(found, "greedy1") as greedy,
        client(found, "modest") as modest,
        found.connect("a") as owner,
    ):
        made = 0
        for step in (500, 100, 5, 1):
            with contextlib.suppress(ConfigError):
                while True:
                    edits = [AddProducer(f"p{made + n}", "alpha") for n in range(step)]
                    await greedy.change(*edits)
                    made += step
        assert made == 1_536
        said = r"client:greedy1 has made 1,536 producers .* \('ordercast producer remove'\)"
        with pytest.raises(ConfigError, match=said):
            await (await greedy.produce("another", 1, "alpha", [b"x"])).stable()
        await (await greedy.produce("p0", 1, "alpha", [b"x"])).stable()
        await (await modest.produce("other", 1, "alpha", [b"x"])).stable()
        assert refusals(found)["client:greedy1", "producer"] == 5
        for start in (0, 1_000):  # the owner of the socket has no limit
            await owner.change(*(AddProducer(f"o{start + n}", "alpha") for n in range(1_000)))
