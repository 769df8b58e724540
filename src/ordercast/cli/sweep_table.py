"""The results of a sweep on the screen: a line for each point, a column for each measure
with its unit.

Columns that do not fit beside each other follow in a further block of lines.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.pipeline.sweeps.results import ResultRow, Results

_POINTS = 40  # lines of a block
_NARROWEST = 80


def result_lines(results: "Results", width: int | None = None) -> list[str]:
    """`width`: of the screen, in characters (default: the terminal's)."""
    from ordercast.pipeline.sweeps.units import unit_of
    from ordercast.plan.report import aligned

    if width is None:
        width = max(_NARROWEST, shutil.get_terminal_size((100, 24)).columns)
    points = results.points()
    if not points:
        return []
    same = _same_everywhere(points)
    varying = [n for n in results.parameters if len({str(p.get(n)) for p, _ in points}) > 1]
    measures = dict.fromkeys(name for _, rows in points for name in rows if name not in same)
    shown = points[:_POINTS]
    blank = [""] * len(varying)
    left = [varying, blank, *([str(config.get(n, "")) for n in varying] for config, _ in shown)]
    columns = [
        [name, unit_of(name), *(_cell(rows.get(name)) for _, rows in shown)] for name in measures
    ]
    lines: list[str] = []
    for block in _blocks(left, columns, width):
        rows = [[*cells, *(column[n] for column in block)] for n, cells in enumerate(left)]
        if not any(rows[1]):
            del rows[1]
        lines += ["", *aligned(rows, left=range(len(varying)))]
    if len(points) > len(shown):
        lines.append(f"... {len(points) - len(shown):,} more points")
    if same:
        told = ", ".join(f"{name} {_number(row.mean)}" for name, row in same.items())
        lines += ["", f"the same in all runs: {told}"]
    lines.append(f"{_runs(points)}; ± is half of a 95 % interval")
    return lines[1:] if lines[0] == "" else lines


def _same_everywhere(
    points: "Sequence[tuple[Mapping[str, Any], dict[str, ResultRow]]]",
) -> "dict[str, ResultRow]":
    """Measures with one value in all runs of all points. Of one point all measures are shown."""
    if len(points) == 1:
        return {}
    first = points[0][1]
    return {
        name: row
        for name, row in first.items()
        if row.mean is not None
        and all(
            name in rows and rows[name].mean == row.mean and not rows[name].ci95
            for _, rows in points
        )
    }


def _blocks(
    left: Sequence[Sequence[str]], columns: Sequence[list[str]], width: int
) -> Iterator[list[list[str]]]:
    """The columns in blocks that fit beside the parameters; at least one column each."""
    taken = sum(max(map(len, column)) + 2 for column in zip(*left, strict=True))
    block: list[list[str]] = []
    room = width - taken
    for column in columns:
        wide = max(map(len, column)) + 2
        if block and wide > room:
            yield block
            block, room = [], width - taken
        block.append(column)
        room -= wide
    if block:
        yield block


def _cell(row: "ResultRow | None") -> str:
    if row is None:
        return ""
    if row.mean is None:
        return f"{row.runs:,}"  # of failed runs, how many
    interval = "" if row.ci95 is None else f" ± {float(f'{row.ci95:.2g}'):,g}"
    return f"{_number(row.mean)}{interval}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"


def _runs(points: "Sequence[tuple[Mapping[str, Any], dict[str, ResultRow]]]") -> str:
    counts = [max(row.runs for row in rows.values()) for _, rows in points]
    least, most = min(counts), max(counts)
    return f"{least:,} runs each" if least == most else f"{least:,} to {most:,} runs each"
