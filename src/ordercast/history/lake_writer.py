"""Write a lake: appends that count wholly or not at all, whenever the process is killed.

What is new is staged in a hidden folder. Then one file, `.next`, decides: it is the `lake.json` of
the time after. From then on every writer that opens the lake puts the staged files in their places
first (docs/history.md has the argument). A lock keeps out a second writer.
"""

import datetime
import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ordercast.history import delta_tables
from ordercast.history.lake import (
    DELTA,
    LAKE_FILE,
    PARQUET,
    DeltaVersion,
    Lake,
    hidden,
    read_lake,
)
from ordercast.history.rows import Meta
from ordercast.history.schema import arrow, arrow_schema, parquet
from ordercast.history.stream import TableStream
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, encode_meta
from ordercast.model.errors import ConfigError
from ordercast.whole_files import sync, write_file

DAY_OF = {"deliveries": "delivered_ns", "sent": "sent_ns", "events": "at_ns"}
"""By which time the rows of a table lie in folders of days. The other tables are small."""

_NEXT = ".next"
_LOCK = ".lock"
_STAGED = ".staged"
_URI = re.compile(r"[a-z][a-z0-9+.-]+:/")
_DAY_NS = 86_400_000_000_000
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()


class NextLake(msgspec.Struct, kw_only=True):
    """The decision: `lake` is how it will be. `added` files are staged, `hides` are replaced."""

    lake: Lake
    meta: bytes
    added: list[str]
    hides: list[str] = []


