"""The tables of a store and how a record becomes a row: DESIGN §8.

One row per batch, numbered `n` without holes: rows are only ever added at the end and taken away at
the start. A row holds a record of the core; a batch that a site both accepted and placed in one
burst is one row for two records, and one that comes back to its origin refers (`ref`) to the row in
which it was accepted, so no payload is written twice. What a member keeps beside batches (records
of the voters' log, ballots, what was fetched, notes of ordering protocols) stands between them,
because a restart repeats all of it in order. What a site catches up with when it returns is no
record of its core: a row of its own.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from ordercast.core.epochs.records import Anew, Caught, Confirmed, Filled, Folded, Noted
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.errors import StoreCorrupt
from ordercast.model.messages import Vector

APPLICATION = 0x6F726463  # "ordc": SQLite's application_id
SCHEMA_VERSION = 3

ACCEPTED, PASSED, MINE, OTHER, CAUGHT = 1, 2, 4, 8, 16
"""What a row stands for, added up: `MINE` is a batch of this site's own ordered log, `OTHER` a
record that is no batch, `CAUGHT` a batch of the log that no engine of this site has passed."""

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

ABSENT = "absent"
"""The kind of an event: who is absent, and which members of the open epochs' groups."""

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
# Two questions, because SQLite answers one of both at once by looking at every row.
FIRST_AND_LAST = "SELECT (SELECT min(n) FROM batches), (SELECT max(n) FROM batches)"
PUT_CHECKPOINT = "INSERT OR REPLACE INTO checkpoint VALUES (1,?,?,?,?,?)"
PUT_STATE = "INSERT OR REPLACE INTO state VALUES (?,?,?)"
PUT_REQUEST = "INSERT OR REPLACE INTO requests VALUES (?,?,?,?,?,?)"
DELETE_REQUESTS = "DELETE FROM requests WHERE client = ? AND number BETWEEN ? AND ?"
# `at_ns` is no time any more: it counts, and says which client was heard last.
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
_header = struct.Struct("<10q").pack


class Row(NamedTuple):
    """`position`: of the batch's first message if it is `MINE`; else the next one to be logged, so
    positions never fall along n. `epoch`: of a batch of the log, or that passed. `low`: no row at
    or after this one refers to one before it. `attempt`: of the log, when this was written."""

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
    """State folded up to row `upto`; no row before `needed` is needed by the core any more.
    `position`: logged by then."""

    upto: int
    needed: int
    position: int
    crc: int
    state: bytes


class EngineRows(msgspec.Struct, frozen=True, array_like=True):
    """Where the records are that an engine's checkpoint holds: the number of the first one's row,
    then that of each by its distance from the one before."""

    accepted: list[int]
    passed: list[int]


class AsideRows(msgspec.Struct, frozen=True, array_like=True):
    """In the same way, where the batches are that a member holds beside its engines: of its tail's
    own ones and log, parked, fetched, and what absent sites miss."""

    kept: list[int] = []
    log: list[int] = []
    parked: list[int] = []
    fetched: list[int] = []
    history: list[int] = []


class Marked(msgspec.Struct, frozen=True, array_like=True):
    """The state in a checkpoint row: an `Anew` without the batches in it, and their rows. `pasts`:
    of those accepted, what the core says of a batch's past where the row says otherwise (a new
    epoch empties it)."""

    anew: Anew
    rows: tuple[EngineRows, ...]
    pasts: dict[int, Vector]
    aside: AsideRows


decode_marked = msgspec.msgpack.Decoder(Marked).decode


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


def verify(row: Row, where: object) -> None:
    if checksum(*row[:10], row.body) != row.crc:
        raise damaged(where, f"row {row.n} of table batches")


def record_of(row: Row, where: object) -> Accepted | Passed | Other:
    """What a row has, its checksum verified; a row that refers lacks its payloads."""
    verify(row, where)
    try:
        return _records.decode(row.body)
    except msgspec.DecodeError as error:
        raise StoreCorrupt(
            f"{where}: row {row.n} of table batches is not a record of this version: {error}"
        ) from None
