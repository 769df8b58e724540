"""Limits of a subject: what one client takes of a daemon leaves enough for the others."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.member import Member
from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.grants import CLIENT, OWNER, ClientSubject
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.net.cluster.config import LimitsConfig
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.daemon.shares import SharedWindow, ShareLimits, SubjectShare, SubjectShares
from ordercast.net.site.node import site_of
from support.clusters.served import Served, served
from support.clusters.sites import until
from support.harness.loops import in_loop

WIDE = (1_000, 100_000)
GREEDY, MODEST = ClientSubject(CLIENT, "greedy"), ClientSubject(CLIENT, "modest")
ALL = ["send", "read", "observe", "admin"]
GROUPS = {"alpha": ["a", "b"], "beta": ["c", "d"]}  # domains that do not wait for each other


@asynccontextmanager
async def running(tmp_path: Path, **options: Any) -> AsyncIterator[Served]:
    certs = tmp_path / "certs"
    write_certificates("local", ["a", "b", "c", "d"], certs)
    add_client_certificates(
        "local", ["modest", "greedy", *(f"greedy{i}" for i in range(1, 9))], certs
    )
    grants = dict.fromkeys(["socket", "site:*", "client:*"], ALL)
    async with served(
        tmp_path, GROUPS, remote=True, tls={"dir": str(certs)}, grants=grants, **options
    ) as found:
        yield found


def client(found: Served, name: str) -> Client:
    cert = found.directory / "certs" / "clients" / f"{name}.pem"
    return connect(found.address("a"), cert=cert, start_s=20, patience_s=20, flush_s=0.1)


def _more_than(core: Member, before: int) -> bool:
    return core.window.unstable + core.admission.messages > before


@in_loop
async def test_clients_whose_messages_are_stuck_leave_room_in_the_window_for_others(
    tmp_path: Path,
) -> None:
    limits = {"window_messages": 40}
    async with running(tmp_path, limits=limits, on_failure="wait") as found, AsyncExitStack() as on:
        await (await found.cluster["a"].multicast("alpha", b"first")).stable()
        await found.kill("d")  # from now on nothing to beta is stable
        modest = await on.enter_async_context(client(found, "modest"))
        core, stuck, all_greedy = site_of(found.cluster["a"]).core, [], []
        for count in range(1, 9):
            greedy = await on.enter_async_context(client(found, f"greedy{count}"))
            all_greedy.append(greedy)
            before = core.window.unstable + core.admission.messages
            stuck += [asyncio.ensure_future(greedy.multicast("beta", b"x")) for _ in range(100)]
            await until(partial(_more_than, core, before))
            if count in (1, 2, 3, 8):
                for _ in range(10):
                    async with asyncio.timeout(10):
                        await (await modest.multicast("alpha", b"y")).stable()
        assert 16 <= core.window.unstable + core.admission.messages < 40
        for each in stuck:
            each.cancel()
        await found.start("d")
        for greedy in all_greedy:
            await greedy.flush("accepted")


@in_loop
async def test_a_client_is_read_no_faster_than_its_rate_and_others_do_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async with (
        running(tmp_path, limits={"subject_rate": 1_000_000}) as found,
        client(found, "greedy") as greedy,
        client(found, "modest") as modest,
    ):
        begun = time.monotonic()
        sent = [await greedy.multicast("alpha", bytes(250_000)) for _ in range(8)]
        await (await modest.multicast("alpha", b"y")).ordered()
        others = time.monotonic() - begun
        await sent[-1].ordered()
        took = time.monotonic() - begun
        assert took >= 0.45  # a second's worth comes at once, and the last of the rest uncounted
        assert others < took


@in_loop
async def test_one_subject_has_so_many_connections_and_a_refusal_is_counted(tmp_path: Path) -> None:
    async with (
        running(tmp_path, limits={"subject_connections": 2}) as found,
        client(found, "greedy"),
        client(found, "greedy"),
        client(found, "modest"),
    ):
        third = client(found, "greedy")
        entering = asyncio.ensure_future(third.__aenter__())
        refused = found.admins["a"].desk.permits.refused
        await until(lambda: refused["client:greedy", "connect"] > 0)
        link = third._link
        assert link is not None
        await until(lambda: "too many clients that are client:greedy (2" in link.trouble)
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)


def test_the_bytes_of_a_subject_are_counted_by_the_time_of_the_loop() -> None:
    share = SubjectShare(ShareLimits(2, 1_000, 10, 10_000), SharedWindow(*WIDE))
    assert share.spend(1_000, 5.0) == 0  # what a second brings, at once
    assert share.spend(500, 5.0) == 0.5
    assert share.spend(0, 5.5) == 0
    assert share.spend(1_000, 6.0) == 0.5
    assert share.spend(0, 100.0) == 0
    assert share.spend(1_500, 100.0) == 0.5  # nothing is saved for longer than a second
    assert SubjectShare(ShareLimits(2, 0, 10, 10), SharedWindow(*WIDE)).spend(1 << 40, 1.0) == 0
    assert SubjectShare(None, SharedWindow(*WIDE)).spend(1 << 40, 1.0) == 0


def test_too_many_bytes_that_wait_for_the_window_are_a_reason_to_read_later() -> None:
    share = SubjectShare(ShareLimits(2, 0, 10, 1_000), SharedWindow(*WIDE))
    share.waits(1_001)
    assert share.spend(1, 1.0) > 0
    share.waits(-1)
    assert share.spend(1, 1.0) == 0


@in_loop
async def test_room_in_a_share_is_given_in_the_order_of_asking() -> None:
    share = SubjectShare(ShareLimits(2, 0, 10, 1_000), SharedWindow(*WIDE))
    with pytest.raises(TooLarge, match="a batch of 11 messages"):
        await share.enter(11, 1)
    with pytest.raises(TooLarge, match=r"one client may have 10 \(1,000 bytes\) under way"):
        await share.enter(2, 1_001)
    await share.enter(1, 5_000)  # one message: alone it may go
    waiting = [asyncio.ensure_future(share.enter(5, 1)) for _ in range(3)]
    await asyncio.sleep(0)
    share.leave(1, 5_000)
    await asyncio.sleep(0)
    assert [each.done() for each in waiting] == [True, True, False]
    waiting[2].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    last = asyncio.ensure_future(share.enter(6, 1))
    await asyncio.sleep(0)
    assert not last.done()
    share.leave(5, 1)
    share.leave(5, 1)
    await last
    share.leave(6, 1)
    assert share.idle


def subject(number: int) -> ClientSubject:
    return ClientSubject(CLIENT, f"c{number}")


def enters(share: SubjectShare, messages: int = 1, size: int = 1) -> "asyncio.Task[None]":
    return asyncio.ensure_future(share.enter(messages, size))


async def taken(share: SubjectShare, size: int = 1) -> int:
    """How many messages a greedy subject gets in, of which none becomes stable."""
    count = 0
    while True:
        entering = enters(share, 1, size)
        await asyncio.sleep(0)
        if not entering.done():
            return count  # it stays in the line
        count += 1


@pytest.mark.parametrize(("greedy", "most"), [(2, 50), (3, 50), (8, 50), (255, 100)])
@in_loop
async def test_however_many_clients_are_stuck_the_next_one_finds_room_at_once(
    greedy: int, most: int
) -> None:
    shares = SubjectShares(LimitsConfig(subject_window=most))
    got = [await taken(shares.of(subject(i))) for i in range(greedy)]
    for i, count in enumerate(got, 1):
        assert count >= max(1, 9_744 // (i * (i + 1)) - i)  # as the page says
    newcomer = enters(shares.of(MODEST))
    await asyncio.sleep(0)
    assert newcomer.done()


@pytest.mark.parametrize("greedy", [2, 3, 8])
@in_loop
async def test_the_bytes_of_stuck_clients_leave_room_for_a_message_of_the_next_one(
    greedy: int,
) -> None:
    shares = SubjectShares(LimitsConfig())
    for i in range(greedy):
        await taken(shares.of(subject(i)), 100_000)
    newcomer = enters(shares.of(MODEST), 1, (8 << 20) // 16)
    await asyncio.sleep(0)
    assert newcomer.done()


@in_loop
async def test_those_that_wait_for_room_get_it_in_turn() -> None:
    window = SharedWindow(16, 1_000)
    shares = [SubjectShare(ShareLimits(2, 0, 16, 1_000), window) for _ in range(3)]
    order: list[int] = []
    await shares[0].enter(4, 4)  # half of what is not kept for first messages

    async def brings(i: int) -> None:
        await shares[i].enter(1, 1)
        order.append(i)

    waiting = [asyncio.ensure_future(brings(i)) for i in (1, 1, 1, 2, 2, 2)]
    await asyncio.sleep(0)
    assert order == [1, 2]  # the first of each
    shares[0].leave(4, 4)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order == [1, 2, 1, 2]  # there is no room for the last ones
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


@in_loop
async def test_what_an_earlier_run_has_under_way_is_not_free() -> None:
    unstable = [(900, 9_000)]
    shares = SubjectShares(
        LimitsConfig(window_messages=1_000, window_bytes=10_000, message_bytes=10_000),
        lambda: unstable[0],
    )
    assert await taken(shares.of(GREEDY)) == 1  # of the 100 others, kept for first messages
    unstable[0] = (10, 100)
    assert await taken(shares.of(MODEST)) > 100
    unstable[0] = (1_000, 10_000)  # these are new ones: each is counted when it enters
    newcomer = enters(shares.of(subject(1)))
    await asyncio.sleep(0)
    assert newcomer.done()


def test_the_owner_of_the_socket_has_no_limits_and_each_other_subject_its_own() -> None:
    shares = SubjectShares(LimitsConfig(window_messages=10, subject_window=30))
    assert shares.limits.messages == 3
    assert shares.of(GREEDY) is shares.of(GREEDY)
    assert shares.of(GREEDY) is not shares.of(MODEST)
    shares.of(GREEDY).waits(1)
    shares.forget({OWNER})
    assert not shares.of(GREEDY).idle
    shares.of(GREEDY).waits(-1)
    before = shares.of(GREEDY)
    shares.forget(set())
    assert shares.of(GREEDY) is not before


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"subject_window": 0}, "limits.subject_window: 0 is not a whole number within 1 and 100"),
        ({"subject_connections": 0}, "limits.subject_connections: 0 is not within 1 and"),
        ({"subject_rate": "fast"}, "limits.subject_rate: 'fast' is not a size"),
    ],
)
def test_mistakes_in_the_limits_are_one_line(limits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        cluster_of_groups({"alpha": ["a"]}, limits=limits)
