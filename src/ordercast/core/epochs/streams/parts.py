"""Long reports go in parts: the streams in a frame, or in a record of the voters' log, are limited.

Parts may be lost, doubled, late: all of them are sent again until the receiver has the whole.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Generic, TypeVar

from ordercast.model.epochs import Counts, EndPart, Included
from ordercast.model.limits import PART, PART_NAMES
from ordercast.wire.epochs import ClosedPart, LogReport, PastNeeded

T = TypeVar("T", bound=tuple[object, ...])
P = TypeVar("P", ClosedPart, LogReport, PastNeeded)


def cut(whole: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Pieces of at most PART entries, whose lists of sites have PART_NAMES names at most."""
    first, names = 0, 0
    for at, entry in enumerate(whole):
        more = sum(len(field) for field in entry if isinstance(field, tuple))
        if at > first and (at - first >= PART or names + more > PART_NAMES):
            yield tuple(whole[first:at])
            first, names = at, 0
        names += more
    if first < len(whole):
        yield tuple(whole[first:])


def closed_in_parts(begun: int, included: Included) -> list[ClosedPart]:
    pieces = list(cut(included)) or [()]
    return [ClosedPart(begun, piece, part, len(pieces)) for part, piece in enumerate(pieces)]


def log_in_parts(report: LogReport) -> list[LogReport]:
    every = zip_longest(cut(report.counts), cut(report.lasts), cut(report.holds), fillvalue=())
    pieces = list(every) or [((), (), ())]
    return [LogReport(report.flush, *piece, part, len(pieces)) for part, piece in enumerate(pieces)]


def needs_in_parts(past: PastNeeded) -> list[PastNeeded]:
    pieces = list(cut(past.needs)) or [()]
    return [PastNeeded(past.flush, piece, part, len(pieces)) for part, piece in enumerate(pieces)]


def end_in_parts(begun: int, counts: Counts, lasts: Included) -> list[EndPart]:
    """All parts; the last one is for the record of the end itself."""
    pieces = list(zip_longest(cut(counts), cut(lasts))) or [((), ())]
    return [EndPart(begun, some or (), others or ()) for some, others in pieces]


class ReportParts(Generic[P]):
    """State: the parts of one report that have come so far, and the subject of the report."""

    def __init__(self) -> None:
        self._parts: dict[int, P] = {}
        self._on = (0, 0)

    def take(self, frame: P, number: int) -> list[P] | None:
        """All parts in order, if none is missing now. `number`: of the record that began it."""
        if self._on != (number, frame.parts):
            self._parts, self._on = {}, (number, frame.parts)
        self._parts[frame.part] = frame
        if len(self._parts) < frame.parts:
            return None
        whole, self._parts = self._parts, {}
        return [whole[part] for part in range(frame.parts)]


def joined_log(parts: Sequence[LogReport]) -> LogReport:
    if len(parts) == 1:
        return parts[0]
    return LogReport(
        parts[0].flush,
        tuple(entry for part in parts for entry in part.counts),
        tuple(entry for part in parts for entry in part.lasts),
        tuple(entry for part in parts for entry in part.holds),
    )


def joined_needs(parts: Sequence[PastNeeded]) -> PastNeeded:
    if len(parts) == 1:
        return parts[0]
    return PastNeeded(parts[0].flush, tuple(need for part in parts for need in part.needs))
