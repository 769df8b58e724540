"""A site that multicasts, as a process: `multicast_child.py CLUSTER SITE DIR LOSS SEND READ HEARD`.

It loses that share of the datagrams it receives, waits until just these peers (a,b) hear it, sends
so many messages, reads so many, prints what it saw as JSON, and ends with a line on standard input.
"""

import asyncio
import hashlib
import json
import random
import sys

import ordercast
from ordercast.net.site.node import site_of
from support.network.multicasting import lossy, spreading, ways

LIMIT_S = 150.0  # only against hanging


async def send(node: ordercast.Node, count: int) -> None:
    for n in range(count):
        await node.multicast("alpha", b"%d" % n)
        if n % 5 == 0:
            await asyncio.sleep(0)


async def read(node: ordercast.Node, count: int) -> dict[str, object]:
    order, next_of = hashlib.sha256(), dict[str, int]()
    in_order, seen = True, 0
    async for item in node.deliveries():
        if not isinstance(item, ordercast.Delivery):
            continue
        in_order &= int(item.payload) == next_of.get(item.origin, 0)
        next_of[item.origin] = int(item.payload) + 1
        order.update(repr(item.id).encode())
        seen += 1
        if seen == count:
            break
    return {"seen": seen, "in_order": in_order, "order": order.hexdigest()}


async def main(cluster: str, site: str, folder: str, *how: str) -> None:
    loss, sends, reads, heard = float(how[0]), int(how[1]), int(how[2]), how[3].split(",")
    async with asyncio.timeout(LIMIT_S), ordercast.Node.open(cluster, site, dir=folder) as node:
        lossy(node, loss, random.Random(site))
        while [peer for peer, way in ways(node).items() if way == "multicast"] != heard:
            await asyncio.sleep(0.02)
        told, _ = await asyncio.gather(read(node, reads), send(node, sends))
        await node.flush("stable")
        out = sum(link.bytes_out for link in site_of(node).transport.links())
        told |= {"dissemination": spreading(node).status(), "tcp_bytes": out}
        print(json.dumps(told), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
