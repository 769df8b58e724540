"""Compact a lake: merge the small files of each day, for those who read it later.

Merged files take their places in one step of the lake, so that a reader sees the old files or the
merged one. The old ones are hidden for a while, for readers that have begun, and
then removed.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ordercast.history import delta_tables
from ordercast.history.lake import (
    DELTA,
    LAKE_FILE,
    DeltaVersion,
    Lake,
    appends_in,
    hidden,
    read_lake,
)
from ordercast.history.lake_writer import LakeWriter, NextLake, arrow_schema_of, locked
from ordercast.history.schema import arrow, parquet
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE
from ordercast.model.errors import ConfigError

KEEP_S = 3600.0
MERGED_ROWS = 1_000_000  # of a merged file; that many are sorted in memory
_GROUP_ROWS = 65_536
_ORDER = {
    "groups": ("site", "epoch", "group_name"),
    "sent": ("origin", "sent_ns", "group_name", "incarnation", "seq"),
    "deliveries": ("site", "position", "attempt"),
    "events": ("site", "n"),
    "epochs": ("epoch", "domain"),
}

OnCompacted = Callable[[str, int, int], None]
"""(table, files merged, files to merge)"""


class CompactedLake(NamedTuple):
    """How many files there were and are, and how many hidden ones were removed."""

    before: int
    after: int
    removed: int


def compact_lake(
    folder: Path,
    *,
    keep_s: float = KEEP_S,
    progress: OnCompacted | None = None,
) -> CompactedLake:
    """Merge files into files of at most `MERGED_ROWS` rows, and remove files that were merged more
    than `keep_s` ago."""
    folder = Path(folder).resolve()
    if read_lake(folder) is None:
        raise ConfigError(f"{folder}: is no lake: it has no {LAKE_FILE}")
    try:
        with locked(folder):
            writer = LakeWriter(folder, Lake(format="", cluster=""))
            writer.finish()
            found = read_lake(folder)
            assert found is not None
            writer.lake = found
            if found.format == DELTA:
                return _compact_delta(writer, keep_s, progress)
            return _compact_parquet(writer, keep_s, progress)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be compacted: {error.strerror or error}") from None


def _compact_parquet(
    writer: LakeWriter, keep_s: float, progress: OnCompacted | None
) -> CompactedLake:
    lake = writer.lake
    before = sum(map(len, lake.files.values()))
    plan = [
        (table, bundle)
        for table in TABLES
        for bundle in _bundles(writer.folder, lake.files.get(table, []))
    ]
    listed = {table: list(names) for table, names in lake.files.items()}
    added, replaced = [], []
    for done, (table, bundle) in enumerate(plan):
        if progress is not None:
            progress(table, done, len(plan))
        name = _merged_name(bundle)
        _merge(table, [writer.folder / each for each in bundle], writer.staged(name))
        listed[table] = sorted({*listed[table], name} - set(bundle))
        added.append(name)
        replaced += bundle
    now = time.time_ns()
    old = {name for name, at_ns in lake.replaced.items() if at_ns <= now - int(keep_s * 1e9)}
    kept = {name: at_ns for name, at_ns in lake.replaced.items() if name not in old}
    kept |= dict.fromkeys(replaced, now)
    if added or old:
        after = msgspec.structs.replace(lake, files=listed, replaced=kept)
        meta = (writer.folder / META_FILE).read_bytes()
        writer.decide(NextLake(lake=after, meta=meta, added=added, hides=replaced))
    for name in old:
        hidden(writer.folder / name).unlink(missing_ok=True)
    return CompactedLake(before, sum(map(len, listed.values())), len(old))


def _compact_delta(
    writer: LakeWriter, keep_s: float, progress: OnCompacted | None
) -> CompactedLake:
    lake = writer.lake
    before = after = 0
    versions = dict(lake.versions)
    for done, table in enumerate(TABLES):
        if progress is not None:
            progress(table, done, len(TABLES))
        was, now, version = delta_tables.compact(writer.folder / table, keep_s)
        versions[table] = DeltaVersion(version, lake.versions[table].append)
        before, after = before + was, after + now
    meta = (writer.folder / META_FILE).read_bytes()
    writer.decide(
        NextLake(lake=msgspec.structs.replace(lake, versions=versions), meta=meta, added=[])
    )
    return CompactedLake(before, after, 0)


def _bundles(folder: Path, names: list[str]) -> Iterator[list[str]]:
    """Consecutive files of one day that together have at most `MERGED_ROWS` rows."""
    days: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: appends_in(name)[0]):
        days.setdefault(name.rpartition("/")[0], []).append(name)
    for _, own in sorted(days.items()):
        bundle: list[str] = []
        total = 0
        for name in own:
            has = parquet().read_metadata(folder / name).num_rows
            if bundle and total + has > MERGED_ROWS:
                if len(bundle) > 1:
                    yield bundle
                bundle, total = [], 0
            bundle.append(name)
            total += has
        if len(bundle) > 1:
            yield bundle


def _merged_name(bundle: list[str]) -> str:
    place = bundle[0].rpartition("/")[0]
    first, last = appends_in(bundle[0])[0], appends_in(bundle[-1])[-1]
    return f"{place}/merged-{first:06}-{last:06}.parquet"


def _merge(table: str, sources: list[Path], place: Path) -> None:
    pa = arrow()
    schema = arrow_schema_of(table)
    read: list[Any] = []
    for source in sources:
        with parquet().ParquetFile(source) as file:
            read.append(file.read(columns=schema.names).cast(schema))
    rows = pa.concat_tables(read)
    rows = rows.sort_by([(column, "ascending") for column in _ORDER[table]])
    parquet().write_table(rows, place, compression="zstd", row_group_size=_GROUP_ROWS)