class LakeWriter:
    """A lake that is open to be written. `lake` is how it is."""

    def __init__(self, folder: Path, lake: Lake) -> None:
        self.folder = folder
        self.lake = lake

    @property
    def marks(self) -> bytes:
        """What the last append left for the next one; empty before the first."""
        return (self.folder / self.lake.marks).read_bytes() if self.lake.marks else b""

    def append(self) -> "LakeAppend":
        return LakeAppend(self)

    def staged(self, name: str) -> Path:
        place = self.folder / _STAGED / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def decide(self, decided: NextLake) -> None:
        """Make it so. The staged files are complete."""
        for name in decided.added:
            sync(self.staged(name))
        _write(self.folder / _NEXT, msgspec.msgpack.encode(decided))
        self.finish()

    def finish(self) -> None:
        """Finish appends that were decided and perhaps begun; then remove files that were only
        staged."""
        try:
            decided = msgspec.msgpack.decode((self.folder / _NEXT).read_bytes(), type=NextLake)
        except FileNotFoundError:
            decided = None
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self.folder / _NEXT}: cannot be read: {error}") from None
        if decided is not None:
            for name in decided.hides:
                _move(self.folder / name, hidden(self.folder / name))
            if decided.lake.format == DELTA:
                self._append_to_delta(decided)
            else:
                for name in decided.added:
                    (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                    _move(self.folder / _STAGED / name, self.folder / name)
            _write(self.folder / META_FILE, decided.meta)
            _write(self.folder / LAKE_FILE, encode_lake(decided.lake))
            (self.folder / _NEXT).unlink()
            self.lake = decided.lake
            for old in self.folder.glob(".marks-*"):
                if old.name != self.lake.marks:
                    old.unlink()
        shutil.rmtree(self.folder / _STAGED, ignore_errors=True)

    def _append_to_delta(self, decided: NextLake) -> None:
        lake = decided.lake
        for table in TABLES:
            own = [name for name in decided.added if name.startswith(f"{table}/")]
            if own:
                staged = [(_day_in(name), self.folder / _STAGED / name) for name in own]
                version = delta_tables.append_files(
                    self.folder / table, staged, lake.append, by_day=table in DAY_OF
                )
                lake.versions[table] = DeltaVersion(version, lake.append)


class LakeAppend:
    """Has the face of `stream.HistoryStream`: tables, then `finish`; and `commit` with the marks
    that the next append shall find."""

    def __init__(self, writer: LakeWriter) -> None:
        self._writer = writer
        self._number = writer.lake.append + 1
        self._files: dict[str, Any] = {}
        self._meta = b""

    @contextmanager
    def table(self, name: str) -> Iterator[TableStream]:
        """Further rows of a table."""
        stream = _LakeTable(name, self)
        yield stream
        stream.close()

    def finish(self, meta: Meta) -> None:
        self._meta = encode_meta(meta)
        if not self._writer.lake.append:  # the first one has a file of every table
            for name in TABLES:
                if not any(file.startswith(f"{name}/") for file in self._files):
                    self.put(name, None, arrow_schema_of(name).empty_table())
        for file in self._files.values():
            file.close()

    def close(self) -> None:
        """End without a commit: the staged files are removed when the lake is next written."""
        for file in self._files.values():
            file.close()

    def commit(self, marks: bytes) -> int:
        """Returns the number of the append; that of the last one, if nothing is new."""
        was = self._writer.lake
        if was.append and not self._files and marks == self._writer.marks:
            return was.append
        names = f".marks-{self._number:06}"
        _write(self._writer.folder / names, marks)
        added = sorted(self._files)
        listed = {name: list(own) for name, own in was.files.items()}
        if was.format == PARQUET:
            for name in added:
                listed.setdefault(name.partition("/")[0], []).append(name)
        lake = msgspec.structs.replace(was, append=self._number, marks=names, files=listed)
        self._writer.decide(NextLake(lake=lake, meta=self._meta, added=added))
        return self._number

    def put(self, table: str, day: int | None, rows: Any) -> None:
        """Rows of one day, in days since 1970; None: of a table without days."""
        place = table if day is None else f"{table}/day={_day_name(day)}"
        name = f"{place}/append-{self._number:06}.parquet"
        file = self._files.get(name)
        if file is None:
            path = self._writer.staged(name)
            file = parquet().ParquetWriter(path, arrow_schema_of(table), compression="zstd")
            self._files[name] = file
        file.write_table(rows)


class _LakeTable(TableStream):
    """Its rows go to the files of their days."""

    def __init__(self, table: str, append: LakeAppend) -> None:
        super().__init__(table)
        self._table = table
        self._append = append

    def _put(self, rows: Any) -> None:
        if not rows.num_rows:
            return
        column = DAY_OF.get(self._table)
        if column is None:
            self._append.put(self._table, None, rows)
            return
        days = [ns // _DAY_NS for ns in rows.column(column).to_pylist()]
        for day in sorted(set(days)):
            mask = arrow().array([each == day for each in days])
            self._append.put(self._table, day, rows.filter(mask))

    def _end(self) -> None:
        """The files are closed when the append is."""


def arrow_schema_of(table: str) -> Any:
    """The columns of a table in a lake: all but `run`."""
    return arrow_schema(TABLES[table], tuple(c for c in TABLES[table].columns if c.name != "run"))


@contextmanager
def opened_lake(folder: Path, cluster: str, wanted: str | None = None) -> Iterator[LakeWriter]:
    """The lake of a cluster, to append to; a new one in a new or empty folder. `wanted`: the format
    of a new one, which an old one must have."""
    arrow()
    if wanted == DELTA:
        delta_tables.require_delta()
    if _URI.match(str(folder)):  # a Path has one slash of its two
        raise ConfigError(f"{folder}: a lake is a folder of this machine, not a URI")
    folder = Path(folder).resolve()
    if not _is_free(folder):
        raise ConfigError(
            f"{folder}: is not empty, and no lake; an append goes to a lake or a new folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            writer = LakeWriter(folder, Lake(format=wanted or PARQUET, cluster=cluster))
            writer.finish()
            found = read_lake(folder)
            if found is not None:
                _require_same(folder, found, cluster, wanted)
                writer.lake = found
            yield writer
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise ConfigError(f"{folder}: cannot write a lake: {why}") from None


def _is_free(folder: Path) -> bool:
    if not folder.exists() or (folder / LAKE_FILE).exists() or (folder / _NEXT).exists():
        return True
    return folder.is_dir() and all(
        entry.name in (_LOCK, _STAGED) or entry.name.startswith((".marks-", f"{_NEXT}."))
        for entry in folder.iterdir()
    )


def _require_same(folder: Path, lake: Lake, cluster: str, wanted: str | None) -> None:
    if lake.cluster != cluster:
        raise ConfigError(f"{folder}: is a lake of cluster {lake.cluster!r}, not of {cluster!r}")
    if wanted is not None and lake.format != wanted:
        raise ConfigError(f"{folder}: is a lake of format {lake.format!r}, not {wanted!r}")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One writer at a time; the lock goes with its process."""
    with (folder / _LOCK).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another process is writing to this lake") from None
        yield


def encode_lake(lake: Lake) -> bytes:
    return msgspec.json.format(msgspec.json.encode(lake, order="sorted"), indent=1) + b"\n"


def _day_name(day: int) -> str:
    return datetime.date.fromordinal(_FIRST_DAY + day).isoformat()


def _day_in(name: str) -> str | None:
    folders = name.split("/")[1:-1]
    return folders[0].removeprefix("day=") if folders else None


def _move(source: Path, place: Path) -> None:
    """Done already, if the source is gone."""
    if source.exists():
        source.replace(place)
        sync(place.parent)


def _write(path: Path, data: bytes) -> None:
    """A file that is whole or as before, also after a power cut."""
    hidden = path.name if path.name.startswith(".") else f".{path.name}"
    write_file(path, data, draft=path.with_name(f"{hidden}.tmp"), durable=True)
