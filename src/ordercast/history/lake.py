"""Lakes: histories that grow by appends. What readers need: which files count, at one time.

A lake is a history whose folder has `lake.json`: it names the files of every table, or the versions
of its Delta tables, so that a reader sees whole appends only. docs/history.md has the layout and
the argument.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from ordercast.history import delta_tables
from ordercast.model.errors import ConfigError

LAKE_FILE = "lake.json"
PARQUET, DELTA = "parquet", "delta"
FORMATS = (PARQUET, DELTA)
_VERSION = 1
_NUMBERED = re.compile(r"(?:append|merged)-(\d+)(?:-(\d+))?\.parquet")


class DeltaVersion(NamedTuple):
    """The version of a Delta table after the last append that wrote to it."""

    version: int
    append: int


class Lake(msgspec.Struct, kw_only=True):
    """What `lake.json` says. Files are named below the lake's folder. `replaced`: files that were
    merged, and when, in nanoseconds; they are hidden and removed later. `marks`: the file that says
    how far the stores are in the lake."""

    format: str
    cluster: str
    schema_version: int = _VERSION
    append: int = 0
    marks: str = ""
    files: dict[str, list[str]] = {}
    versions: dict[str, DeltaVersion] = {}
    replaced: dict[str, int] = {}


def read_lake(folder: Path) -> Lake | None:
    """None: the folder is no lake."""
    return parse_lake(folder / LAKE_FILE)


def parse_lake(path: Path) -> Lake | None:
    """None: there is no such file."""
    try:
        lake = msgspec.json.decode(path.read_bytes(), type=Lake)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    if lake.schema_version != _VERSION or lake.format not in FORMATS:
        raise ConfigError(
            f"{path}: field 'schema_version': {lake.schema_version} with format {lake.format!r} is"
            f" not known (this version reads {_VERSION} with {' or '.join(FORMATS)})"
        )
    return lake


def lake_files(folder: Path, lake: Lake, table: str) -> list[Path]:
    """The Parquet files of a table, as `lake` has them."""
    if lake.format == DELTA:
        pinned = lake.versions[table]
        return delta_tables.files(folder / table, pinned.version, pinned.append)
    return [folder / name for name in lake.files.get(table, ())]


def still_at(path: Path) -> Path:
    """Where a file is that may have been merged with others since it was listed: then it is hidden
    in its folder."""
    return path if path.exists() else hidden(path)


def hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}")


def appends_in(name: str) -> range:
    """The numbers of the appends whose rows are in a file of a Parquet lake."""
    found = _NUMBERED.fullmatch(name.rpartition("/")[2])
    if found is None:
        raise ConfigError(f"{name}: is not a name of a file in a lake")
    first, last = int(found[1]), int(found[2] or found[1])
    return range(first, last + 1)


def merged_from(name: str, others: Mapping[str, object] | set[str]) -> list[str]:
    """The files among the others that a merged file has replaced: of its folder and its appends."""
    place = name.rpartition("/")[0]
    within = appends_in(name)
    return [
        other
        for other in others
        if other != name and other.rpartition("/")[0] == place and appends_in(other)[0] in within
    ]
