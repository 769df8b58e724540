"""The rows of named readers: how far each has come, and which rows of the log they hold back.

A row is not changed by a rollback: positions of an attempt before it count up to the rollback's
position only (docs/store.md).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from ordercast.model.groups import Group
from ordercast.net.store.log_end import Floor, not_rolled_back
from ordercast.net.store.rows import damaged

ALL_GROUPS = "*"  # in place of a list of groups
MOST_READERS = 1_000  # of a site

PUT_READER = "INSERT OR REPLACE INTO readers VALUES (?,?,?,?,?,?,?,?)"
DELETE_READER = "DELETE FROM readers WHERE name = ?"
SELECT_READERS = (
    "SELECT name, groups, number, confirmed, passed, attempt, created_ns, crc FROM readers"
    " ORDER BY name"
)


class ReaderRow(msgspec.Struct, frozen=True, gc=False):
    """`groups`: None for all. `number`: drawn when the reader is made or reset. Between `confirmed`
    and `passed` there is no message of the reader's groups."""

    name: str
    groups: frozenset[Group] | None
    number: int
    confirmed: int
    passed: int
    attempt: int
    created_ns: int

    def wants(self, audience: Iterable[Group]) -> bool:
        """Whether this reader gets a message for the readers of these groups."""
        return self.groups is None or not self.groups.isdisjoint(audience)


class ReaderHold(NamedTuple):
    """How much the store holds for a reader: bytes, estimated, and for how long the site has run
    since the first of its rows was written."""

    bytes: int
    age_ns: int


def reader_values(row: ReaderRow) -> tuple[str | int, ...]:
    """The columns of a row, with its checksum."""
    groups = ALL_GROUPS if row.groups is None else " ".join(sorted(row.groups))
    values = (
        row.name, groups, row.number, row.confirmed, row.passed, row.attempt, row.created_ns,
    )  # fmt: skip
    return *values, crc32(repr(values).encode())


def readers_in(rows: Iterable[Sequence[str | int]], where: object) -> dict[str, ReaderRow]:
    found: dict[str, ReaderRow] = {}
    for values in rows:
        name, groups = str(values[0]), str(values[1])
        of = None if groups == ALL_GROUPS else frozenset(groups.split())
        row = ReaderRow(name, of, *map(int, values[2:7]))
        if reader_values(row)[-1] != values[7]:
            raise damaged(where, f"reader {name!r} of table readers")
        found[name] = row
    return found


def passed_by(row: ReaderRow, floors: Sequence[Floor]) -> int:
    """Up to this position the reader needs nothing."""
    return not_rolled_back(row.passed, row.attempt, floors)
