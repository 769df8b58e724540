"""Rebalancing: trade depth for load ([GS] §4.1, the step from Figure 5(a) to 5(b)).

One step takes a child x of a busy site p and hangs it below another child y of p, when
- every group whose messages travel from p to x has y as a member, so y becomes no extra site: it
  has these messages anyway, and the path from p to it is used by them already;
- y is in several groups: [GS]'s idea is to forward through sites in the intersections;
- y, with the sends it takes over, stays below the load that p had.
Ancestors only gain a site between them and x, so the forest stays correct. Steps are taken at the
busiest site until it cannot be relieved: the highest load falls, depth grows, no extra site comes.

The papers' figure is not in the text; by these rules 5(a)'s star at b turns into b → a, f, g, h
and a → c, d, e: load 8 instead of 11 at b, depth 2 instead of 1 for the group of five.
"""

import heapq
from collections.abc import Sequence

from ordercast.forest.forest import Forest, forest_of, numbers_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable


def rebalance(forest: Forest, table: GroupTable) -> Forest:
    indexed = IndexedTable.of(table)
    parent, primary = numbers_of(forest, indexed)
    moves = _Rebalance(indexed, parent, primary).run()
    detail = f"{forest.detail}; " if forest.detail else ""
    return forest_of(
        forest.builder, indexed, parent, primary, f"{detail}rebalanced by {moves} moves"
    )


class _Rebalance:
    def __init__(self, table: IndexedTable, parent: list[int], primary: Sequence[int]) -> None:
        self.table = table
        self.parent = parent
        self.member_of = [frozenset(groups) for groups in table.groups_of]
        self.children: list[set[int]] = [set() for _ in parent]
        for site, above in enumerate(parent):
            if above >= 0:
                self.children[above].add(site)
        self.carried = self._carried(primary)  # of each site: the groups on the edge into it
        self.load = self._load(primary)

    def _carried(self, primary: Sequence[int]) -> list[set[int]]:
        carried: list[set[int]] = [set() for _ in self.parent]
        for group, members in enumerate(self.table.members):
            for member in members:
                site = member
                while site != primary[group] and group not in carried[site]:
                    carried[site].add(group)
                    site = self.parent[site]
        return carried

    def _load(self, primary: Sequence[int]) -> list[float]:
        load = [0.0] * len(self.parent)
        for group, top in enumerate(primary):
            load[top] += self.table.weights[group]
        for site, groups in enumerate(self.carried):
            weight = self._weight(groups)
            load[site] += weight
            if self.parent[site] >= 0:
                load[self.parent[site]] += weight
        return load

    def _weight(self, groups: set[int]) -> float:
        return sum((self.table.weights[g] for g in sorted(groups)), 0.0)

    def run(self) -> int:
        """Relieve the busiest site until it cannot be relieved; how many moves that took."""
        total = 0
        busiest = [(-load, site) for site, load in enumerate(self.load)]
        heapq.heapify(busiest)
        while busiest:
            load, site = heapq.heappop(busiest)
            if -load != self.load[site]:
                continue  # out of date
            second = -busiest[0][0] if busiest else 0.0
            helped = self._relieve(site, second)
            if not helped:
                break
            total += len(helped)
            for changed in {site: None, **dict.fromkeys(helped)}:
                heapq.heappush(busiest, (-self.load[changed], changed))
        return total

    def _relieve(self, site: int, second: float) -> list[int]:
        """Move children away, most relief first, while `site` is the busiest. Returns the sites
        that took them."""
        helped = []
        relief = {x: self._weight(self.carried[x]) for x in self.children[site]}
        for x in sorted(relief, key=lambda x: (-relief[x], x)):
            if relief[x] <= 0 or self.load[site] < second:
                break
            y = self._relay(x, site)
            # An unfit y stays unfit in this pass: its load only grows, that of `site` only falls.
            if y >= 0 and self.load[y] + relief[x] < self.load[site]:
                self.children[site].remove(x)
                self.children[y].add(x)
                self.parent[x] = y
                self.load[site] -= relief[x]
                self.load[y] += relief[x]
                helped.append(y)
        return helped

    def _relay(self, x: int, site: int) -> int:
        """The idlest child of `site` that is a member of all that x is sent, or -1."""
        groups = self.carried[x]
        narrowest = min(groups, key=lambda g: (len(self.table.members[g]), g))
        fit = [
            y
            for y in self.table.members[narrowest]
            if y != x
            and self.parent[y] == site
            and len(self.member_of[y]) > 1
            and groups <= self.member_of[y]
        ]
        return min(fit, key=lambda y: (self.load[y], y), default=-1)
