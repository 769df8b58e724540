"""The tables of a store and how a record becomes a row ('ordercast docs store').

One row per batch, numbered `n` without holes: rows are only ever added at the end and removed at
the start. A row holds a record of the core. A batch that a site accepts and places in one burst is
one row for two records. A batch that comes back to its origin refers (`ref`) to the row in which it
was accepted, so no payload is written twice. Records that are no batches (of the voters' log,
ballots, fetched batches, notes of ordering protocols) stand between the batches, because a restart
repeats all records in order. A batch that a returning site catches up with is no record of its
core, and has a row of its own.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from ordercast.core.epochs.records import Caught, Confirmed, Filled, Folded, Noted
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.errors import StoreCorrupt
from ordercast.model.groups import Site
from ordercast.wire.lineage import StorePoint, StoreStart

APPLICATION = 0x6F726463  # "ordc": SQLite's application_id
FIRST_FORMAT = 3  # the format of `SCHEMA`; later formats are made of it (`formats.py`)

ACCEPTED, PASSED, MINE, OTHER, CAUGHT, COPY, REPEATED, LATE = 1, 2, 4, 8, 16, 32, 64, 128
"""The kinds of a row, added up. `MINE`: a batch of this site's own ordered log. `OTHER`: a record
that is no batch. `CAUGHT`: a batch of the log that no engine of this site has passed. `COPY`: a
batch of the log without positions (`core.producers`). `REPEATED`: a copy of what is delivered.
`LATE`: a copy that had expired, or was fenced. A copy in a store of before has neither."""

SCHEMA = """
CREATE TABLE batches(
  n INTEGER PRIMARY KEY, kind INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER NOT NULL,
  count INTEGER NOT NULL, at_ns INTEGER NOT NULL, after_position INTEGER NOT NULL,
  low INTEGER NOT NULL, ref INTEGER NOT NULL, attempt INTEGER NOT NULL, crc INTEGER NOT NULL,
  body BLOB NOT NULL);
