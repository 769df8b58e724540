"""Which site heads each cluster: from levels of clusters to a tree of sites.

A part's head is the site in most of its groups: fewest relays, least to send. The head of an upper
cluster is taken out of the parts below, and all its groups rise with it: groups that cross there
anyway save a relay, groups that lay inside one child take more hops. So it should be in many of the
first and few of the second, and never a part's head as well, or their loads would add up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ordercast.forest.hypergraph import Hypergraph

_TRIED = 12  # sites weighed exactly for each upper head


@dataclass(frozen=True, slots=True)
class _Slots:
    """The tree of clusters, those with a single child left out; the parts come first."""

    parent: list[int]  # -1: the root
    depth: list[int]

    @classmethod
    def of(cls, labels: Sequence[Sequence[int]]) -> "_Slots":
        parts = max(labels[0]) + 1
        parent = [-1] * parts
        current = list(range(parts))  # the slot of each cluster of the level
        for label in labels[1:]:
            children: list[list[int]] = [[] for _ in range(max(label) + 1)]
            for cluster, above in enumerate(label):
                children[above].append(current[cluster])
            current = []
            for slots in children:
                if len(slots) == 1:
                    current.append(slots[0])
                    continue
                for slot in slots:
                    parent[slot] = len(parent)
                current.append(len(parent))
                parent.append(-1)
        depth = [0] * len(parent)
        for slot in range(len(parent) - 1, -1, -1):  # a parent has a higher number
            if parent[slot] >= 0:
                depth[slot] = depth[parent[slot]] + 1
        return cls(parent, depth)

    def top(self, slots: Sequence[int]) -> int:
        top = slots[0]
        for slot in slots[1:]:
            while top != slot:
                if self.depth[slot] >= self.depth[top]:
                    slot = self.parent[slot]
                else:
                    top = self.parent[top]
        return top


def tree_of(graph: Hypergraph, labels: Sequence[Sequence[int]]) -> list[int]:
    """The parent of each node (-1: the root), given the labels of the levels from the bottom."""
    return _Heads(graph, labels).tree()


class _Heads:
    def __init__(self, graph: Hypergraph, labels: Sequence[Sequence[int]]) -> None:
        self.graph = graph
        self.part = labels[0]
        self.slots = _Slots.of(labels)
        self.parts = max(self.part) + 1
        self.head = [-1] * len(self.slots.parent)
        self.promoted = [False] * self.graph.nodes
        self.spread: list[dict[int, int]] = []  # of each edge: its pins in each part
        self.top: list[int] = []  # of each edge: the slot where its parts meet
        known: dict[tuple[int, ...], int] = {}
        for pins in self.graph.pins:
            counts: dict[int, int] = {}
            for node in pins:
                counts[self.part[node]] = counts.get(self.part[node], 0) + 1
            key = tuple(counts)
            if key not in known:
                known[key] = self.slots.top(key)
            self.spread.append(counts)
            self.top.append(known[key])
        # Nodes not promoted less slots without a head, below each slot: never below 0, so every
        # slot finds a head. It holds because a part has two nodes and an upper slot two children.
        self.spare = self._spare()

    def _spare(self) -> list[int]:
        spare = [-1] * len(self.slots.parent)
        for part in self.part:
            spare[part] += 1
        for slot, above in enumerate(self.slots.parent):
            if above >= 0:
                spare[above] += spare[slot]
        return spare

    def tree(self) -> list[int]:
        self._promote()
        work, part = self.graph.work, self.part
        for node in range(self.graph.nodes):
            if not self.promoted[node]:
                chosen = self.head[part[node]]
                if chosen < 0 or work[node] > work[chosen]:
                    self.head[part[node]] = node
        parent = [-1] * self.graph.nodes
        for node in range(self.graph.nodes):
            if not self.promoted[node] and self.head[part[node]] != node:
                parent[node] = self.head[part[node]]
        for slot, above in enumerate(self.slots.parent):
            if above >= 0:
                parent[self.head[slot]] = self.head[above]
        return parent

    def _promote(self) -> None:
        candidates = self._candidates()
        for slot in range(len(self.slots.parent) - 1, self.parts - 1, -1):
            rough = candidates[slot - self.parts]
            work = self.graph.work
            likely = sorted(
                (node for node in rough if self._available(node, slot)),
                key=lambda node: (work[node] - 2 * rough[node], node),
            )[:_TRIED]
            if not likely:
                likely = [n for n in range(self.graph.nodes) if self._available(n, slot)][:_TRIED]
            chosen = max(likely, key=lambda node: (self._gain(node, slot), -node))
            self._take(chosen, slot)

    def _candidates(self) -> list[dict[int, float]]:
        """For each upper slot the nodes whose groups pass through it, with their weight."""
        parent, top = self.slots.parent, self.top
        found: list[dict[int, float]] = [{} for _ in range(len(parent) - self.parts)]
        for edge, pins in enumerate(self.graph.pins):
            if top[edge] < self.parts:
                continue
            weight = self.graph.weights[edge]
            for node in pins:
                slot = self.part[node]
                while slot != top[edge]:
                    slot = parent[slot]
                    passing = found[slot - self.parts]
                    passing[node] = passing.get(node, 0.0) + weight
        return found

    def _available(self, node: int, slot: int) -> bool:
        if self.promoted[node]:
            return False
        below = self.part[node]
        while below != slot:
            if below < 0 or self.spare[below] < 1:
                return False
            below = self.slots.parent[below]
        return True

    def _gain(self, node: int, slot: int) -> float:
        """Relays and hops that the groups of the node are spared when it heads the slot."""
        depth, parent = self.slots.depth, self.slots.parent
        gain = 0.0
        for edge in self.graph.edges_of[node]:
            risen = depth[self.top[edge]] - depth[slot]
            if risen > 0:  # it lay below: a hop for each level, a relay for all but the last
                gain -= self.graph.weights[edge] * (2 * risen - 1)
                continue
            spared = 1
            if self.spread[edge].get(self.part[node]) == 1:
                spared += 1
                if len(self.spread[edge]) > 1 and parent[self.part[node]] != slot:
                    spared += self._passed_alone(node, edge, slot)
            gain += self.graph.weights[edge] * spared
        return gain

    def _passed_alone(self, node: int, edge: int, slot: int) -> int:
        """Upper slots between the node's part and `slot` that only this node's part needs."""
        parent = self.slots.parent
        others = {part for part in self.spread[edge] if part != self.part[node]}
        used: set[int] = set()
        for part in sorted(others):
            above = parent[part]
            while above >= 0 and above not in used:
                used.add(above)
                above = parent[above]
        count = 0
        above = parent[self.part[node]]
        while above != slot and above not in used:
            count += 1
            above = parent[above]
        return count

    def _take(self, node: int, slot: int) -> None:
        self.head[slot] = node
        self.promoted[node] = True
        below = self.part[node]
        while below != slot:
            self.spare[below] -= 1
            below = self.slots.parent[below]
        for edge in self.graph.edges_of[node]:
            if self.slots.depth[slot] < self.slots.depth[self.top[edge]]:
                self.top[edge] = slot
            counts = self.spread[edge]
            counts[self.part[node]] -= 1
