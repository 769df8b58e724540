"""A client goes on through SIGKILLs of its daemon: nothing is sent twice, nothing is lost."""

import asyncio
import random
from pathlib import Path

from ordercast.net.client.client import connect
from ordercast.net.cluster.file import read_cluster
from processes.daemons import up
from support.harness.loops import in_loop

MESSAGES = 3_000
KILLS = 5


@in_loop
async def test_a_client_survives_kills_of_its_daemon(tmp_path: Path) -> None:
    """One application sends through a and reads at a, another reads at b; a is killed at random
    moments. Both see every message once, in the order of sending."""
    chance = random.Random(11)
    with up(tmp_path, durability="os", on_failure="wait") as daemons:
        cluster = read_cluster(daemons.file)
        async with (
            connect(cluster, "a", daemons.dir) as sender,
            connect(cluster, "a", daemons.dir) as own,
            connect(cluster, "b", daemons.dir) as other,
        ):

            async def read(client: object) -> list[tuple[int, int, bytes]]:
                found = []
                async for item in client.deliveries():  # type: ignore[attr-defined]
                    found.append((item.position, item.seq, item.payload))
                    if len(found) % 500 == 0:
                        await client.confirm(item.position)  # type: ignore[attr-defined]
                    if len(found) == MESSAGES:
                        return found
                raise AssertionError("deliveries never end")

            async def send() -> None:
                for n in range(MESSAGES):
                    await sender.multicast("alpha", b"%d" % n)
                    if n % 10 == 0:
                        await asyncio.sleep(0.01)
                await sender.flush("stable")

            work = [asyncio.ensure_future(each) for each in (read(own), read(other), send())]
            for _ in range(KILLS):
                await asyncio.sleep(chance.random() * 0.4)
                await asyncio.to_thread(daemons.good, "cluster", "restart", "cluster.toml", "a")
            mine, others, _ = await asyncio.gather(*work)
            boot = (await sender.status())["boot"]
    assert mine is not None
    expected = [(n + 1, b"%d" % n) for n in range(MESSAGES)]
    assert [(position, payload) for position, _, payload in mine] == expected
    assert others == mine
    seqs = [seq for _, seq, _ in mine]
    assert seqs == sorted(set(seqs)), "copies of what was repeated have some of the seqs"
    assert boot == KILLS + 1
