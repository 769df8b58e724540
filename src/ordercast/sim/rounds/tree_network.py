"""The network of [STAB] §5.1: hosts at the nodes of a tree, links that store and forward.

Our reading of it (errata STAB-4): a host's processor does one thing at a time, sending (t_s) or
receiving (t_r); what a node only forwards spends a millisecond in its router and costs the
processor nothing; a link carries one message at a time in each direction, at 100 Mbps; a multicast
is copied at the nodes. A message has a header of 32 bytes. A sender receives its own multicast
without a link. On wide-area links a message also takes the time of the distance.

Every queue is first in, first out. At one instant, everything that ends comes before anything that
begins.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

from ordercast.sim.rounds.tree import NetworkTree

EVERYONE = -1  # the target of a multicast
START, ACK, INFO, DATA = range(4)  # kinds of messages that are counted apart

_DONE, _ARRIVED, _ENTERS, _CALL = range(4)  # what happens first at the same instant
_WHOLE, _CAME, _LEFT = range(3)  # an arrival: off the link too; after the distance; off the link


@dataclass(frozen=True, slots=True)
class CostModel:
    """In nanoseconds and bytes."""

    header: int = 32
    byte_on_link: int = 80  # 100 Mbps
    router: int = 1_000_000

    def send(self, size: int) -> int:
        """t_s(u) = 338 + 47u/400 microseconds."""
        return 338_000 + 235 * size // 2

    def receive(self, size: int) -> int:
        """A tenth more."""
        return 11 * self.send(size) // 10


class Packet:
    """A message under way. `depth`: one more than the longest chain of messages before it."""

    __slots__ = (
        "depth", "hop", "jobs", "kind", "message", "receiving", "route", "sending", "source",
        "target", "transmission",
    )  # fmt: skip

    def __init__(self, source: int, target: int, kind: int, message: Any, depth: int) -> None:
        self.source = source
        self.target = target
        self.kind = kind
        self.message = message
        self.depth = depth
        self.route: list[int] = []
        self.hop = 0
        self.sending = self.receiving = self.transmission = 0
        # Jobs of processors, 0 to receive and 1 to send: all processors share these two objects.
        self.jobs = ((self, 0), (self, 1))


class TreeNetwork:
    """Link v goes from node v up to its parent, link n + v down to it. `distance`: nanoseconds by
    node, of the link to its parent. `hear(node, packet)` is called when a host has received."""

    def __init__(
        self,
        tree: NetworkTree,
        hear: Callable[[int, Packet], None],
        distance: Sequence[int] = (),
        costs: CostModel | None = None,
    ) -> None:
        n = tree.count
        self.tree = tree
        self.hear = hear
        self.costs = CostModel() if costs is None else costs
        self.now = 0
        self.hops = [0, 0, 0, 0]  # by kind
        self.longest_link = 0
        self.longest_cpu = 0
        self._distance = [*distance, *distance] if distance else [0] * (2 * n)
        self._head = [*tree.parent, *range(n)]
        self._out = [
            [*([node] if node else []), *(n + child for child in tree.children[node])]
            for node in range(n)
        ]
        self._on_link = [0] * (2 * n)  # waiting or being transmitted
        self._at_cpu = [0] * n
        # Waiting messages are not in the heap, which would grow with the square of n.
        self._link_waits: defaultdict[int, deque[Packet]] = defaultdict(deque)
        self._cpu_waits: defaultdict[int, deque[tuple[Packet, int]]] = defaultdict(deque)
        # What happens at each time: in a regular tree much happens at the same time.
        self._times: list[int] = []
        self._agenda: dict[int, list[tuple[int, Any, int]]] = {}

    def send(self, packet: Packet, body: int) -> None:
        """The source's processor takes it up when it is free."""
        size = self.costs.header + body
        packet.transmission = self.costs.byte_on_link * size
        packet.sending = self.costs.send(size)
        packet.receiving = self.costs.receive(size)
        if packet.target >= 0:
            packet.route = self._way(packet.source, packet.target)
        self._process(packet.source, packet, sends=1)

    def call(self, at: int, what: Callable[[], None]) -> None:
        """Call it at that time, after all other things of that time."""
        self._note(at << 2 | _CALL, 0, what, 0)

    def _note(self, key: int, place: int, packet: Any, extra: int) -> None:
        if key in self._agenda:
            self._agenda[key].append((place, packet, extra))
        else:
            self._agenda[key] = [(place, packet, extra)]
            heappush(self._times, key)

    def _process(self, node: int, packet: Packet, sends: int) -> None:
        self._at_cpu[node] += 1
        if self._at_cpu[node] > 1:
            self.longest_cpu = max(self.longest_cpu, self._at_cpu[node])
            self._cpu_waits[node].append(packet.jobs[sends])
            return
        self.longest_cpu = max(self.longest_cpu, 1)
        done = self.now + (packet.sending if sends else packet.receiving)
        self._note(done << 2, node, packet, sends)

    def _way(self, source: int, target: int) -> list[int]:
        """The links from node to node: up to where the ways meet, then down."""
        n, parent, depth = self.tree.count, self.tree.parent, self.tree.depth
        up, down = [], []
        while source != target:
            if depth[source] >= depth[target]:
                up.append(source)
                source = parent[source]
            else:
                down.append(n + target)
                target = parent[target]
        return up + down[::-1]

    def run(
        self, until: int | None = None, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """To the end, or to the first thing after `until`. `progress` hears of the time and of the
        messages on hops now and then."""
        times, agenda = self._times, self._agenda
        steps = (self._done, self._arrived, self._entering, self._called)
        last = -1 if until is None else until << 2 | _CALL
        while times:
            if 0 <= last < times[0]:
                return
            key = heappop(times)
            self.now = key >> 2
            steps[key & 3](agenda.pop(key))
            if progress is not None:
                progress(self.now, sum(self.hops))

    def _done(self, events: list[tuple[int, Packet, int]]) -> None:
        """Processors have sent or received, and take up what waits for them."""
        now, agenda, at_cpu, hear = self.now, self._agenda, self._at_cpu, self.hear
        for node, packet, sent in events:
            at_cpu[node] -= 1
            if at_cpu[node]:
                following, sends = self._cpu_waits[node].popleft()
                key = (now + (following.sending if sends else following.receiving)) << 2
                if key in agenda:
                    agenda[key].append((node, following, sends))
                else:
                    self._note(key, node, following, sends)
            if not sent:
                hear(node, packet)
                continue
            if packet.target < 0 or packet.target == node:
                self._process(node, packet, 0)
            if packet.target != node:
                self._note(now << 2 | _ENTERS, node, packet, -1)

    def _arrived(self, events: list[tuple[int, Packet, int]]) -> None:
        """Links have carried a message to their end."""
        now, n, out = self.now, self.tree.count, self._out
        at_cpu, on_link = self._at_cpu, self._on_link
        onwards = (now + self.costs.router) << 2 | _ENTERS
        longest = self.longest_cpu
        for link, packet, way in events:
            if way != _CAME:
                on_link[link] -= 1
                if on_link[link]:
                    self._transmit(link, self._link_waits[link].popleft())
                if way == _LEFT:
                    continue
            node = self._head[link]
            target = packet.target
            if target < 0 or target == node:
                if at_cpu[node]:
                    at_cpu[node] += 1
                    self._cpu_waits[node].append(packet.jobs[0])
                    if at_cpu[node] > longest:
                        longest = at_cpu[node]
                else:
                    self._process(node, packet, 0)
                if target == node or len(out[node]) == 1:
                    continue
            self._note(onwards, node, packet, link + n if link < n else link - n)
        self.longest_cpu = max(longest, self.longest_cpu)

    def _entering(self, events: list[tuple[int, Packet, int]]) -> None:
        """Messages leave nodes, but not by the link that they came from."""
        for node, packet, back in events:
            if packet.target < 0:
                links = self._out[node]
            else:
                links = [packet.route[packet.hop]]
                packet.hop += 1
            for link in links:
                if link == back:
                    continue
                self.hops[packet.kind] += 1
                self._on_link[link] += 1
                if self._on_link[link] > 1:
                    self._link_waits[link].append(packet)
                else:
                    self._transmit(link, packet)
                if self._on_link[link] > self.longest_link:
                    self.longest_link = self._on_link[link]

    def _transmit(self, link: int, packet: Packet) -> None:
        end, far = self.now + packet.transmission, self._distance[link]
        if not far:
            self._note(end << 2 | _ARRIVED, link, packet, _WHOLE)
        else:
            self._note(end << 2 | _ARRIVED, link, packet, _LEFT)
            self._note((end + far) << 2 | _ARRIVED, link, packet, _CAME)

    @staticmethod
    def _called(events: list[tuple[int, Callable[[], None], int]]) -> None:
        for _, what, _ in events:
            what()
