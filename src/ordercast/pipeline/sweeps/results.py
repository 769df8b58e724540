"""A sweep's results: one row per point and measure, as CSV and Parquet, and every run beside them.

The long table has the parameters as columns, then `measure`, `mean`, `ci95` (half width), `runs`. A
point with failed runs has a row `failed` with how many, the first error and its seed. The wide
table is for a person: one row per point, a column for each measure with its unit.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.history.schema import arrow
from ordercast.history.writer import write_parquet
from ordercast.pipeline.sweeps.rounds import Progressed, values_of
from ordercast.pipeline.sweeps.statistics import estimate
from ordercast.pipeline.sweeps.store import write_whole
from ordercast.pipeline.sweeps.tasks import FinishedRun, Point
from ordercast.pipeline.sweeps.units import unit_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAILED = "failed"
_COLUMNS = ("measure", "mean", "ci95", "runs", "error", "seed")


@dataclass(frozen=True, slots=True)
class ResultRow:
    """`mean` and `ci95` are None where there is nothing to average."""

    parameters: Mapping[str, Any]
    measure: str
    mean: float | None
    ci95: float | None
    runs: int
    error: str | None = None
    seed: int | None = None

    def as_json(self) -> dict[str, Any]:
        shown = {
            "measure": self.measure, "mean": self.mean, "ci95": self.ci95, "runs": self.runs,
        }  # fmt: skip
        if self.measure == FAILED:
            shown |= {"error": self.error, "seed": self.seed}
        return {**self.parameters, **shown}


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of a sweep or a reproduction; `parameters` names all that any of them has."""

    rows: Sequence[ResultRow]
    parameters: Sequence[str] = field(default=())

    @classmethod
    def of(cls, rows: Sequence[ResultRow]) -> "Results":
        """These rows, with their parameters in the order in which they first come. Raises
        nothing."""
        return cls(rows, list(dict.fromkeys(name for row in rows for name in row.parameters)))

    def where(self, **wanted: Any) -> list[ResultRow]:
        """Rows with these parameters; `measure` may be among them. Raises nothing."""
        return [
            row
            for row in self.rows
            if all(
                {**row.parameters, "measure": row.measure}.get(k) == v for k, v in wanted.items()
            )
        ]

    def points(self) -> list[tuple[Mapping[str, Any], dict[str, ResultRow]]]:
        """Each point's parameters, and its rows by measure. Raises nothing."""
        found: dict[str, tuple[Mapping[str, Any], dict[str, ResultRow]]] = {}
        for row in self.rows:
            place = found.setdefault(repr(sorted(row.parameters.items())), (row.parameters, {}))
            place[1][row.measure] = row
        return list(found.values())

    def as_arrow(self) -> Any:
        """The long table as Arrow's. Raises ConfigError if PyArrow is missing."""
        return _table(*self._long())

    def as_frame(self, spark: "SparkSession") -> "DataFrame":
        """The long table as a DataFrame of your session, Spark Connect too. Raises what Spark
        raises."""
        return spark.createDataFrame(self.as_arrow())

    def as_wide(self) -> Any:
        """The wide table as Arrow's: of each measure the mean, and `MEASURE_ci95`; the unit is in
        the metadata of the column. Raises ConfigError if PyArrow is missing."""
        header, lines = self._wide()
        table = _table([name for name, _ in header], lines)
        for place, (_, unit) in enumerate(header):
            if unit:
                column = table.field(place).with_metadata({"unit": unit})
                table = table.set_column(place, column, table.column(place))
        return table

    def _long(self) -> tuple[list[str], list[list[Any]]]:
        header = [*self.parameters, *_COLUMNS]
        lines = [
            [*(row.parameters.get(p) for p in self.parameters),
             row.measure, row.mean, row.ci95, row.runs, row.error, row.seed]
            for row in self.rows
        ]  # fmt: skip
        return header, lines

    def _wide(self) -> tuple[list[tuple[str, str]], list[list[Any]]]:
        """Names of columns with their units, and a line for each point."""
        points = self.points()
        measures = dict.fromkeys(row.measure for row in self.rows if row.measure != FAILED)
        header = [(name, "") for name in (*self.parameters, "runs", FAILED)]
        for name in measures:
            header += [(name, unit_of(name)), (f"{name}_ci95", unit_of(name))]
        lines = []
        for config, rows in points:
            good = [row.runs for name, row in rows.items() if name != FAILED]
            line = [*(config.get(p) for p in self.parameters), max(good, default=0),
                    rows[FAILED].runs if FAILED in rows else 0]  # fmt: skip
            for name in measures:
                row = rows.get(name)
                line += [None, None] if row is None else [row.mean, row.ci95]
            lines.append(line)
        return header, lines


