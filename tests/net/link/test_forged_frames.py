"""A site's certificate speaks for that site alone: what it says for others drops its connection."""

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

import ordercast
from ordercast.model.messages import Batch, pack_payloads
from ordercast.net.link.transport import WRONG_WORD, Transport
from ordercast.net.site.node import Node, site_of
from ordercast.wire.epochs import Feed, InEpoch
from ordercast.wire.frames import UP, Data, Item, Offer, Submit
from support.clusters.processes import write_cluster
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
WAIT_S = 60.0


def forged(protocol: str) -> Item:
    batch = Batch("a", 1, "alpha", 1, 1, pack_payloads([b"forged"]))
    return Submit(batch) if protocol == "propagation" else Offer(batch, 1)


@pytest.mark.parametrize("protocol", ["propagation", "two_phase", "ring"])
def test_a_certificate_of_a_site_in_no_group_submits_nothing_for_another_origin(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Members would deliver it, and the origin's own message be reported stable and be nowhere."""
    options = {"protocol": protocol, "voters": ["a", "b", "c"]}
    path = write_cluster(tmp_path, GROUPS, options, tls=True, outside=["z"])
    caplog.set_level(logging.WARNING, "ordercast.net.transport")

    async def first_of(node: Node, origin: str) -> bytes:
        async for item in node.deliveries(start=1):
            if isinstance(item, ordercast.Delivery) and item.origin == origin:
                return item.payload
        raise AssertionError("it ended")

    def is_connected(one: Transport, peer: str) -> bool:
        return (peer, "connected") in [(link.peer, link.state) for link in one.links()]

    @in_loop
    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack, asyncio.timeout(WAIT_S):
            nodes = {
                site: await stack.enter_async_context(ordercast.Node.open(path, site, dir=tmp_path))
                for site in "abcz"
            }
            await (await nodes["c"].multicast("beta", b"first")).stable()
            z, taker = site_of(nodes["z"]).transport, site_of(nodes["b"]).transport
            assert isinstance(z, Transport)
            assert isinstance(taker, Transport)
            z.connect("b")
            while not (is_connected(z, "b") and is_connected(taker, "z")):
                await asyncio.sleep(0.01)
            lie = Data(1, 1, UP, 1, (forged(protocol),))
            for epoch in (1, 2):  # whichever is open
                z.send("b", [InEpoch(epoch, lie)])
            z.send("b", [Feed(0, (), 0, ())])  # of one that is no voter: heard by nobody
            while not taker.refusals[WRONG_WORD]:
                await asyncio.sleep(0.01)
            receipt = await nodes["a"].multicast("alpha", b"true")
            await receipt.stable()
            for member in "ab":
                assert await first_of(nodes[member], "a") == b"true"
            (link,) = [link for link in taker.links() if link.peer == "z"]
            assert link.mistakes == taker.refusals[WRONG_WORD] >= 1
            receipt = await nodes["z"].multicast("beta", b"its own")
            await receipt.stable()
            assert await first_of(nodes["c"], "z") == b"its own"

    run()
    said = [r.getMessage() for r in caplog.records if WRONG_WORD in r.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"z: {WRONG_WORD}: it ")
