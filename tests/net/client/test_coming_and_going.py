"""What is local of [SWAP] §6.2: who only sends, or reads beside one site, comes and goes by words
with that site, and no other site hears of it."""

from pathlib import Path

import pytest

from ordercast import Delivery
from support.clusters.served import served
from support.clusters.sites import until
from support.harness.loops import in_loop


@pytest.mark.parametrize("protocol", ["arrow", "combining"])
@in_loop
async def test_clients_come_and_go_without_a_record_of_the_voters(
    tmp_path: Path, protocol: str
) -> None:
    """After the first, with which a group begins to remember clients."""
    async with served(tmp_path, {"alpha": ["a", "b", "c"]}, protocol=protocol) as sites:
        async with sites.connect("a") as first:
            await (await first.multicast("alpha", b"first")).stable()
            await until(lambda: bool(first._outgoing.marks))
            before = await first.status()
        for number in range(10):
            async with sites.connect("abc"[number % 3]) as client:
                reader = client.deliveries(observe=True)
                await (await client.multicast("alpha", b"%d" % number)).stable()
                found = await anext(reader)
                while not (isinstance(found, Delivery) and found.payload == b"%d" % number):
                    found = await anext(reader)
        async with sites.connect("a") as last:
            after = await last.status()
    assert [each["epoch"] for each in after["epochs"]] == [e["epoch"] for e in before["epochs"]]
    assert after["records"] == before["records"]
