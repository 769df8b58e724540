"""A member of a peer: `python -m bench.peers.member SPEC`, with the spec in JSON."""

import json
import sys
from typing import Any

from bench.peers.corosync import CorosyncTarget
from bench.peers.etcd import EtcdTarget
from bench.peers.nats import NatsTarget
from bench.peers.redis import RedisTarget
from bench.peers.target import PeerTarget
from bench.peers.zeromq import ZeroMqTarget
from ordercast.net.bench.member import run_member, take_part
from ordercast.net.bench.meter import Meter

TARGETS: dict[str, type[PeerTarget]] = {
    "ZeroMQ": ZeroMqTarget,
    "Corosync CPG": CorosyncTarget,
    "Redis Streams": RedisTarget,
    "NATS JetStream": NatsTarget,
    "etcd": EtcdTarget,
}


async def _main(spec: dict[str, Any]) -> None:
    meter = Meter()
    await take_part(spec, TARGETS[spec["system"]](spec, meter), meter)


if __name__ == "__main__":
    run_member(lambda: _main(json.loads(sys.argv[1])))
