"""The tables of a store and how a batch becomes a row: DESIGN §8.

One row per batch, numbered `n` without holes: rows are only ever added at the end and taken away at
the start. A row holds a record of the core; a batch that a site both accepted and placed in one
burst is one row for two records, and one that comes back to its origin refers (`ref`) to the row in
which it was accepted, so no payload is written twice.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from ordercast.core.outbox import Record
from ordercast.model.errors import StoreCorrupt

APPLICATION = 0x6F726463  # "ordc": SQLite's application_id
SCHEMA_VERSION = 1

ACCEPTED, PASSED, MINE = 1, 2, 4
"""What a row stands for, added up: `MINE` is a passed batch of this site's own ordered log."""
NOTE = 0
"""A note of the ordering object: no batch of its own. What precedes a checkpoint is never read."""

SCHEMA = """
CREATE TABLE batches(
  n INTEGER PRIMARY KEY, kind INTEGER NOT NULL, position INTEGER NOT NULL, count INTEGER NOT NULL,
  at_ns INTEGER NOT NULL, after_position INTEGER NOT NULL, low INTEGER NOT NULL,
  ref INTEGER NOT NULL, crc INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE checkpoint(
  id INTEGER PRIMARY KEY, upto INTEGER NOT NULL, accepted_from INTEGER NOT NULL,
  passed_from INTEGER NOT NULL, position INTEGER NOT NULL, crc INTEGER NOT NULL,
  state BLOB NOT NULL);
CREATE TABLE state(key TEXT PRIMARY KEY, value, crc INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events(
  n INTEGER PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  detail TEXT NOT NULL);
CREATE TABLE requests(
  client BLOB NOT NULL, number INTEGER NOT NULL, group_name TEXT NOT NULL, seq INTEGER NOT NULL,
  count INTEGER NOT NULL, at_ns INTEGER NOT NULL, PRIMARY KEY(client, number)) WITHOUT ROWID;
"""

INSERT_BATCH = "INSERT INTO batches VALUES (?,?,?,?,?,?,?,?,?,?)"
SELECT_BATCH = (
    "SELECT n, kind, position, count, at_ns, after_position, low, ref, crc, body FROM batches"
)
# Two questions, because SQLite answers one of both at once by looking at every row.
FIRST_AND_LAST = "SELECT (SELECT min(n) FROM batches), (SELECT max(n) FROM batches)"
PUT_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?,?,?)"
PUT_STATE = "INSERT OR REPLACE INTO state VALUES (?,?,?)"
PUT_REQUEST = "INSERT OR REPLACE INTO requests VALUES (?,?,?,?,?,?)"
INSERT_EVENT = "INSERT INTO events(kind, position, at_ns, detail) VALUES (?,?,?,?)"

Value: TypeAlias = int | str

encode = msgspec.msgpack.Encoder().encode
_records: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)
_header = struct.Struct("<8q").pack


class Row(NamedTuple):
    """`position`: of the batch's first message if it is `MINE`; else the next one to be logged, so
    positions never fall along n. `low`: no row at or after this one refers to one before it."""

    n: int
    kind: int
    position: int
    messages: int
    at_ns: int
    after_position: int
    low: int
    ref: int
    crc: int
    body: bytes


class CheckpointRow(NamedTuple):
    """State folded up to row `upto`; of the rows up to there the core still needs the accepted
    ones from `accepted_from` and the passed ones from `passed_from`. `position`: logged by then."""

    upto: int
    accepted_from: int
    passed_from: int
    position: int
    crc: int
    state: bytes


def checksum(
    n: int, kind: int, position: int, count: int, at: int, after: int, low: int, ref: int,
    body: bytes,
) -> int:  # fmt: skip
    return crc32(body, crc32(_header(n, kind, position, count, at, after, low, ref)))


def checkpoint_checksum(
    upto: int, accepted_from: int, passed_from: int, position: int, state: bytes
) -> int:
    return crc32(state, crc32(_header(upto, accepted_from, passed_from, position, 0, 0, 0, 0)))


def state_row(key: str, value: Value) -> tuple[str, Value, int]:
    return key, value, crc32(f"{key}={value!r}".encode())


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
        " an intact copy of it or let the site return as a new one (docs/store.md)"
    )


def record_of(row: Row, where: object) -> Record:
    """The record of a row, its checksum verified; a row that refers lacks its payloads."""
    n, kind, position, count, at, after, low, ref, crc, body = row
    if checksum(n, kind, position, count, at, after, low, ref, body) != crc:
        raise damaged(where, f"row {n} of table batches")
    try:
        return _records.decode(body)
    except msgspec.DecodeError as error:
        raise StoreCorrupt(
            f"{where}: row {n} of table batches is not a record of this version: {error}"
        ) from None
