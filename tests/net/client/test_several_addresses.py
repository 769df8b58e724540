"""A client with several addresses: which daemon it uses, and what becomes of what was under way."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import ordercast
from ordercast.model.errors import ConfigError
from ordercast.net.client.calls import Away
from ordercast.net.client.client import Client, connect
from ordercast.net.site.copies.repeats import RepeatSender
from ordercast.net.site.node import site_of
from support.clusters.served import Served, served
from support.clusters.sites import read_messages, until
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b", "c"]}


@asynccontextmanager
async def running_three(
    tmp_path: Path, groups: dict[str, list[str]] = GROUPS
) -> AsyncIterator[Served]:
    secret = tmp_path / "secret"
    secret.write_text(f"{5:064x}\n")
    secret.chmod(0o600)
    quick = {"suspect": "200ms"}
    async with served(tmp_path, groups, remote=True, secret=str(secret), timeouts=quick) as running:
        yield running


def client(running: Served, *sites: str, **options: Any) -> Client:
    options = {"start_s": 20.0, "patience_s": 30.0, **options}
    addresses = [running.address(site, "tcp") for site in sites]
    return connect(addresses, secret=running.directory / "secret", **options)


def hold(running: Served, site: str) -> None:
    """From now on the site takes what it is sent, and accepts nothing."""
    sender = site_of(running.cluster[site]).sender

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    sender.send_batch = never  # type: ignore[method-assign,assignment]


async def handed_over(remote: Client, running: Served, site: str) -> None:
    """Until the daemon has the send."""
    desk = running.admins[site].desk
    await until(lambda: any(each._queue for each in desk._sessions.values()))
    assert remote._outgoing.unanswered


@in_loop
async def test_the_client_goes_on_at_another_site_and_new_sends_and_questions_with_it(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
        assert remote.site == "a"
        await (await remote.multicast("alpha", b"at a")).stable()
        await remote.confirm(0)
        fresh, placed = remote.deliveries(), remote.deliveries(1)
        assert (await anext(placed)) is not None
        waiting = asyncio.ensure_future(anext(remote.deliveries(100)))
        await asyncio.sleep(0)
        await running.kill("a")
        await until(lambda: remote.site == "b")
        await (await remote.multicast("alpha", b"at b")).ordered()
        assert (await remote.status())["site"] == "b"
        for reading in (waiting, _to_its_end(placed)):
            with pytest.raises(Away, match="site a has gone away, and site b answers now; its pos"):
                await reading
        found = await read_messages(remote, 2, 1)
        assert [item.payload for item in found] == [b"at a", b"at b"]
        assert isinstance(await anext(fresh), ordercast.EpochOpened | ordercast.Delivery)
        await remote.confirm(1)


@pytest.fixture
def _no_window() -> Iterator[None]:
    """Groups do not remember clients: only the site that has taken a request knows it."""
    with patch.object(RepeatSender, "begin"):
        yield


@pytest.mark.usefixtures("_no_window")
@in_loop
async def test_what_is_not_answered_waits_for_its_site_and_is_sent_once(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
        await (await remote.multicast("alpha", b"one")).stable()
        hold(running, "a")
        doubtful = await remote.multicast("alpha", b"two")
        await handed_over(remote, running, "a")
        later = asyncio.ensure_future(_sent(remote, b"three"))
        await running.kill("a")
        link = remote._link
        assert link is not None
        await until(lambda: "another is waited for" in link.trouble)
        assert remote.site == "a"
        await running.start("a")
        await doubtful.stable()
        await later
        found = await read_messages(running.cluster["b"], 3)
        assert [item.payload for item in found] == [b"one", b"two", b"three"]
        assert {item.origin for item in found} == {"a"}


async def _to_its_end(items: AsyncIterator[Any]) -> None:
    async for _ in items:
        pass


async def _sent(remote: Client, payload: bytes) -> None:
    await (await remote.multicast("alpha", payload)).stable()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"unanswered": "fail"}, "site a has gone away, and site b answers now"),
        ({"patience_s": 0.3}, "no daemon has answered for 0.3 s"),
    ],
)
@in_loop
async def test_what_is_not_answered_ends_by_option_or_patience_and_the_client_moves(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b", **options) as remote:
        hold(running, "a")
        doubtful = await remote.multicast("alpha", b"one")
        await handed_over(remote, running, "a")
        await running.kill("a")
        with pytest.raises(Away, match=f"{said}.*it is not known whether this message was"):
            await doubtful.ordered()
        await until(lambda: remote.site == "b")
        await (await remote.multicast("alpha", b"two")).ordered()
        found = await read_messages(running.cluster["b"], 1)
        assert [(item.payload, item.origin) for item in found] == [(b"two", "b")]


@in_loop
async def test_a_receipt_of_what_another_site_accepted_says_so(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running, client(running, "a", "b") as remote:
        running.cluster.split(["a"], ["b", "c"])
        receipt = await remote.multicast("alpha", b"accepted")
        await receipt.accepted()
        await running.kill("a")
        with pytest.raises(Away, match="this message was accepted there, and may be on its way"):
            await receipt.stable()
        running.cluster.heal()


@in_loop
async def test_a_site_that_is_named_is_waited_for(tmp_path: Path) -> None:
    async with running_three(tmp_path) as running:
        async with client(running, "a", "b", site="b") as remote:
            assert remote.site == "b"
            await running.kill("b")
            sent = await remote.multicast("alpha", b"for b")
            await running.start("b")
            await sent.stable()
            assert (remote.site, remote.boot) == ("b", 2)
        with pytest.raises(ordercast.Error, match=r"this is site '[ab]' of .*, not 'c'"):
            async with client(running, "a", "b", site="c"):
                pass
    with pytest.raises(ConfigError, match="unanswered: 'never' is none of wait, fail"):
        client(running, "a", unanswered="never")
