"""S_FullDist ([STAB] §4.1): `full_dist` on a spanning tree, which the paper drops at once.

A member that has heard from its children multicasts the least array in its subgroup: to its parent
and to the parent's other children. Only the parent waits for it. So it is `s_coordp` with messages
that nobody uses, and it lives here, to show that.
"""

from collections.abc import Sequence

from ordercast.core.stability.arrays import A
from ordercast.core.stability.rounds import AckMessage, N
from ordercast.core.stability.s_coordp import StructuredCoordP


class StructuredFullDist(StructuredCoordP[N, A]):
    __slots__ = ()

    def _report(self) -> None:
        least = self.arrays.least([self.member.received(), *self._heard.values()])
        super()._report()
        if self.name != self.paths.first:
            for sibling in self._siblings():
                self.member.send(sibling, AckMessage(self.round, least))

    def _siblings(self) -> Sequence[N]:
        parent = self.paths.parent[self.name]
        return [name for name in self.paths.children[parent] if name != self.name]