def results_of(state: Progressed) -> Results:
    rows = [row for point in state.points for row in _rows_of(point, state.runs(point))]
    return Results.of(rows)


def _rows_of(point: Point, runs: Sequence[FinishedRun]) -> Iterable[ResultRow]:
    for measure, values in values_of(runs).items():
        found = estimate(values)
        yield ResultRow(point.config, measure, found.mean, found.ci95, found.runs)
    broken = [run for run in runs if run.error]
    if broken:
        first = broken[0]
        yield ResultRow(point.config, FAILED, None, None, len(broken), first.error, first.seed)


def write_results(results: Results, folder: Path, name: str) -> list[Path]:
    """`name.csv` and `name.parquet`, each of them whole or not there."""
    header, lines = results._long()
    return [
        _write_csv(folder / f"{name}.csv", header, lines),
        _write_table(folder / f"{name}.parquet", header, lines),
    ]


def write_wide(results: Results, path: Path) -> Path:
    """The wide table as CSV, with units: `latency_ms_mean [ms]`."""
    header, lines = results._wide()
    return _write_csv(path, [f"{name} [{unit}]" if unit else name for name, unit in header], lines)


def write_runs(state: Progressed, folder: Path) -> Path:
    """`runs.parquet`: every run with its parameters, seed, error and measures as columns."""
    points = {point.key: point for point in state.points}
    runs = [(points[run.key], run) for point in state.points for run in state.runs(point)]
    parameters = list(dict.fromkeys(name for point, _ in runs for name in point.config))
    measures = list(dict.fromkeys(name for _, run in runs for name in run.measures))
    notes = list(dict.fromkeys(name for _, run in runs for name in run.notes))
    header = [*parameters, "repetition", "seed", "error", *measures, *notes]
    lines = [
        [*(point.config.get(p) for p in parameters), run.repetition, run.seed, run.error or None,
         *(run.measures.get(m) for m in measures), *(run.notes.get(n) for n in notes)]
        for point, run in runs
    ]  # fmt: skip
    return _write_table(folder / "runs.parquet", header, lines)


def read_results(path: Path) -> Results:
    """Results from their Parquet file."""
    from ordercast.history.schema import parquet

    table = parquet().read_table(path)
    names = [name for name in table.column_names if name not in _COLUMNS]
    rows = [
        ResultRow(
            {name: line[name] for name in names if line[name] is not None},
            *(line[name] for name in _COLUMNS),
        )
        for line in table.to_pylist()
    ]
    return Results(rows, names)


def _write_csv(path: Path, header: Sequence[str], lines: Iterable[Sequence[Any]]) -> Path:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_plain(value) for value in line] for line in lines)
    write_whole(path, text.getvalue())
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float | str) or value is None else _as_text(value)


def _write_table(path: Path, header: Sequence[str], lines: Sequence[Sequence[Any]]) -> Path:
    write_parquet(path, _table(header, lines))
    return path


def _table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> Any:
    columns = [_column(name, [line[place] for line in lines]) for place, name in enumerate(header)]
    return arrow().table(dict(zip(header, columns, strict=True)))


def _column(name: str, values: Sequence[Any]) -> Any:
    """One type for all values: of parameters that come in several kinds, text."""
    pa = arrow()
    fixed = {
        "measure": pa.string(), "mean": pa.float64(), "ci95": pa.float64(), "runs": pa.int64(),
        "error": pa.string(), "seed": pa.int64(), "repetition": pa.int64(),
    }  # fmt: skip
    if name in fixed:
        return pa.array(values, fixed[name])
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int}:
        return pa.array(values, pa.int64())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= {int, float}:
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    return pa.array([None if v is None else _as_text(v) for v in values], pa.string())


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return str(value)
