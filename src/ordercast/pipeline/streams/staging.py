"""The folder of a query's sink: the staged rows, which of them make up a batch, and whether the
batch is sent.

docs/streams.md has the argument. A file here is written under another name, forced to disk, and
then renamed or linked: it is there whole, or not at all.
"""

import json
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.model.headers import HeaderItems
from ordercast.whole_files import drafted, sync, write_file

KEPT_BATCHES = 100  # as many as Spark keeps commits of, by default
_FIXED, _DONE = "fixed.json", "done"
_PRODUCER, _QUERY, _BEGUN = "producer", "query", "begun"
_HASH_BYTES = 16
_ROWS = re.compile(r"[0-9]+-[0-9a-f]+\.rows")


class RowsGone(Error):
    """Staged rows that are not there any more, or cannot be read."""


class StagedRow(NamedTuple):
    """A row as it is sent."""

    group: Group
    payload: bytes
    headers: HeaderItems = ()


class StagedFile(msgspec.Struct, frozen=True):
    """The rows of one attempt of a partition: how many, to which groups, and the bytes of the
    largest payload."""

    partition: int
    name: str
    rows: int
    digest: str
    groups: list[Group]
    largest: int


class FixedBatch(msgspec.Struct, frozen=True):
    """What a batch is, once and for all: its files in the order of partitions, and how they are
    cut."""

    producer: str
    batch: int
    chunk_rows: int
    chunk_bytes: int
    files: list[StagedFile]


