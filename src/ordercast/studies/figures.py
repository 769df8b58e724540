"""Figures a person would print: curves with error bars, direct titles, few colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError
from ordercast.plan.canvas import can_draw
from ordercast.plan.colours import INK, PALETTE
from ordercast.studies.reproduction import Spot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLOURS = {
    "propagation": PALETTE[0],
    "greedy": PALETTE[0],
    "centralized": PALETTE[4],
    "star": PALETTE[4],
    "two_phase": PALETTE[2],
    "balanced": PALETTE[2],
}
LABELS = {"two_phase": "two-phase"}
GREY = "#7F8C8D"
_AXIS_PT = 38  # high are the numbers and the name of an axis


def require_figures() -> None:
    if not can_draw():
        raise ConfigError(
            "figures need matplotlib, which the extra 'plot' brings: pip install 'ordercast[plot]'"
        )


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple["Figure", list["Axes"]]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    room = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.09)  # inches: labels stay off the edge
    figure = Figure(figsize=(width, height), layout=room)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    found = [ax for line in axes for ax in line]
    for ax in found:
        ax.grid(visible=True, color="#E5E8E8", lw=0.7)
        ax.set_axisbelow(True)
        ax.tick_params(labelsize=9)
    return figure, found


def title(ax: "Axes", text: str) -> None:
    ax.set_title(text, fontsize=10.5, loc="left", color=INK, fontweight="bold")


def label(ax: "Axes", x: str, y: str) -> None:
    ax.set_xlabel(x, fontsize=10)
    ax.set_ylabel(y, fontsize=10)


def draw_curve(
    ax: "Axes", spots: Sequence[Spot], name: str, colour: str, marker: str = "o", line: str = "-"
) -> None:
    """Means with their 95 % intervals."""
    ax.errorbar(
        [spot.x for spot in spots],
        [spot.y for spot in spots],
        yerr=[spot.ci for spot in spots],
        label=name,
        color=colour,
        marker=marker,
        ls=line,
        lw=1.6,
        ms=4.5,
        capsize=2.5,
        elinewidth=1.0,
    )


def draw_line(ax: "Axes", spots: Sequence[Spot], **style: Any) -> None:
    """Means alone, joined."""
    ax.plot([spot.x for spot in spots], [spot.y for spot in spots], **style)


def draw_band(
    ax: "Axes", low: Sequence[Spot], middle: Sequence[Spot], high: Sequence[Spot], name: str,
    colour: str,
) -> None:  # fmt: skip
    """The area from `low` to `high`, with the mean between them."""
    xs = [spot.x for spot in middle]
    ax.fill_between(xs, [s.y for s in low], [s.y for s in high], color=colour, alpha=0.15, lw=0)
    ax.plot(xs, [s.y for s in high], color=colour, lw=0.8)
    ax.plot(xs, [s.y for s in low], color=colour, lw=0.8)
    ax.plot(xs, [s.y for s in middle], color=colour, lw=2.0, label=name)


def log_axis(ax: "Axes", which: str, ticks: Sequence[float] | None = None) -> None:
    """Logarithmic, with plain numbers."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, StrMethodFormatter

    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    if ticks is not None:
        axis.set_major_locator(FixedLocator(list(ticks)))
    else:
        low, high = axis.get_data_interval()
        few = high < 200 * max(low, 1e-9)  # decades alone would leave the axis bare
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axis.set_major_formatter(StrMethodFormatter("{x:,.9g}"))
    axis.set_minor_formatter(NullFormatter())


def fit_means(axes: Sequence["Axes"]) -> None:
    """Logarithmic y from the lowest to the highest mean: a wide bar must not set the scale."""
    from matplotlib.container import ErrorbarContainer

    curves = [c for ax in axes for c in ax.containers if isinstance(c, ErrorbarContainer)]
    lines: list[Any] = [each.lines[0] for each in curves]
    means = [y for line in lines for y in line.get_ydata() if y > 0]
    for ax in axes:
        log_axis(ax, "y")
        ax.set_ylim(min(means) / 1.7, max(means) * 1.7)


def reference(ax: "Axes", y: float, text: str, at: str = "right") -> None:
    """A level to compare with, named at its right end, or left where curves rise to it."""
    ax.axhline(y, color=GREY, lw=1.2, ls="--")
    ax.annotate(
        text, (1 if at == "right" else 0, y), xycoords=("axes fraction", "data"),
        xytext=(-4 if at == "right" else 4, -3),
        textcoords="offset points", ha=at, va="top", fontsize=8.5, color=GREY,
        bbox={"fc": "white", "ec": "none", "alpha": 0.8, "pad": 1.0},
    )  # fmt: skip


def legend(ax: "Axes", heading: str | None = None) -> None:
    ax.legend(title=heading, loc="best", fontsize=8.5, title_fontsize=8.5, framealpha=0.9)


def legend_below(ax: "Axes") -> None:
    """Under the panel's axis, in two columns, where it hides nothing: for panels with marks all
    over."""
    from matplotlib.transforms import ScaledTranslation

    figure = ax.get_figure(root=True)
    assert figure is not None
    under = ax.transAxes + ScaledTranslation(0, -_AXIS_PT / 72, figure.dpi_scale_trans)
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=under, ncols=2, fontsize=8.5,
        frameon=False, borderpad=0, borderaxespad=0, columnspacing=1.2, handlelength=1.6,
    )  # fmt: skip


def legend_above(figure: "Figure", ax: "Axes", columns: int) -> None:
    """One legend for all panels, where it hides no curve."""
    handles, names = ax.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="outside upper center", ncols=columns, fontsize=9, frameon=False
    )
