"""A history as a feed: its table `deliveries`, which may grow while a query reads it.

Each file is examined once: which positions of which sites it has, and whether they are in order.
Rows that a rollback has taken back are left out. At `agreed` a later export may take back the end
of an earlier one. If the query has read that end, it is a loss of data.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ordercast.history.lake import Lake, read_lake, still_at
from ordercast.history.reader import (
    present_columns,
    refuse_partition,
    require_history,
    table_files,
)
from ordercast.history.rows import ROLLBACK as ROLLBACK_EVENT
from ordercast.history.schema import arrow, parquet
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site
from ordercast.model.names import nearest
from ordercast.pipeline.streams.columns import (
    BATCH_ROWS,
    DELIVERY,
    HEADERS,
    RowsOfBatches,
    arrow_columns,
)
from ordercast.pipeline.streams.feed import lost
from ordercast.pipeline.streams.offsets import Offset, Offsets, PositionRange
from ordercast.pipeline.streams.options import SourceOptions
from ordercast.pipeline.streams.rollbacks import Rollbacks

_TABLE = TABLES["deliveries"]
_MADE = ("payload", HEADERS, "sent_at", "kind", "positions")  # not as the table has them


class SiteRows(NamedTuple):
    """The rows of one site in one file. `ends`: the last position of each attempt. `sorted`: the
    rows are in order."""

    first: int
    last: int
    ends: tuple[Offset, ...]
    sorted: bool


class HistoryPart(NamedTuple):
    """The files that have rows of a range, and the rollbacks of its site."""

    files: tuple[tuple[Path, SiteRows], ...]
    rollbacks: Rollbacks


@dataclass(frozen=True, slots=True)
class HistoryContents:
    """What the files have, by path and site, at one time."""

    files: Mapping[Path, Mapping[Site, SiteRows]]
    rollbacks: Mapping[Site, Rollbacks]

    def sites(self) -> list[Site]:
        return sorted({site for rows in self.files.values() for site in rows})

    def of(self, site: Site) -> list[tuple[Path, SiteRows]]:
        """The files with rows of a site, by position."""
        found = [(path, rows[site]) for path, rows in self.files.items() if site in rows]
        return sorted(found, key=lambda each: (each[1].first, each[0]))

    def end(self, site: Site) -> Offset:
        """The last row that stands, and the last attempt."""
        rollbacks = self.rollbacks.get(site, Rollbacks())
        ends = [end for _, rows in self.of(site) for end in rows.ends]
        limits = [(end.position, rollbacks.limit(end.attempt)) for end in ends]
        return Offset(
            max(each.attempt for each in (*ends, *rollbacks.found)),
            max(last if limit is None else min(last, limit) for last, limit in limits),
        )


class HistoryFeed:
    """`run`: the one that is read, of a history with several."""

    def __init__(self, options: SourceOptions) -> None:
        assert options.history is not None
        self._folder = options.history
        self._options = options

    def first(self) -> Offsets:
        contents = self._contents()
        found = {}
        for site in self._sites(contents):
            before = min(rows.first for _, rows in contents.of(site)) - 1
            rollbacks = contents.rollbacks.get(site, Rollbacks())
            found[site] = Offset(rollbacks.attempt_at(before), before)
        return found

    def unread(self) -> None:
        """A history does not know its readers."""

    def latest(self, start: Offsets) -> Offsets:
        contents = self._contents()
        found = dict(start)
        for site in self._sites(contents):
            rows = [each for _, each in contents.of(site)]
            end = contents.end(site)
            found[site] = end
            begin = start.get(site)
            rollbacks = contents.rollbacks.get(site, Rollbacks())
            if begin is None or (rollbacks.annul(begin) and self._options.rollbacks):
                continue
            first = min(each.first for each in rows)
            error = None
            if rollbacks.annul(begin):
                error = lost(site, begin.position, 0, "they were taken back by a rollback")
                found[site] = Offset(end.attempt, min(end.position, begin.position - 1))
            elif begin.position < first - 1:
                why = "the history begins above them"
                error = lost(site, begin.position + 1, first - 1, why)
            elif end.position < begin.position:
                why = f"the history ends at {end.position}: it is another one"
                error = lost(site, begin.position + 1, 0, why)
            if error is not None and self._options.fail_on_data_loss:
                raise error
        return found

    def rollbacks(self) -> Mapping[Site, Rollbacks]:
        return self._contents().rollbacks

    def part(self, span: PositionRange) -> "HistoryPart":
        """Where the rows of a range are, for the task that reads them."""
        contents = self._contents()
        rollbacks = contents.rollbacks.get(span.site, Rollbacks())
        if self._options.rollbacks:
            rollbacks = rollbacks.until(span.attempt)
        files = [
            (path, rows)
            for path, rows in contents.of(span.site)
            if rows.last > span.after and rows.first <= span.last
        ]
        return HistoryPart(tuple(files), rollbacks)

    def confirm(self, offsets: Mapping[Site, Offset]) -> None:
        """Does nothing: a history keeps all its rows."""

    def close(self) -> None: ...

    def _contents(self) -> HistoryContents:
        return contents_of_history(self._folder, self._options.run)

    def _sites(self, contents: HistoryContents) -> list[Site]:
        known = contents.sites()
        for site in self._options.sites:
            if site not in known:
                hint = nearest(site, known)
                raise ConfigError(f"sites: {self._folder} has no deliveries of {site!r}{hint}")
        return list(self._options.sites) or known


def contents_of_history(folder: Path, run: str | None) -> HistoryContents:
    require_history(folder)
    files = {}
    lake = read_lake(folder)
    for path in table_files(folder, _TABLE.name, lake):
        told = still_at(path).stat()
        files[path] = _sites_in(path, told.st_size, told.st_mtime_ns, run)
    return HistoryContents(files, _rollbacks(folder, lake, run))


@lru_cache(maxsize=65_536)
def _sites_in(path: Path, _size: int, _changed_ns: int, run: str | None) -> Mapping[Site, SiteRows]:
    """`_size` and `_changed_ns` are of the file: another file of this name is looked at again."""
    pc = _compute()
    data = _read(path, ["site", "position", "attempt"], run)
    sites, positions = data["site"].combine_chunks(), data["position"].combine_chunks()
    in_order = len(data) < 2 or not pc.any(_falls(sites, positions)).as_py()
    wanted = [("position", "min"), ("position", "max")]
    by_site: dict[Site, list[Any]] = {}
    for row in data.group_by(["site", "attempt"]).aggregate(wanted).to_pylist():
        by_site.setdefault(row["site"], []).append(row)
    return {
        site: SiteRows(
            min(row["position_min"] for row in rows),
            max(row["position_max"] for row in rows),
            tuple(Offset(row["attempt"], row["position_max"]) for row in rows),
            in_order,
        )
        for site, rows in by_site.items()
    }


def _falls(sites: Any, positions: Any) -> Any:
    """Where a row stands before the one that it follows, by site and position."""
    pc = _compute()
    same = pc.equal(sites[1:], sites[:-1])
    lower = pc.less(positions[1:], positions[:-1])
    return pc.or_(pc.less(sites[1:], sites[:-1]), pc.and_(same, lower))


def _rollbacks(folder: Path, lake: Lake | None, run: str | None) -> Mapping[Site, Rollbacks]:
    if not (folder / "events").is_dir():
        return {}
    found: dict[Site, list[tuple[int, int]]] = {}
    for path in table_files(folder, "events", lake):
        told = still_at(path).stat()
        for site, attempt, position in _rollbacks_in(path, told.st_size, told.st_mtime_ns, run):
            found.setdefault(site, []).append((attempt, position))
    return {
        site: Rollbacks(tuple(Offset(*one) for one in sorted(each))) for site, each in found.items()
    }


@lru_cache(maxsize=65_536)
def _rollbacks_in(
    path: Path, _size: int, _changed_ns: int, run: str | None
) -> tuple[tuple[Site, int, int], ...]:
    pc = _compute()
    data = _read(path, ["site", "kind", "position", "attempt"], run)
    rows = data.filter(pc.equal(data["kind"], ROLLBACK_EVENT)).to_pylist()
    return tuple((row["site"], row["attempt"], row["position"]) for row in rows)


def _read(path: Path, columns: list[str], run: str | None) -> Any:
    """Some columns of a file, of the run that is wanted."""
    pa, pc = arrow(), _compute()
    try:
        with parquet().ParquetFile(still_at(path)) as file:
            has_runs = "run" in file.schema_arrow.names
            data = file.read(columns=[*columns, *(["run"] if has_runs else [])])
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        said = (str(error).splitlines() or [""])[0].rstrip(".")
        raise ConfigError(f"{path}: cannot be read as Parquet: {said}") from None
    for name in columns:
        if name not in data.column_names:
            raise ConfigError(f"{path}: field {name!r} is missing")
    if not has_runs:
        refuse_partition(path.parts, "run", path)
    return data if not has_runs else data.filter(_of_run(path, data["run"], run, pc))


def _of_run(path: Path, runs: Any, run: str | None, pc: Any) -> Any:
    if run is not None:
        return pc.fill_null(pc.equal(runs, run), False)
    if pc.count(runs).as_py():
        one = pc.drop_null(runs)[0].as_py()
        raise ConfigError(f"{path}: is of run {one!r}, and maybe others: choose one with 'run'")
    return pc.is_null(runs)


# --- in a task ------------------------------------------------------------------------------------


def read_history_span(
    options: SourceOptions, part: HistoryPart, span: PositionRange
) -> Iterator[Any]:
    """The Arrow batches of a range."""
    rows = [each for _, each in part.files]
    if span.told:
        told = RowsOfBatches(span.site, options.headers)
        told.add_rollbacks(span)
        yield told.take()
    if span.last <= span.after and not span.anew:
        return
    yield from _gaps(options, span, rows)
    wanted = _Wanted(span, options, part.rollbacks)
    if all(each.sorted for each in rows) and _apart(rows):
        for path, _ in part.files:
            yield from wanted.batches(path)
        return
    batches = [batch for path, _ in part.files for batch in wanted.batches(path)]
    if batches:
        table = arrow().Table.from_batches(batches).sort_by("position")
        yield from table.to_batches(max_chunksize=BATCH_ROWS)


def _gaps(options: SourceOptions, span: PositionRange, rows: list[SiteRows]) -> Iterator[Any]:
    first = min((each.first for each in rows), default=span.last + 1)
    if not span.anew and (first <= span.after + 1 or span.joins):
        return
    begins = span.after + 1
    if not span.anew and options.fail_on_data_loss:
        raise lost(span.site, begins, min(first - 1, span.last), "the history begins above them")
    schema = arrow_columns(options.headers)
    gap = {"site": span.site, "position": begins, "attempt": 0, "kind": "gap"}
    gap["positions"] = 0 if span.anew else min(first, span.last + 1) - begins
    yield arrow().RecordBatch.from_pylist([gap], schema=schema)


def _apart(rows: list[SiteRows]) -> bool:
    """Whether no file has positions of another."""
    return all(one.last < other.first for one, other in pairwise(rows))


class _Wanted:
    """Which rows of a file are read, and as what."""

    def __init__(self, span: PositionRange, options: SourceOptions, rollbacks: Rollbacks) -> None:
        self._span = span
        self._run = options.run
        self._groups: tuple[Group, ...] | None = options.groups
        self._rollbacks = rollbacks
        self._latest = span.attempt if options.rollbacks else None
        self._schema = arrow_columns(options.headers)
        self._headers = options.headers

    def batches(self, path: Path) -> Iterator[Any]:
        pa = arrow()
        with parquet().ParquetFile(still_at(path)) as file:
            columns = [column.name for column in present_columns(file.schema_arrow, _TABLE, path)]
            groups = [n for n in range(file.num_row_groups) if self._may_have(file, n)]
            for batch in file.iter_batches(BATCH_ROWS * 4, row_groups=groups, columns=columns):
                table = pa.Table.from_batches([batch])
                found = table.filter(self._mask(table, path))
                if found.num_rows:
                    yield from self._shaped(found).to_batches()

    def _may_have(self, file: Any, n: int) -> bool:
        """By the least and greatest values of the row group, where the file tells them."""
        group = file.metadata.row_group(n)
        wanted = {
            "site": (self._span.site,) * 2,
            "position": (self._span.after + 1, self._span.last),
        }
        for at in range(group.num_columns):
            column = group.column(at)
            told = column.statistics
            if column.path_in_schema in wanted and told is not None and told.has_min_max:
                low, high = wanted[column.path_in_schema]
                if told.max < low or told.min > high:
                    return False
        return True

    def _mask(self, table: Any, path: Path) -> Any:
        pc, span = _compute(), self._span
        position, attempt = table["position"], table["attempt"]
        mask = pc.and_(
            pc.equal(table["site"], span.site),
            pc.and_(pc.greater(position, span.after), pc.less_equal(position, span.last)),
        )
        if self._groups is not None:
            wanted = pc.is_in(table["group_name"], value_set=arrow().array(self._groups))
            if "addressed" in table.column_names:  # of a send to several groups
                named = pc.match_substring_regex(table["addressed"], _any_of(self._groups))
                wanted = pc.or_(wanted, pc.fill_null(named, False))
            mask = pc.and_(mask, wanted)
        if self._latest is not None:
            mask = pc.and_(mask, pc.less_equal(attempt, self._latest))
        for later, stays in self._rollbacks.found:
            annulled = pc.and_(pc.less(attempt, later), pc.greater(position, stays))
            mask = pc.and_(mask, pc.invert(annulled))
        if "run" in table.column_names:
            mask = pc.and_(mask, _of_run(path, table["run"], self._run, pc))
        return mask

    def _shaped(self, table: Any) -> Any:
        pa, rows = arrow(), table.num_rows
        arrays = []
        for field in self._schema:
            if field.name == "kind":
                found = pa.repeat(DELIVERY, rows)
            elif field.name == "positions":
                found = pa.repeat(pa.scalar(1, pa.int64()), rows)
            elif field.name == "sent_at" and "sent_ns" in table.column_names:
                micros = _compute().divide(table["sent_ns"].cast(pa.int64()), 1_000)
                found = micros.cast(field.type)
            elif field.name == HEADERS and HEADERS in table.column_names:
                found = pa.array(
                    [_header_items(each) for each in table[HEADERS].to_pylist()], field.type
                )
            elif field.name in table.column_names and field.name not in _MADE:
                found = table[field.name].cast(field.type)
            else:
                found = pa.nulls(rows, field.type)
            arrays.append(found)
        return pa.Table.from_arrays(arrays, schema=self._schema).combine_chunks()


def _header_items(text: str | None) -> list[tuple[str, bytes]]:
    if text is None:
        return []
    return [(name, base64.b64decode(value)) for name, value in json.loads(text).items()]


def _compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute


def _any_of(groups: Iterable[Group]) -> str:
    """A pattern for lists with commas between that have one of these groups."""
    return f"(^|,)({'|'.join(map(re.escape, groups))})(,|$)"