class Staging:
    """The folder. Tasks call `stage`; only a commit calls the rest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # --- in a task --------------------------------------------------------------------------------

    def stage(self, batch: int, partition: int, rows: Iterator[StagedRow]) -> StagedFile:
        """Write the rows of one attempt. Its name is its own: other attempts have others."""
        place = self._place(batch)
        _make(place)
        name = f"{partition}-{secrets.token_hex(8)}.rows"
        encoder, digest = msgspec.msgpack.Encoder(), blake2b(digest_size=_HASH_BYTES)
        groups: dict[Group, None] = {}
        count = largest = 0
        unfinished = place / f".{name}"
        with (
            drafted(place / name, draft=unfinished, durable=True),
            unfinished.open("wb") as file,
        ):
            for row in rows:
                data = encoder.encode(row)
                head = len(data).to_bytes(4, "big")
                digest.update(head)
                digest.update(data)
                file.write(head)
                file.write(data)
                count += 1
                groups[row.group] = None
                largest = max(largest, len(row.payload))
        return StagedFile(partition, name, count, digest.hexdigest(), sorted(groups), largest)

    # --- in a commit ------------------------------------------------------------------------------

    def producer(self) -> str:
        """The producer of this folder; "" while it has none: nothing was sent from it."""
        file = self.folder / _PRODUCER
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def claim(self, producer: str, query: str = "") -> str:
        """The producer of this folder. A folder belongs to one query. "" only asks for the name."""
        _make(self.folder)
        if producer and not self.producer():
            _write_once(self.folder / _PRODUCER, producer.encode())
        found = self.producer()
        if producer and found != producer:
            raise ConfigError(
                f"stagingLocation: {self.folder} belongs to producer {found!r}, and this query"
                f" sends as {producer!r}: give it a folder of its own"
            )
        if query:
            self._require_query(query)
        return found

    def _require_query(self, query: str) -> None:
        """Another query numbers its batches anew: they would be taken for those that are done. (The
        folder of an earlier release has no id yet.)"""
        file = self.folder / _QUERY
        if not file.exists():
            _write_once(file, query.encode())
        found = file.read_text(encoding="utf-8")
        if found != query:
            raise ConfigError(
                f"stagingLocation: {self.folder} belongs to query {found}, and this is query"
                f" {query}, whose batches have the same numbers: give it a folder and a producer of"
                " its own, or the checkpoint that it had"
            )

    def require_newest(self, batch: int) -> None:
        """Raise an Error if a later batch is fixed: Spark never goes back by itself."""
        for path in self.folder.iterdir():
            if path.name.isdecimal() and int(path.name) > batch and (path / _FIXED).exists():
                raise Error(
                    f"batch {batch}: {self.folder} has batch {path.name}, so the checkpoint was set"
                    " back, and this batch may have other rows than were sent under its number: go"
                    f" on from a checkpoint with batch {path.name}, or begin a query with a new one"
                )

    def begin(self) -> None:
        """Remember that the folder was there at the query's first batch, which had no tasks."""
        _make(self.folder)
        _write_once(self.folder / _BEGUN, b"")

    def has_begun(self) -> bool:
        return (self.folder / _BEGUN).exists()

    def is_done(self, batch: int) -> bool:
        return (self._place(batch) / _DONE).exists()

    def fixed(self, batch: int) -> FixedBatch | None:
        """The batch as it was fixed. None: it is not fixed yet."""
        file = self._place(batch) / _FIXED
        try:
            return msgspec.json.decode(file.read_bytes(), type=FixedBatch)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise Error(f"{file}: is damaged: {error}") from None

    def fix(self, wanted: FixedBatch) -> FixedBatch:
        """Fix the batch, unless that was done before. Returns the batch that is fixed."""
        place = self._place(wanted.batch)
        _make(place)
        _write_once(place / _FIXED, json.dumps(msgspec.to_builtins(wanted), indent=1).encode())
        found = self.fixed(wanted.batch)
        assert found is not None
        return found

    def rows(self, fixed: FixedBatch) -> Iterator[StagedRow]:
        """All rows of a batch, in the order in which they are sent. Raises RowsGone."""
        for file in fixed.files:
            yield from self._rows_of(fixed.batch, file)

    def _rows_of(self, batch: int, file: StagedFile) -> Iterator[StagedRow]:
        """Check the whole file before giving its first row: a number must never get other content
        because a disk lost a part of the file."""
        path = self._place(batch) / file.name
        decoder = msgspec.msgpack.Decoder(StagedRow)
        self._require_whole(path, file)
        with path.open("rb") as rows:
            while head := rows.read(4):
                yield decoder.decode(rows.read(int.from_bytes(head, "big")))

    def _require_whole(self, path: Path, file: StagedFile) -> None:
        digest = blake2b(digest_size=_HASH_BYTES)
        try:
            with path.open("rb") as rows:
                while data := rows.read(1 << 20):
                    digest.update(data)
        except FileNotFoundError:
            raise RowsGone(f"{path}: is missing") from None
        except OSError as error:
            raise RowsGone(f"{path}: cannot be read: {error.strerror}") from None
        if digest.hexdigest() != file.digest:
            raise RowsGone(f"{path}: is damaged")

    def finish(self, batch: int) -> None:
        """All of the batch is stable: remember that, and remove its rows and old batches."""
        place = self._place(batch)
        _make(place)
        _write_once(place / _DONE, b"")
        for path in place.iterdir():
            if _ROWS.fullmatch(path.name.removeprefix(".")):
                path.unlink(missing_ok=True)
        for path in self.folder.iterdir():
            if path.name.isdecimal() and int(path.name) <= batch - KEPT_BATCHES:
                shutil.rmtree(path, ignore_errors=True)

    def _place(self, batch: int) -> Path:
        return self.folder / str(batch)


def chunks(
    rows: Iterator[StagedRow], most_rows: int, most_bytes: int
) -> Iterator[Sequence[StagedRow]]:
    """Consecutive rows to one group with the same headers: a batch of a producer has one group and
    one set of headers."""
    found: list[StagedRow] = []
    size = 0
    for row in rows:
        if found and (
            len(found) >= most_rows
            or size + len(row.payload) > most_bytes
            or (row.group, row.headers) != (found[0].group, found[0].headers)
        ):
            yield found
            found, size = [], 0
        found.append(row)
        size += len(row.payload)
    if found:
        yield found


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"stagingLocation: {folder}: {error.strerror}") from None


def _write_once(path: Path, data: bytes) -> None:
    """Write a file unless it is there. Of several that do so at the same time one succeeds."""
    try:
        write_file(path, data, new=True, durable=True)
    except FileExistsError:
        sync(path.parent)  # whoever wrote it may not have come so far
