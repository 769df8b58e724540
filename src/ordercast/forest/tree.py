"""Rooted trees on numbers: preorder, depth and lowest common ancestors.

Ancestors are found by jumping along heavy chains (each site continues the chain of its largest
child), at most log2(n) jumps, so a path of ten thousand sites costs no more than a bush.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tree:
    """A forest given by parents (-1: a root); roots hang below an imaginary -1."""

    parent: Sequence[int]
    preorder: Sequence[int]
    enter: Sequence[int]  # of each site: its place in preorder
    depth: Sequence[int]  # a root has 0
    chain: Sequence[int]  # the topmost site of each site's heavy chain

    @classmethod
    def of(cls, parent: Sequence[int]) -> "Tree":
        count = len(parent)
        children: list[list[int]] = [[] for _ in range(count)]
        roots: list[int] = []
        for site, above in enumerate(parent):
            (roots if above < 0 else children[above]).append(site)
        order: list[int] = []
        stack = roots[::-1]
        depth = [0] * count
        while stack:
            site = stack.pop()
            order.append(site)
            for child in reversed(children[site]):
                depth[child] = depth[site] + 1
                stack.append(child)
        if len(order) != count:
            raise ValueError("the parents form a cycle")
        size = [1] * count
        heavy = [-1] * count
        for site in reversed(order):
            above = parent[site]
            if above >= 0:
                size[above] += size[site]
                if heavy[above] < 0 or size[site] > size[heavy[above]]:
                    heavy[above] = site
        enter, chain = [0] * count, list(range(count))
        for place, site in enumerate(order):
            enter[site] = place
            if heavy[site] >= 0:
                chain[heavy[site]] = chain[site]
        return cls(parent, order, enter, depth, chain)

    def common_ancestor(self, a: int, b: int) -> int:
        """The lowest site above (or equal to) both; -1 when they are in different trees."""
        chain, depth, parent = self.chain, self.depth, self.parent
        while (top_a := chain[a]) != (top_b := chain[b]):
            if depth[top_a] >= depth[top_b]:
                a = parent[top_a]
                if a < 0:  # both chains begin at a root, and not at the same one
                    return -1
            else:
                b = parent[top_b]
        return a if depth[a] <= depth[b] else b
