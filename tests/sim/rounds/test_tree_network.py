"""The cost model of [STAB] §5.1: every nanosecond of small cases, worked out by hand."""

from collections.abc import Sequence

from ordercast.sim.rounds.tree import NetworkTree, filled
from ordercast.sim.rounds.tree_network import (
    ACK,
    DATA,
    EVERYONE,
    INFO,
    CostModel,
    Packet,
    TreeNetwork,
)

MS = 1_000_000
CHAIN = filled(3, 1)  # 0 - 1 - 2
STAR = filled(4, 3)  # 1, 2 and 3 below 0


class Run:
    """Packets sent at time 0, and what is heard of them: (time, node, source)."""

    def __init__(self, tree: NetworkTree, distance: Sequence[int] = ()) -> None:
        self.heard: list[tuple[int, int, int]] = []
        self.network = TreeNetwork(tree, self._hear, distance)

    def _hear(self, node: int, packet: Packet) -> None:
        self.heard.append((self.network.now, node, packet.source))

    def send(self, source: int, target: int, body: int = 0, kind: int = ACK) -> "Run":
        self.network.send(Packet(source, target, kind, None, 1), body)
        return self

    def run(self) -> list[tuple[int, int, int]]:
        self.network.run()
        return self.heard


def test_the_papers_times() -> None:
    costs = CostModel()
    assert costs.send(400) == 385_000  # 338 + 47 · 400/400 microseconds
    assert costs.receive(400) == 423_500  # a tenth more
    assert costs.byte_on_link * 12_500_000 == 1_000_000_000  # 100 Mbps


def times(body: int) -> tuple[int, int, int]:
    costs = CostModel()
    size = 32 + body
    return costs.send(size), costs.byte_on_link * size, costs.receive(size)


def test_one_hop_takes_a_processor_a_link_and_a_processor() -> None:
    sending, link, receiving = times(4_000)
    assert Run(CHAIN).send(1, 0, 4_000).run() == [(sending + link + receiving, 0, 1)]


def test_a_node_that_only_forwards_takes_a_router_and_no_processor() -> None:
    sending, link, receiving = times(0)
    run = Run(CHAIN).send(2, 0)
    assert run.run() == [(sending + 2 * link + MS + receiving, 0, 2)]
    assert run.network.longest_cpu == 1


def test_to_itself_a_member_sends_past_the_links() -> None:
    sending, _, receiving = times(0)
    run = Run(CHAIN).send(1, 1)
    assert run.run() == [(sending + receiving, 1, 1)]
    assert run.network.hops == [0, 0, 0, 0]


def test_a_multicast_is_sent_once_copied_at_nodes_and_heard_by_its_sender() -> None:
    sending, link, receiving = times(100)
    run = Run(CHAIN).send(0, EVERYONE, 100, INFO)
    assert run.run() == [
        (sending + receiving, 0, 0),
        (sending + link + receiving, 1, 0),
        (sending + 2 * link + MS + receiving, 2, 0),
    ]
    assert run.network.hops == [0, 0, 2, 0]


def test_a_multicast_from_a_leaf_reaches_all_by_every_link_once() -> None:
    run = Run(STAR).send(2, EVERYONE, 0, DATA)
    assert sorted(node for _, node, _ in run.run()) == [0, 1, 2, 3]
    assert run.network.hops == [0, 0, 0, 3]


def test_a_processor_receives_one_message_at_a_time() -> None:
    sending, link, receiving = times(0)
    run = Run(STAR).send(1, 0).send(2, 0).send(3, 0)
    first = sending + link + receiving
    assert [at for at, *_ in run.run()] == [first, first + receiving, first + 2 * receiving]
    assert (run.network.longest_cpu, run.network.longest_link) == (3, 1)


def test_a_processor_sends_one_message_at_a_time() -> None:
    sending, link, receiving = times(0)
    run = Run(STAR).send(0, 1).send(0, 2)
    assert [at for at, *_ in run.run()] == [
        sending + link + receiving, 2 * sending + link + receiving,
    ]  # fmt: skip


def test_a_link_carries_one_message_at_a_time_in_each_direction() -> None:
    """Both children of 1 send at once to 0: their messages wait for each other on the last link."""
    tree = NetworkTree((-1, 0, 1, 1))
    sending, link, receiving = times(60_000)  # so long that the link is busy when the other comes
    run = Run(tree).send(2, 0, 60_000).send(3, 0, 60_000).send(0, 1, 60_000)
    arrivals = {(node, source): at for at, node, source in run.run()}
    assert arrivals[1, 0] == sending + link + receiving  # the other direction is free
    assert arrivals[0, 2] == sending + 2 * link + MS + receiving
    assert arrivals[0, 3] == arrivals[0, 2] + max(link, receiving)
    assert run.network.longest_link == 2


def test_what_leaves_a_link_makes_room_before_what_comes_at_the_same_instant() -> None:
    """Messages that follow each other on one link follow each other on the next: no queue."""
    run = Run(CHAIN)
    for _ in range(3):
        run.send(2, 0, 100_000)
    run.run()
    assert run.network.longest_link == 1


def test_distance_delays_what_arrives_but_not_the_next_message() -> None:
    sending, link, receiving = times(60_000)
    far = 40 * MS
    run = Run(filled(2, 1), distance=[0, far]).send(1, 0, 60_000).send(1, 0, 60_000)
    first, second = (at for at, *_ in run.run())
    assert first == sending + link + far + receiving
    assert second == first + max(sending, link, receiving)
    assert run.network.longest_link == 1


def test_messages_between_two_members_stay_in_order() -> None:
    run = Run(filled(40, 3))
    order: list[int] = []
    run.network.hear = lambda _, packet: order.append(packet.depth)
    for number in range(20):
        run.network.send(Packet(39, 17, ACK, None, number), body=(number * 977) % 5_000)
    run.run()
    assert order == list(range(20))


def test_a_run_can_stop_at_a_time_and_go_on() -> None:
    run = Run(CHAIN).send(2, 0)
    run.network.run(until=MS)
    assert run.heard == []
    calls: list[int] = []
    run.network.call(5 * MS, lambda: calls.append(run.network.now))
    run.network.run()
    assert len(run.heard) == 1
    assert calls == [5 * MS]
