"""Write a history as a folder of Parquet tables.

The folder is built under a temporary name beside its place and renamed when it is whole, so a
reader sees all of a history or none of it.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ordercast.history.rows import History, Meta, Row
from ordercast.history.schema import arrow, arrow_schema, parquet
from ordercast.history.tables import TABLES, Table
from ordercast.model.errors import ConfigError
from ordercast.whole_files import drafted

META_FILE = "meta.json"
_PART = "part-00000.parquet"


def write_history(history: History, folder: Path, *, replace: bool = False) -> None:
    """Write all tables and `meta.json`. With `replace`, a history that is there goes first."""
    with built(folder, replace) as building:
        for name, rows in history.tables().items():
            (building / name).mkdir()
            write_table(TABLES[name], rows, building / name / _PART)
        (building / META_FILE).write_bytes(encode_meta(history.meta))


@contextmanager
def built(folder: Path, replace: bool) -> Iterator[Path]:
    """A folder to fill, which becomes `folder` when the block ends well. It lies beside its place,
    so that it can be renamed, and is hidden, so that nobody reads it."""
    arrow()  # a missing extra is told before anything is touched
    folder = Path(folder).resolve()
    _require_free(folder, replace)
    building = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    try:
        building.mkdir(parents=True)
        yield building
        _put(building, folder)
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0]
        raise ConfigError(f"{folder}: cannot write a history: {why}") from None
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_table(table: Table, rows: Sequence[Row], path: Path) -> None:
    """One Parquet file, sorted."""
    write_parquet(path, _arrow_table(table, rows))


def write_parquet(path: Path, table: Any) -> None:
    """A table of Arrow as one file, which is whole or as before."""
    with drafted(path) as draft:
        parquet().write_table(table, draft, compression="zstd")


def _arrow_table(table: Table, rows: Sequence[Row]) -> Any:
    ordered = sorted(rows, key=table.order)
    values = {c.name: [getattr(row, c.name) for row in ordered] for c in table.columns}
    used = tuple(  # an optional column without any value is left out
        c for c in table.columns if not c.optional or any(v is not None for v in values[c.name])
    )
    return arrow().Table.from_pydict(
        {c.name: values[c.name] for c in used}, schema=arrow_schema(table, used)
    )


def encode_meta(meta: Meta) -> bytes:
    return msgspec.json.format(msgspec.json.encode(meta, order="sorted"), indent=1) + b"\n"


def _require_free(folder: Path, replace: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; a history is a folder")
    names = [entry.name for entry in folder.iterdir()]
    if not names or (replace and META_FILE in names):
        return
    if META_FILE in names:
        raise ConfigError(f"{folder}: there is a history already; --replace replaces it")
    raise ConfigError(f"{folder}: is not empty; a history is written to a new or empty folder")


def _put(building: Path, folder: Path) -> None:
    if folder.exists():
        leaving = folder.with_name(f".{folder.name}.{os.getpid()}.old")
        folder.replace(leaving)
        building.replace(folder)
        shutil.rmtree(leaving)
    else:
        building.replace(folder)
