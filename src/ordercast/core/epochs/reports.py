"""Long reports go in parts: a frame, or a record of the voters' log, has only so many streams.

Parts may be lost, doubled, late: all of them are sent again until the receiver has the whole.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from ordercast.model.epochs import Counts, EndPart, Included
from ordercast.model.limits import PART
from ordercast.wire.epochs import ClosedPart, LogReport, PastNeeded

T = TypeVar("T")
P = TypeVar("P", ClosedPart, LogReport, PastNeeded)


def cut(whole: Sequence[T], part: int) -> tuple[T, ...]:
    """The entries of one part, by its number from 0."""
    return tuple(whole[part * PART : (part + 1) * PART])


def parts_of(*lengths: int) -> int:
    """How many parts a report with lists of these lengths has: at least one."""
    return max(1, *(-(-length // PART) for length in lengths))


def closed_in_parts(begun: int, included: Included) -> list[ClosedPart]:
    parts = parts_of(len(included))
    return [ClosedPart(begun, cut(included, part), part, parts) for part in range(parts)]


def log_in_parts(report: LogReport) -> list[LogReport]:
    parts = parts_of(len(report.counts), len(report.lasts), len(report.holds))
    return [
        LogReport(
            report.flush, cut(report.counts, part), cut(report.lasts, part),
            cut(report.holds, part), part, parts,
        )
        for part in range(parts)
    ]  # fmt: skip


def needs_in_parts(past: PastNeeded) -> list[PastNeeded]:
    parts = parts_of(len(past.needs))
    return [PastNeeded(past.flush, cut(past.needs, part), part, parts) for part in range(parts)]


def end_in_parts(begun: int, counts: Counts, lasts: Included) -> list[EndPart]:
    """All parts; the last one is for the record of the end itself."""
    parts = parts_of(len(counts), len(lasts))
    return [EndPart(begun, cut(counts, part), cut(lasts, part)) for part in range(parts)]


class ReportParts(Generic[P]):
    """State: the parts of one report that have come so far, and what the report is on."""

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
