"""The tree network against the same model in SimPy, written from its description alone."""

from collections.abc import Generator
from functools import partial
from random import Random
from typing import Any

import pytest
import simpy

from ordercast.sim.rounds.tree import NetworkTree
from ordercast.sim.rounds.tree_network import DATA, EVERYONE, Packet, TreeNetwork

Steps = Generator[Any, Any, None]
Heard = list[tuple[int, int, int]]  # when, where, which message
Sends = list[tuple[int, int, int, int]]  # when, from whom, to whom, bytes of its body


def t_s(size: int) -> int:
    return 338_000 + 47 * size * 1000 // 400


class Model:
    """Processes that queue for processors and links."""

    def __init__(self, tree: NetworkTree, distance: list[int]) -> None:
        self.env = simpy.Environment()
        self.tree = tree
        self.distance = distance
        self.cpu = [simpy.Resource(self.env) for _ in range(tree.count)]
        self.link = {
            pair: simpy.Resource(self.env)
            for node in range(1, tree.count)
            for pair in ((node, tree.parent[node]), (tree.parent[node], node))
        }
        self.heard: Heard = []

    def run(self, sends: Sends) -> Heard:
        for number, send in enumerate(sends):
            self.env.process(self._send(number, *send))
        self.env.run()
        return sorted(self.heard)

    def _use(self, resource: Any, time: int) -> Steps:
        with resource.request() as turn:
            yield turn
            yield self.env.timeout(time)

    def _send(self, number: int, at: int, source: int, target: int, body: int) -> Steps:
        yield self.env.timeout(at)
        yield from self._use(self.cpu[source], t_s(32 + body))
        if target in (EVERYONE, source):
            self.env.process(self._receive(number, source, body))
        self._forward(number, source, -1, target, body)

    def _receive(self, number: int, node: int, body: int) -> Steps:
        yield from self._use(self.cpu[node], 11 * t_s(32 + body) // 10)
        self.heard.append((int(self.env.now), node, number))

    def _forward(self, number: int, node: int, came: int, target: int, body: int) -> None:
        near = [*self.tree.children[node], *([self.tree.parent[node]] if node else [])]
        for other in near:
            ahead = target == EVERYONE or (target != node and self._leads(node, other, target))
            if other != came and ahead:
                self.env.process(self._hop(number, node, other, target, body))

    def _leads(self, node: int, other: int, target: int) -> bool:
        """Whether the way from node to target goes by its neighbour."""
        at = target
        while at not in (node, -1):
            if at == other and self.tree.parent[other] == node:
                return True
            at = self.tree.parent[at]
        return at == -1 and other == self.tree.parent[node]

    def _hop(self, number: int, node: int, other: int, target: int, body: int) -> Steps:
        yield from self._use(self.link[node, other], 80 * (32 + body))
        yield self.env.timeout(self.distance[max(node, other)])
        if target in (EVERYONE, other):
            self.env.process(self._receive(number, other, body))
        if target != other:
            yield self.env.timeout(1_000_000)
            self._forward(number, other, node, target, body)


@pytest.mark.parametrize("seed", range(12))
def test_every_message_is_heard_when_the_model_says(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 30)
    tree = NetworkTree(
        (-1, *(random.randrange(max(0, node - 4), node) for node in range(1, count)))
    )
    distance = [random.choice((0, 0, random.randrange(5_000_000))) for _ in range(count)]
    sends = [
        (
            random.randrange(3_000_000),
            random.randrange(count),
            random.choice((EVERYONE, random.randrange(count))),
            random.randrange(20_000),
        )
        for _ in range(40)
    ]
    heard: Heard = []
    network = TreeNetwork(
        tree, lambda node, packet: heard.append((network.now, node, packet.message)), distance
    )
    for number, (at, source, target, body) in enumerate(sends):
        packet = Packet(source, target, DATA, number, 0)
        network.call(at, partial(network.send, packet, body))
    network.run()
    assert sorted(heard) == Model(tree, distance).run(sends)
    assert len(heard) >= len(sends)
