"""The progress of a sweep on disk, so that it can be taken up again.

A folder holds `meta.json`, and in `rows/` one Parquet file per wave of finished runs. Files are
written under a temporary name and renamed: after any interruption a wave is there as a whole or not
at all. The histories of a wave are written before its rows, under the same number; those without
rows belong to a wave that never ended, and are removed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ordercast.history.rows import Meta, Row
from ordercast.history.schema import arrow, parquet
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, encode_meta, write_parquet, write_table
from ordercast.model.errors import ConfigError, reason
from ordercast.model.version import __version__
from ordercast.pipeline.sweeps.histories import unpack
from ordercast.pipeline.sweeps.tasks import FinishedRun
from ordercast.whole_files import write_file

LAYOUT = 1
ROWS, HISTORY = "rows", "history"


class RunStore:
    """`identity` is what must not change when a sweep is taken up again, as plain JSON data."""

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, history: bool = False) -> None:
        self.folder = folder
        self._identity = {"layout": LAYOUT, "code_version": __version__, **identity}
        self._history = history
        self._waves = 0

    def open(self) -> list[FinishedRun]:
        """Make the folder, or take it up again; the runs that are in it."""
        try:
            (self.folder / ROWS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.folder}: {reason(error)}") from None
        meta = self.folder / META_FILE
        if meta.exists():
            self._require_same(meta)
        else:
            self.write_meta({"complete": False})
        for abandoned in self.folder.rglob(".*.tmp"):
            abandoned.unlink()
        parts = sorted((self.folder / ROWS).glob("part-*.parquet"))
        self._waves = 1 + max((_number(part) for part in parts), default=-1)
        if self._history:
            self._open_history({_number(part) for part in parts})
        found: dict[tuple[str, int], FinishedRun] = {}
        for part in parts:
            for outcome in _read_part(part):
                found[outcome.key, outcome.repetition] = outcome  # a later try replaces a failure
        return list(found.values())

    def append(self, outcomes: Sequence[FinishedRun]) -> None:
        """One wave, all of it or nothing."""
        number = self._waves
        if self._history:
            self._append_history(number, outcomes)
        _write(_part(self.folder / ROWS, number), outcomes)
        self._waves += 1

    def write_meta(self, more: Mapping[str, Any]) -> None:
        text = json.dumps({**self._identity, **more}, indent=1, sort_keys=True)
        write_whole(self.folder / META_FILE, f"{text}\n")

    def _require_same(self, meta: Path) -> None:
        try:
            found = json.loads(meta.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{meta}: cannot be read: {error}") from None
        known = json.loads(json.dumps(self._identity))
        for name, value in known.items():
            there = found.get(name) if isinstance(found, dict) else None
            if there != value:
                raise ConfigError(
                    f"{self.folder}: holds results of another {name.replace('_', ' ')}"
                    " (see its meta.json); choose another --out"
                )

    # --- histories --------------------------------------------------------------------------------

    def _open_history(self, finished: set[int]) -> None:
        folder = self.folder / HISTORY
        for table in TABLES:
            (folder / table).mkdir(parents=True, exist_ok=True)
            for part in (folder / table).glob("part-*.parquet"):
                if _number(part) not in finished:
                    part.unlink()
        meta = Meta(code_version=__version__, config=dict(self._identity), clock="virtual")
        write_file(folder / META_FILE, encode_meta(meta))

    def _append_history(self, number: int, outcomes: Iterable[FinishedRun]) -> None:
        tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        for outcome in outcomes:
            if outcome.history:
                for name, rows in unpack(outcome.history).items():
                    tables[name].extend(rows)
        if any(tables.values()):
            for name, rows in tables.items():
                write_table(TABLES[name], rows, _part(self.folder / HISTORY / name, number))


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _number(part: Path) -> int:
    return int(part.stem.removeprefix("part-"))


def _schema() -> Any:
    pa = arrow()
    return pa.schema(
        [
            pa.field("config", pa.string(), nullable=False),
            pa.field("repetition", pa.int64(), nullable=False),
            pa.field("seed", pa.int64(), nullable=False),
            pa.field("error", pa.string(), nullable=False),
            pa.field("measures", pa.map_(pa.string(), pa.float64()), nullable=False),
            pa.field("notes", pa.map_(pa.string(), pa.string()), nullable=False),
        ]
    )


def _write(path: Path, outcomes: Sequence[FinishedRun]) -> None:
    columns = {
        "config": [outcome.key for outcome in outcomes],
        "repetition": [outcome.repetition for outcome in outcomes],
        "seed": [outcome.seed for outcome in outcomes],
        "error": [outcome.error for outcome in outcomes],
        "measures": [list(outcome.measures.items()) for outcome in outcomes],
        "notes": [list(outcome.notes.items()) for outcome in outcomes],
    }
    write_parquet(path, arrow().Table.from_pydict(columns, schema=_schema()))


def _read_part(path: Path) -> list[FinishedRun]:
    try:
        rows = parquet().read_table(path).to_pylist()
    except (OSError, ValueError) as error:  # Arrow's own errors are of these kinds
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return [
        FinishedRun(
            row["config"], row["repetition"], row["seed"], dict(row["measures"]),
            dict(row["notes"]), row["error"],
        )
        for row in rows
    ]  # fmt: skip


def write_whole(path: Path, text: str) -> None:
    write_file(path, text.encode())