CREATE TABLE annulled(n INTEGER PRIMARY KEY, position INTEGER NOT NULL);
CREATE TABLE checkpoint(
  id INTEGER PRIMARY KEY, upto INTEGER NOT NULL, needed INTEGER NOT NULL,
  position INTEGER NOT NULL, crc INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE state(key TEXT PRIMARY KEY, value, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events(
  n INTEGER PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  detail TEXT NOT NULL);
CREATE TABLE requests(
  client BLOB NOT NULL, number INTEGER NOT NULL, group_name TEXT NOT NULL, seq INTEGER NOT NULL,
  count INTEGER NOT NULL, at_ns INTEGER NOT NULL, PRIMARY KEY(client, number)) WITHOUT ROWID;
"""

GAPS = (
    "events AS gap WHERE kind = 'gap' AND NOT EXISTS (SELECT 1 FROM events WHERE kind = 'rollback'"
    " AND n > gap.n AND position < gap.position)"
)
"""The events of gaps that were not rolled back."""

INSERT_BATCH = "INSERT INTO batches VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
SELECT_BATCH = (
    "SELECT n, kind, epoch, position, count, at_ns, after_position, low, ref, attempt, crc, body"
    " FROM batches"
)
# Two selects: for min and max in one select, SQLite reads every row.
FIRST_AND_LAST = "SELECT (SELECT min(n) FROM batches), (SELECT max(n) FROM batches)"
PUT_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?,?)"
PUT_STATE = "INSERT OR REPLACE INTO state VALUES (?,?,?)"
PUT_REQUEST = "INSERT OR REPLACE INTO requests VALUES (?,?,?,?,?,?)"
DELETE_REQUESTS = "DELETE FROM requests WHERE client = ? AND number BETWEEN ? AND ?"
# `at_ns` holds a count, not a time. It tells which client was heard last.
SELECT_REQUESTS = (
    "SELECT client, number, group_name, seq, count, at_ns FROM requests ORDER BY at_ns, number"
)
INSERT_EVENT = "INSERT INTO events(kind, position, at_ns, detail) VALUES (?,?,?,?)"

Value: TypeAlias = int | str | bytes
Other: TypeAlias = Noted | Folded | Caught | Filled | Confirmed | Ballot | Appendix | LogSnapshot

encode = msgspec.msgpack.Encoder().encode
_records: msgspec.msgpack.Decoder[Accepted | Passed | Other] = msgspec.msgpack.Decoder(
    Accepted | Passed | Other
)
_point = msgspec.msgpack.Decoder(StorePoint).decode
_starts = msgspec.msgpack.Decoder(tuple[StoreStart, ...]).decode
_boots = msgspec.msgpack.Decoder(tuple[int, ...]).decode
_POINT = "heard of "  # with the name of a site: a key of the table state
STARTS = "starts"  # another key of it
DISPUTED = "disputed"  # another: boots of points where the store has not been, as others said
AGES = "ages"  # another: how long the site had run when rows were written (`row_ages`)
RESTORED = "restored"  # another: the store was made from a copy, and from which
_header = struct.Struct("<10q").pack


class BatchRow(NamedTuple):
    """`position`: of the batch's first message if the row is `MINE`, else the next position in the
    log. So positions never fall along `n`. `epoch`: of a batch that passed or is in the log. `low`:
    neither this row nor a later one refers to a row before `low`. `attempt`: that of the log when
    the row was written."""

    n: int
    kind: int
    epoch: int
    position: int
    messages: int
    at_ns: int
    after_position: int
    low: int
    ref: int
    attempt: int
    crc: int
    body: bytes


class CheckpointRow(NamedTuple):
    """The state folded up to row `upto`. The core needs no row before `needed`. `position`: the
    last one in the log then."""

    upto: int
    needed: int
    position: int
    crc: int
    state: bytes


def checksum(
    n: int, kind: int, epoch: int, position: int, count: int, at: int, after: int, low: int,
    ref: int, attempt: int, body: bytes,
) -> int:  # fmt: skip
    return crc32(
        body, crc32(_header(n, kind, epoch, position, count, at, after, low, ref, attempt))
    )


def checkpoint_checksum(upto: int, needed: int, position: int, state: bytes) -> int:
    return crc32(state, crc32(_header(upto, needed, position, 0, 0, 0, 0, 0, 0, 0)))


def state_row(key: str, value: Value) -> tuple[str, Value, int]:
    return key, value, crc32(f"{key}={value!r}".encode())


def point_row(site: Site, point: StorePoint) -> tuple[str, Value, int]:
    """The row of the table state for what another site has said of its store."""
    return state_row(_POINT + site, encode(point))


def is_point(key: str) -> bool:
    """Whether this key of the table state is the key of such a row."""
    return key.startswith(_POINT)


def points_of(state: Mapping[str, Value]) -> dict[Site, StorePoint]:
    return {
        key.removeprefix(_POINT): _point(value)
        for key, value in state.items()
        if is_point(key) and isinstance(value, bytes)
    }


def starts_of(state: Mapping[str, Value]) -> tuple[StoreStart, ...]:
    found = state.get(STARTS)
    return _starts(found) if isinstance(found, bytes) else ()


def disputed_of(state: Mapping[str, Value]) -> tuple[int, ...]:
    found = state.get(DISPUTED)
    return _boots(found) if isinstance(found, bytes) else ()


def ages_of(state: Mapping[str, Value]) -> bytes:
    found = state.get(AGES)
    return found if isinstance(found, bytes) else b""


def state_of(rows: Iterable[tuple[str, Value, int]], where: object) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for key, value, crc in rows:
        if state_row(key, value)[2] != crc:
            raise damaged(where, f"value {key!r} of table state")
        found[key] = value
    return found


def damaged(where: object, what: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"{where}: {what}: the checksum does not match, the file is damaged; keep it, and put back"
        " an intact copy of it or let the site return as a new one ('ordercast docs store')"
    )


def verify(row: BatchRow, where: object) -> None:
    if checksum(*row[:10], row.body) != row.crc:
        raise damaged(where, f"row {row.n} of table batches")


def record_of(row: BatchRow, where: object) -> Accepted | Passed | Other:
    """The record in a row. Its checksum is verified. A row that refers to another one lacks the
    payloads."""
    verify(row, where)
    try:
        return _records.decode(row.body)
    except msgspec.DecodeError as error:
        raise StoreCorrupt(
            f"{where}: row {row.n} of table batches is not a record of this version: {error}"
        ) from None
