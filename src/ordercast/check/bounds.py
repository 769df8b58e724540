"""Bounds: no queue, buffer or replay ever grew past its limit.

An observer notes sizes as they change. What a size is of, only the observer knows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from ordercast.check.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Bound:
    """How large something named was seen to be, and how large it may be."""

    name: str
    value: int
    limit: int

    @property
    def broken(self) -> bool:
        return self.value > self.limit

    @property
    def excess(self) -> tuple[Fraction, str]:
        """Larger for what is worse: relative to the limit, then by name."""
        return (Fraction(self.value, max(self.limit, 1)), self.name)


@dataclass(slots=True)
class HighWater:
    """The highest value seen of each thing that is watched; `note` is cheap."""

    marks: dict[str, Bound] = field(default_factory=dict)

    def note(self, name: str, value: int, limit: int) -> None:
        known = self.marks.get(name)
        if known is None or value > known.value or limit != known.limit:
            self._keep(Bound(name, value, limit), known)

    def _keep(self, seen: Bound, known: Bound | None) -> None:
        """A limit may change while watched: a mark above the limit of its time is never lost."""
        if known is None or (seen.broken, seen.excess) > (known.broken, known.excess):
            self.marks[seen.name] = seen


def check_bounds(observations: Iterable[Bound]) -> Verdict:
    """Observations above their limit; the witness is the one furthest above."""
    broken = [seen for seen in observations if seen.broken]
    if not broken:
        return Verdict("bounds", 0)
    worst = max(broken, key=lambda seen: seen.excess)
    witness = {"name": worst.name, "value": worst.value, "limit": worst.limit}
    return Verdict("bounds", len(broken), witness)


def check_high_water(marks: HighWater) -> Verdict:
    """Things that at any time were above their limit."""
    return check_bounds(marks.marks.values())
