"""What a member has beside its engines, in a checkpoint: by the rows that its batches are in.

A site that is away keeps its tail, one that returns what it has fetched, and those that are there
what the absent miss. All of it was written when it came, so a checkpoint only names the rows.
"""

from collections.abc import Callable, Iterable
from itertools import accumulate

from msgspec.structs import replace

from ordercast.core.epochs.records import NOTHING_ASIDE, Anew, Aside, Filled
from ordercast.model.messages import Batch
from ordercast.net.store.log_end import Place, place_of
from ordercast.net.store.rows import AsideRows


def set_aside(
    aside: Aside, own: Callable[[Batch], int], row: Callable[[Place], int]
) -> tuple[Aside, AsideRows]:
    """Without its batches, and their rows; `own` and `row` say which."""
    if aside == NOTHING_ASIDE:
        return aside, AsideRows()

    def filled(batches: Iterable[Filled]) -> list[int]:
        return steps(row(place_of(one.epoch, one.placed)) for one in batches)

    tail = aside.tail
    rows = AsideRows(
        steps(own(batch) for batch in tail.kept) if tail else [],
        steps(row(place_of(tail.epoch, one)) for one in tail.log) if tail else [],
        steps(own(batch) for batch in aside.parked),
        filled(aside.fetched),
        filled(aside.history),
    )
    tail = replace(tail, log=(), kept=()) if tail else None
    return replace(aside, tail=tail, fetched=(), history=(), parked=()), rows


def delivered_by(anew: Anew) -> int:
    """The last position that a restart does not deliver again; of a tail more may be logged."""
    tail = anew.aside.tail
    return anew.position if tail is None else min(anew.position, tail.delivered)


def first_beside(rows: AsideRows, otherwise: int) -> int:
    """The first row that is needed for it; own batches aside, which are needed anyway."""
    named = (n for some in (rows.log, rows.fetched, rows.history) for n in accumulate(some))
    return min(named, default=otherwise)


def steps(rows: Iterable[int]) -> list[int]:
    """Each by its distance from the one before: small numbers."""
    before = 0
    found = []
    for n in rows:
        found.append(n - before)
        before = n
    return found
