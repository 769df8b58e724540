"""Better clusters by small moves: the load of every cluster under a cap, few groups across.

A cluster's head sends every message to each node that takes it and receives it once, so its load
is the work of its nodes plus the weight of the edges that touch it; on the bottom the head is one
of the nodes, which saves what it would send to itself. A group that is spread over t clusters
costs, compared with one inside a single cluster, a hop more, a relay where the clusters meet and
one in each further cluster: t + 1.

All moves are deterministic, and the work is bounded by the number of nodes, never by a clock.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from ordercast.forest.hypergraph import Hypergraph

_OVERLOAD = 8.0  # what a message above the cap costs, in hops or relays of one group
_FORBIDDEN = 1e9  # what a node above a fixed number costs
_WIDE = 16  # an edge in more clusters than that is no reason to move one of its nodes
_CHOICES = 3  # clusters tried for a node, those it shares most with first
_HOPELESS = 0.25  # with more of the clusters overloaded there is nowhere to push nodes to
_BUSY = (
    256  # a node with more edges is not pushed around, an edge with more nodes tells them no news
)
_ENOUGH = -1e-9


def _spread(clusters: int) -> int:
    return clusters + 1 if clusters > 1 else 0


def _most_shared(shared: dict[int, float]) -> list[int]:
    return sorted(shared, key=lambda cluster: (-shared[cluster], cluster))[:_CHOICES]


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    cap: float  # of a cluster's load, or of its number of nodes
    headed: bool = False  # the head is one of the nodes: at the bottom
    by_count: bool = False  # the load is the number of nodes: a fixed branching
    least: int = 1  # nodes that a cluster keeps


class Clusters:
    """Clusters of a hypergraph's nodes, with loads kept up to date as nodes move."""

    def __init__(self, graph: Hypergraph, label: Sequence[int], limits: ClusterLimits) -> None:
        self.graph = graph
        self.limits = limits
        self.label = list(label)
        self.members: list[dict[int, None]] = [{} for _ in range(max(label) + 1)]
        self.load = [0.0] * len(self.members)
        self.saved = [0.0] * len(self.members)  # by the head being one of the nodes
        self._as_heavy = [0] * len(self.members)  # nodes that save as much as the head
        self.spread: list[dict[int, int]] = []  # of each edge: its pins in each cluster it touches
        self._fresh = bytearray(b"\1") * graph.nodes  # nodes with news since they were last tried
        self._size = [1.0] * graph.nodes if limits.by_count else graph.work
        self._touch = 0.0 if limits.by_count else 1.0
        self._overload = _FORBIDDEN if limits.by_count else _OVERLOAD
        for node, cluster in enumerate(label):
            self.members[cluster][node] = None
            self.load[cluster] += self._size[node]
        for pins, weight in zip(graph.pins, graph.weights, strict=True):
            counts: dict[int, int] = {}
            for node in pins:
                cluster = label[node]
                counts[cluster] = counts.get(cluster, 0) + 1
            self.spread.append(counts)
            for cluster in counts:
                self.load[cluster] += weight * self._touch
        for cluster in range(len(self.members)):
            self._elect(cluster)

    def compact(self) -> tuple[list[int], int]:
        """Labels without gaps, in order of the clusters' first nodes, and their number."""
        number: dict[int, int] = {}
        label = [number.setdefault(cluster, len(number)) for cluster in self.label]
        return label, len(number)

    def cost(self) -> float:
        """The cost of groups that are spread over clusters, and of the overload."""
        weights = self.graph.weights
        spread = sum(
            [weights[e] * _spread(len(counts)) for e, counts in enumerate(self.spread)], 0.0
        )
        return spread + self._overload * sum([self._excess(c) for c in range(len(self.load))], 0.0)

    def loads(self) -> list[float]:
        return [load for load, nodes in zip(self.load, self.members, strict=True) if nodes]

    # -- one move ---------------------------------------------------------------------------

    def _elect(self, cluster: int) -> None:
        if self.limits.headed:
            sizes = [self._size[node] for node in self.members[cluster]]
            saved = max(sizes, default=0.0)
            self.load[cluster] += self.saved[cluster] - saved
            self.saved[cluster] = saved
            self._as_heavy[cluster] = sizes.count(saved)

    def _weigh(self, node: int, to: int) -> tuple[float, float, float]:
        """What moving the node costs, what its cluster loses and what `to` gains in load (without
        what the election of another head then saves: to look for that would cost more)."""
        at = self.label[node]
        weights, spread, touch = self.graph.weights, self.spread, self._touch
        cost = 0.0
        out = into = self._size[node]
        for edge in self.graph.edges_of[node]:
            counts = spread[edge]
            before = after = len(counts)
            if counts[at] == 1:
                after -= 1
                out += weights[edge] * touch
            if to not in counts:
                after += 1
                into += weights[edge] * touch
            if after != before:
                cost += weights[edge] * (_spread(after) - _spread(before))
        cap = self.limits.cap
        at_load, to_load = self.load[at], self.load[to]
        excess = max(0.0, at_load - out - cap) - max(0.0, at_load - cap)
        excess += max(0.0, to_load + into - cap) - max(0.0, to_load - cap)
        return cost + self._overload * excess, out, into

    def _move(self, node: int, to: int, out: float, into: float) -> None:
        at = self.label[node]
        for edge in self.graph.edges_of[node]:
            counts = self.spread[edge]
            if counts[at] == 1:
                del counts[at]
            else:
                counts[at] -= 1
            counts[to] = counts.get(to, 0) + 1
            if len(self.graph.pins[edge]) <= _BUSY:
                for other in self.graph.pins[edge]:
                    self._fresh[other] = 1
        self.label[node] = to
        del self.members[at][node]
        self.members[to][node] = None
        self.load[at] -= out
        self.load[to] += into
        if self.limits.headed:
            size = self._size[node]
            if size == self.saved[at]:
                self._as_heavy[at] -= 1
                if not self._as_heavy[at]:
                    self._elect(at)
            if size == self.saved[to]:
                self._as_heavy[to] += 1
            elif size > self.saved[to]:
                self._elect(to)

    def _reachable(self, node: int) -> tuple[dict[int, float], bool]:
        """The other clusters that the node's edges touch, by shared weight; and whether the node is
        the only one of some edge in its own cluster."""
        at = self.label[node]
        shared: dict[int, float] = {}
        alone = False
        for edge in self.graph.edges_of[node]:
            counts = self.spread[edge]
            if 1 < len(counts) <= _WIDE:
                weight = self.graph.weights[edge]
                alone = alone or counts[at] == 1
                for cluster in counts:
                    if cluster != at:
                        shared[cluster] = shared.get(cluster, 0.0) + weight
        return shared, alone

    # -- passes -----------------------------------------------------------------------------

    def improve(self, passes: int) -> None:
        """Move single nodes while that lowers the cost, overload included."""
        cap, least = self.limits.cap, self.limits.least
        for _ in range(passes):
            moved = False
            for node in range(self.graph.nodes):
                at = self.label[node]
                if not self._fresh[node] and self.load[at] <= cap:
                    continue
                self._fresh[node] = 0
                if len(self.members[at]) <= least:
                    continue
                shared, alone = self._reachable(node)
                if not shared or not (alone or self.load[at] > cap):
                    continue
                best = (_ENOUGH, -1, 0.0, 0.0)
                for to in _most_shared(shared):
                    cost, out, into = self._weigh(node, to)
                    if cost < best[0]:
                        best = (cost, to, out, into)
                if best[1] >= 0:
                    self._move(node, *best[1:])
                    moved = True
            if not moved:
                return

    def relieve(self) -> None:
        """Push what is above the cap from cluster to cluster until it finds room.

        The heaviest cluster gives away a node even where that overloads another, and does not take
        it back for a while; in the end the state with the least overload is restored.
        """
        over = {c: None for c, load in enumerate(self.load) if load > self.limits.cap}
        if len(over) > _HOPELESS * len(self.load):
            return
        steps = 16 + 16 * len(over)
        barred: dict[tuple[int, int], int] = {}
        undone: list[tuple[int, int]] = []  # moves since the best state: node, where it was
        excess = least_excess = sum((self.load[c] - self.limits.cap for c in over), 0.0)
        for step in range(steps):
            if not over:
                break
            at = max(over, key=lambda c: (self.load[c], -c))
            best: tuple[float, int, int, float, float] | None = None
            for node in self._movable(at):
                for to in self._nearest(node):
                    if barred.get((node, to), -1) < step:
                        cost, out, into = self._weigh(node, to)
                        if best is None or (cost, node, to) < best[:3]:
                            best = (cost, node, to, out, into)
            if best is None:
                del over[at]
                continue
            _, node, to, out, into = best
            excess -= self._excess(at) + self._excess(to)
            self._move(node, to, out, into)
            excess += self._excess(at) + self._excess(to)
            barred[node, at] = step + 16 + len(over)
            undone.append((node, at))
            for cluster in (at, to):
                if self._excess(cluster) > 0:
                    over[cluster] = None
                else:
                    over.pop(cluster, None)
            if excess < least_excess - 1e-6:
                least_excess = excess
                undone.clear()
        for node, at in reversed(undone):
            _, out, into = self._weigh(node, at)
            self._move(node, at, out, into)

    def _excess(self, cluster: int) -> float:
        return max(0.0, self.load[cluster] - self.limits.cap)

    def _movable(self, cluster: int) -> Iterator[int]:
        if len(self.members[cluster]) > self.limits.least:
            for node in self.members[cluster]:
                if len(self.graph.edges_of[node]) <= _BUSY:
                    yield node

    def _nearest(self, node: int) -> list[int]:
        return _most_shared(self._reachable(node)[0])

    def pair_up(self) -> None:
        """Move nodes of clusters that have fewer than the least to where they share most."""
        least = self.limits.least
        for at in range(len(self.members)):
            if 0 < len(self.members[at]) < least:
                for node in list(self.members[at]):
                    shared, _ = self._reachable(node)
                    others = _most_shared(shared) or [c for c in self._touched(node) if c != at]
                    _, out, into = self._weigh(node, others[0])
                    self._move(node, others[0], out, into)

    def _touched(self, node: int) -> list[int]:
        return sorted({c for edge in self.graph.edges_of[node] for c in self.spread[edge]})

    def gather_strays(self) -> None:
        """Move the pieces of a cluster that share no edge with the rest of it to the clusters that
        they share most with."""
        for at in range(len(self.members)):
            pieces = sorted(self._pieces(at), key=len)
            for piece in pieces[:-1]:
                shared: dict[int, float] = {}
                for node in piece:
                    for cluster, weight in self._reachable(node)[0].items():
                        shared[cluster] = shared.get(cluster, 0.0) + weight
                if shared and len(self.members[at]) - len(piece) >= self.limits.least:
                    to = _most_shared(shared)[0]
                    for node in piece:
                        _, out, into = self._weigh(node, to)
                        self._move(node, to, out, into)

    def _pieces(self, cluster: int) -> Iterator[list[int]]:
        """The nodes of a cluster in connected pieces, by the edges between them (but wide ones)."""
        waiting = dict(self.members[cluster])
        while waiting:
            piece = [waiting.popitem()[0]]
            used: dict[int, None] = {}
            for node in piece:  # grows while it is read: a breadth-first search
                for edge in self.graph.edges_of[node]:
                    pins = self.graph.pins[edge]
                    if edge in used or len(pins) > _BUSY or self.spread[edge][cluster] == 1:
                        continue
                    used[edge] = None
                    for other in pins:
                        if other in waiting:
                            del waiting[other]
                            piece.append(other)
            yield piece

    def split(self) -> None:
        """Give each overloaded cluster a new one beside it that takes what is too much."""
        least = self.limits.least
        for at in count():
            if at == len(self.members):  # new ones included: they may be overloaded as well
                return
            if self._excess(at) <= 0 or len(self.members[at]) < 2 * least:
                continue
            to = len(self.members)
            self.members.append({})
            self.load.append(0.0)
            self.saved.append(0.0)
            self._as_heavy.append(0)
            alike = self._alike(at)
            while len(self.members[at]) > least and (
                self._excess(at) > 0 or len(self.members[to]) < least
            ):
                _, node, out, into, kind = min(
                    (cost, nodes[-1], out, into, kind)
                    for kind, nodes in alike.items()
                    for cost, out, into in [self._weigh(nodes[-1], to)]
                )
                alike[kind].pop()
                if not alike[kind]:
                    del alike[kind]
                self._move(node, to, out, into)

    def _alike(self, cluster: int) -> dict[tuple[float, tuple[int, ...]], list[int]]:
        """The nodes of a cluster, by the facts that their weighing depends on, with the first node
        at the end. Of nodes with equal facts one is weighed for all."""
        found: dict[tuple[float, tuple[int, ...]], list[int]] = {}
        for node in sorted(self.members[cluster], reverse=True):
            kind = (self._size[node], tuple(self.graph.edges_of[node]))
            found.setdefault(kind, []).append(node)
        return found

    def merge(self) -> None:
        """Join clusters that fit into one, those that share most first."""
        while True:
            shared: dict[tuple[int, int], float] = {}
            for edge, counts in enumerate(self.spread):
                if 1 < len(counts) <= _WIDE:
                    clusters = sorted(counts)
                    for i, one in enumerate(clusters):
                        for other in clusters[i + 1 :]:
                            pair = one, other
                            shared[pair] = shared.get(pair, 0.0) + self.graph.weights[edge]
            merged: dict[int, None] = {}
            for one, other in sorted(shared, key=lambda pair: (-shared[pair], pair)):
                if one not in merged and other not in merged and self._fit(one, other):
                    merged[one] = merged[other] = None
                    for node in list(self.members[other]):
                        _, out, into = self._weigh(node, one)
                        self._move(node, one, out, into)
            if not merged:
                return

    def _fit(self, one: int, other: int) -> bool:
        joint = self.load[one] + self.load[other] + min(self.saved[one], self.saved[other])
        if joint <= self.limits.cap:
            return True
        for edge in {e: None for node in self.members[other] for e in self.graph.edges_of[node]}:
            if one in self.spread[edge]:
                joint -= self.graph.weights[edge] * self._touch
        return joint <= self.limits.cap
