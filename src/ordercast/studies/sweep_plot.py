"""The figure of a sweep: a panel for each measure that varies, against the parameter with the most
values, a curve for each combination of the other parameters."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.pipeline.sweeps.results import FAILED, ResultRow, Results
from ordercast.pipeline.sweeps.units import unit_of
from ordercast.plan.colours import PALETTE
from ordercast.studies.figures import (
    MARKERS,
    draw_curve,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.reproduction import Spot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = 3
_MOST_CURVES = 24
_WIDE = 20  # times: where the values of the x axis span more, it is logarithmic


def sweep_figure(results: Results) -> "Figure":
    """Draw the figure. Raises ConfigError if there is nothing to draw, or if there are too many
    curves to tell apart."""
    varying = _varying(results)
    measures = [name for name in dict.fromkeys(row.measure for row in results.rows)
                if name != FAILED and _differs(results.where(measure=name))]  # fmt: skip
    if not varying or not measures:
        raise ConfigError("--plot: there is nothing to draw: no parameter changes any measure")
    x = max(varying, key=lambda name: (_numbers(varying[name]), len(varying[name])))
    others = [name for name in varying if name != x]
    series = dict.fromkeys(_of(row.parameters, others) for row in results.rows)
    if len(series) > _MOST_CURVES:
        raise ConfigError(
            f"--plot: {len(series):,} curves are too many to tell apart (at most {_MOST_CURVES}):"
            f" sweep fewer values of {', '.join(others)}"
        )
    columns = min(_COLUMNS, len(measures))
    lines = math.ceil(len(measures) / columns)
    figure, axes = new_figure(4.2 * columns, 0.5 + 3.0 * lines, lines, columns)
    places = _places(varying[x])
    for ax, measure in zip(axes, measures, strict=False):
        for number, combination in enumerate(series):
            spots = [
                Spot(places[_value(row.parameters, x)], row.mean, row.ci95 or 0.0)
                for row in results.where(measure=measure)
                if row.mean is not None
                and x in row.parameters
                and _of(row.parameters, others) == combination
            ]
            name = ", ".join(f"{key} {_named(value)}" for key, value in combination)
            draw_curve(
                ax, sorted(spots, key=lambda spot: spot.x), name or measure,
                PALETTE[number % len(PALETTE)], MARKERS[number // len(PALETTE) % len(MARKERS)],
            )  # fmt: skip
        title(ax, measure)
        label(ax, x, unit_of(measure))
        _fit_x(ax, varying[x])
        if all((row.mean or 0) >= 0 for row in results.where(measure=measure)):
            ax.set_ylim(bottom=0)
    for ax in axes[len(measures) :]:
        ax.set_visible(False)
    if others:
        legend_above(figure, axes[0], columns=min(4, len(series)))
    return figure


def _varying(results: Results) -> dict[str, list[Any]]:
    """The parameters with several values, in the order of the results."""
    found = {
        name: list(dict.fromkeys(_value(row.parameters, name) for row in results.rows
                                 if name in row.parameters))
        for name in results.parameters
    }  # fmt: skip
    return {name: values for name, values in found.items() if len(values) > 1}


def _value(parameters: Mapping[str, Any], name: str) -> Any:
    """Lists and tables as text: they have no place on an axis."""
    value = parameters[name]
    return value if isinstance(value, int | float | str) else str(value)


def _differs(rows: Sequence[ResultRow]) -> bool:
    means = {row.mean for row in rows if row.mean is not None}
    return len(means) > 1 or any(row.ci95 for row in rows)


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _places(values: Sequence[Any]) -> dict[Any, float]:
    if _numbers(values):
        return {value: float(value) for value in values}
    return {value: float(place) for place, value in enumerate(values)}


def _named(value: Any) -> str:
    return str(value) or "none"


def _fit_x(ax: Any, values: Sequence[Any]) -> None:
    if not _numbers(values):
        ax.set_xticks(range(len(values)), [_named(value) for value in values])
    elif min(values) > 0 and max(values) >= _WIDE * min(values):
        log_axis(ax, "x")


def _of(parameters: Mapping[str, Any], names: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, _value(parameters, name)) for name in names if name in parameters)
