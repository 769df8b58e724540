"""The result of a check: the number of violations, and the smallest witness of one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ordercast.history.rows import Delivered
from ordercast.model.messages import MessageId

Witness: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`count` is exact. `pending`: what may still come, so it is no violation yet.

    `truncated`: the search for the smallest witness was stopped; the one given is the smallest
    found until then.
    """

    name: str
    count: int
    witness: Witness | None = None
    pending: int = 0
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return self.count == 0


def combine(verdicts: Iterable[tuple[str | None, Verdict]]) -> Verdict:
    """One verdict for several runs: the sums, and the smallest witness, of the first run that has
    it."""
    total: Verdict | None = None
    for run, verdict in verdicts:
        if run is not None and verdict.witness is not None:
            verdict = replace(verdict, witness={"run": run, **verdict.witness})
        total = verdict if total is None else _sum(total, verdict)
    if total is None:
        raise ValueError("no verdicts to combine")
    return total


def _sum(one: Verdict, other: Verdict) -> Verdict:
    return Verdict(
        one.name,
        one.count + other.count,
        _smaller(one.witness, other.witness),
        one.pending + other.pending,
        one.truncated or other.truncated,
    )


def _smaller(one: Witness | None, other: Witness | None) -> Witness | None:
    if one is None or other is None:
        return one or other
    return other if _size(other) < _size(one) else one


def _size(witness: Witness) -> int:
    return len(witness.get("messages", ()))


def plain(message: MessageId) -> list[str | int]:
    """A message id as witnesses and JSON show it."""
    return list(message)


def row_witness(row: Delivered) -> dict[str, Any]:
    return {
        "site": row.site,
        "position": row.position,
        "attempt": row.attempt,
        "epoch": row.epoch,
        "message": plain(row.id),
    }
