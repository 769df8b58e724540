"""`s_coordp` ([STAB] §4.1): `coordp` on a spanning tree.

Round 1: the root multicasts START. Round 2: each leaf sends its array to its parent. Rounds 3 to
p + 1: an inner member that has heard from all its children sends the least of their arrays and its
own to its parent. Round p + 2: the root multicasts the least of all as INFO. No member gets ACKs
from more than its children. (`full_dist` on a tree would be the same: a multicast among siblings
tells their parent no more than one ACK.)
"""

from collections.abc import Sequence

from ordercast.core.stability.arrays import A
from ordercast.core.stability.gathering import Gathering
from ordercast.core.stability.rounds import N


class StructuredCoordP(Gathering[N, A]):
    __slots__ = ()

    def _sources(self) -> Sequence[N]:
        return self.paths.children[self.name]

    def _next(self) -> N:
        return self.paths.parent[self.name]
