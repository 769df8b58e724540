"""Every violation as a row: collected in numbers where it is found, named when it is shown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ordercast.check import agreement
from ordercast.check.integrity import NEVER_SENT, NOT_A_MEMBER, OTHER_DIGEST, REPEATED
from ordercast.check.report import CHECKS, ON_REQUEST
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.numbers import Ints, Numbers

NAMES = (*CHECKS, *ON_REQUEST)
REASONS = (REPEATED, NEVER_SENT, NOT_A_MEMBER, OTHER_DIGEST, "in two epochs")
IN_TWO_EPOCHS = 1 << REASONS.index("in two epochs")
BECAUSE = (agreement.ENDED, agreement.LATER_EPOCH, agreement.LATER_MESSAGE)

_COLUMNS = (
    "check", "site", "position", "attempt", "epoch", "message", "other_site", "reason",
    "client", "request", "part",
)  # fmt: skip
_NUMBERS = ("position", "attempt", "epoch", "request", "part")
NONE = -(1 << 62)  # nothing to say in this column

SCHEMA = pa.schema(
    [
        ("check", pa.string()),
        ("run", pa.string()),
        ("site", pa.string()),
        ("position", pa.int64()),
        ("attempt", pa.int64()),
        ("epoch", pa.int64()),
        ("origin", pa.string()),
        ("incarnation", pa.int64()),
        ("group_name", pa.string()),
        ("seq", pa.int64()),
        ("other_site", pa.string()),
        ("reason", pa.string()),
        ("client", pa.string()),
        ("request", pa.int64()),
        ("part", pa.int64()),
    ]
)
DDL = (
    "check string, run string, site string, position long, attempt long, epoch long,"
    " origin string, incarnation long, group_name string, seq long, other_site string,"
    " reason string, client string, request long, part long"
)


class Listing:
    """Violations found in a share or a part."""

    def __init__(self) -> None:
        self._pieces: list[list[Ints]] = []

    def add(self, check: str, count: int, **columns: Ints) -> None:
        known = {"check": np.full(count, NAMES.index(check)), **columns}
        self._pieces.append([known.get(name, np.full(count, NONE)) for name in _COLUMNS])

    def tell(self, evidence: Evidence) -> None:
        if self._pieces:
            evidence.table("violations", *map(np.concatenate, zip(*self._pieces, strict=True)))


@dataclass(frozen=True)
class Namer:
    """Turns listings into rows with names; travels to the workers."""

    numbers: Numbers

    def rows(self, evidence: Evidence) -> pa.RecordBatch:
        packed = evidence.tables.get("violations", [b""] * len(_COLUMNS))
        columns = (np.frombuffer(piece, np.int64).tolist() for piece in packed)
        named = [self._row(row, evidence.names) for row in zip(*columns, strict=True)]
        return pa.RecordBatch.from_pylist(named, schema=SCHEMA)

    def _row(self, row: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
        check, site, position, attempt, epoch, message, other, reason, client, *asked = row
        found: dict[str, Any] = {"check": NAMES[check], "reason": _reason(NAMES[check], reason)}
        numbers = (position, attempt, epoch, *asked)
        for name, value in zip(_NUMBERS, numbers, strict=True):
            found[name] = None if value == NONE else value
        if client != NONE:
            found["client"] = names[client]
        if site != NONE:
            found["run"] = self.numbers.run_of_site(site)
            found["site"] = self.numbers.sites[site][1]
        if other != NONE:
            found["other_site"] = self.numbers.sites[other][1]
        if message != NONE:
            found["run"] = self.numbers.run_of_message(message)
            shown = self.numbers.message_id(message)
            found |= zip(("origin", "incarnation", "group_name", "seq"), shown, strict=True)
        return found


def _reason(check: str, reason: int) -> str | None:
    if reason == NONE:
        return None
    if check == "agreement":
        return BECAUSE[reason]
    return ", ".join(_bits(reason))


def _bits(reason: int) -> Iterator[str]:
    return (name for i, name in enumerate(REASONS) if reason >> i & 1)
