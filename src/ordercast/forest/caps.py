"""Caps of the load: the one that suits a table best, by trying, on a sample of a large table.

Caps are steps of a ladder, each 1.4 times the one below. They are tried from high to low, every
second one, until costs rise; then the ones in between. High caps are cheap to try, and costs as a
rule fall and then rise.
"""

from collections.abc import Iterable
from dataclasses import replace

from ordercast.forest.grower import Grower, Grown
from ordercast.forest.levels import Shape
from ordercast.forest.metrics import Cost
from ordercast.forest.sample import is_large, sample_of

_LOWEST_CAP = 10.0
_PATIENCE = 2  # caps in a row that may cost more before lower ones are given up
_CLEARLY = 1.01  # times the lowest cost, above which they are given up at once
_SMALL = 32  # sites of a domain that may become a single flat part, whatever its load


def grow_cheapest(grower: Grower, cost: Cost, fixed: Shape) -> Grown:
    """The forest that costs least; what `fixed` says holds for all that are tried."""
    sample = sample_of(grower.table, grower.domains)
    if sample is None:
        trials = _Trials(grower, cost, fixed)
        trials.descend()
        return trials.kept[trials.best()]
    trials = _Trials(Grower(sample, grower.partitioner), cost, fixed)
    trials.descend()
    return _like_sample(grower, cost, trials)


def _like_sample(grower: Grower, cost: Cost, trials: "_Trials") -> Grown:
    """The sample's choice for the whole table.

    If the sample could not keep to a cap, the whole exceeds it by more, because it has more levels:
    such a cap is tried on the whole before it is preferred.
    """
    kept = [step for step, grown in trials.kept.items() if grown.within_cap]
    sure = trials.best(kept or None)
    grown = grower.grow(trials.shape(sure))
    doubtful = sorted(s for s in trials.price if trials.price[s] < trials.price[sure])
    if doubtful:
        price = cost(grower.table, grown.parent, grown.primary)
        for step in reversed(doubtful):
            other = grower.grow(trials.shape(step))
            lower = cost(grower.table, other.parent, other.primary)
            if lower >= price:
                break
            grown, price = other, lower
    return grown


class _Trials:
    """Forests of several caps on the same table, by steps of the ladder."""

    def __init__(self, grower: Grower, cost: Cost, fixed: Shape) -> None:
        self.price: dict[int, float] = {}
        self.kept: dict[int, Grown] = {}
        self._grower = grower
        self._cost = cost
        self._fixed = fixed

    def best(self, among: Iterable[int] | None = None) -> int:
        return min(among or self.price, key=lambda step: (self.price[step], -step))

    def shape(self, step: int) -> Shape:
        return replace(self._fixed, cap=_cap(step))

    def descend(self) -> None:
        highest = _highest_step(self._grower)
        patience = 1 if is_large(self._grower.table) else _PATIENCE
        worse = 0
        for step in range(highest, -1, -2):
            self._try(step)
            price, lowest = self.price[step], self.price[self.best()]
            worse = worse + 1 if price > lowest else 0
            if worse == patience or price > _CLEARLY * lowest:
                break
        best = self.best()
        for step in (best + 1, best - 1):
            if 0 <= step <= highest and step not in self.price:
                self._try(step)

    def _try(self, step: int) -> None:
        grown = self._grower.grow(self.shape(step))
        self.kept[step] = grown
        self.price[step] = self._cost(self._grower.table, grown.parent, grown.primary)


def _cap(step: int) -> float:
    return _LOWEST_CAP * (1 << step // 2) * (2**0.5 if step % 2 else 1.0)


def _highest_step(grower: Grower) -> int:
    """The first cap at which all is flat; but a large domain is parted at least once."""
    if not grower.domains:
        return 0
    largest = max(grower.domains, key=lambda domain: domain.graph.flat_load).graph
    parted = largest.nodes > _SMALL
    step = 0
    while _cap(step) < largest.flat_load / (2 if parted else 1):
        step += 1
    return max(0, step - parted)
