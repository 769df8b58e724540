"""The figures for [TOM] §4, from results alone: formulas as lines, what was measured as marks."""

from typing import TYPE_CHECKING

from ordercast.pipeline.sweeps.results import Results
from ordercast.plan.colours import PALETTE
from ordercast.studies.figures import (
    MARKERS,
    draw_curve,
    draw_line,
    fit_means,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.reproduction import Spot, curve, values
from ordercast.studies.tom.costs import TRANSMISSIONS
from ordercast.studies.tom.runs import MEMBERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = dict(zip(TRANSMISSIONS, (PALETTE[i] for i in (3, 2, 4, 6, 0, 1, 8)), strict=True))
_ONE_AT_A_TIME = ("symmetric", "ring")  # whose corrected formulas are not for sources at once
_MARKS = dict(zip(TRANSMISSIONS, MARKERS, strict=True))
NAMES = {
    "two_phase": "two-phase",
    "propagation": "propagation (MP)",
    "metagroup": "metagroup (MG)",
    "tom": "TOM",
}


def of_members(results: Results, x: str, measure: str, protocol: str, **held: int) -> list[Spot]:
    """The rows against one parameter, for sources that are members; the other parameter has its
    usual value."""
    return curve(results, x, measure, protocol=protocol, sent_by=MEMBERS, **held)


def usual(results: Results, x: str) -> dict[str, int]:
    """The value of the other parameter while x varies: one source, or the group size at which
    sources vary."""
    if x == "size":
        return {"sources": 1}
    several = [row for row in results.rows if row.parameters.get("sources", 1) > 1]
    return {"size": several[0].parameters["size"]}


def table_figure(results: Results) -> "Figure":
    """Table 1: M against receivers and against sources, X against receivers."""
    figure, axes = new_figure(14.5, 5.0, 1, 3)
    for ax, x, measure in (
        (axes[0], "size", "transmissions"),
        (axes[1], "sources", "transmissions"),
        (axes[2], "size", "work_max"),
    ):
        held = usual(results, x)
        for protocol, colour in COLOURS.items():
            spots = of_members(results, x, measure, protocol, **held)
            draw_curve(ax, spots, _name(protocol), colour, _MARKS[protocol], "none")
            if measure == "work_max":
                draw_line(ax, spots, color=colour, lw=1.2)
                continue
            for column, line in (("corrected", "-"), ("printed", ":")):
                spots = of_members(results, x, column, protocol, **held)
                alone = x == "sources" and column == "corrected" and protocol in _ONE_AT_A_TIME
                faint = 0.35 if alone else 1.0
                draw_line(ax, spots, color=colour, lw=1.3, ls=line, alpha=faint)
        _x_axis(ax, [spot.x for spot in of_members(results, x, measure, "two_phase", **held)])
    for part in (axes[:2], axes[2:]):
        fit_means(part)
    hosts = values(results, "sites")[0]
    title(axes[0], f"M, one source, {hosts} hosts")
    label(axes[0], "receivers r", "transmissions, with multicast")
    title(axes[1], f"M, r = {usual(results, 'sources')['size']}, sources at once")
    label(axes[1], "sources s", "transmissions, with multicast")
    title(axes[2], "X, one source")
    label(axes[2], "receivers r", "messages at the busiest host, with multicast")
    axes[0].plot([], [], color="black", lw=1.3, label="corrected formula")
    axes[0].plot([], [], color="black", lw=1.3, ls=":", label="printed formula")
    axes[0].plot([], [], color="black", lw=1.3, alpha=0.35, label="corrected, one at a time")
    legend_above(figure, axes[0], columns=5)
    return figure


def sessions_figure(results: Results) -> "Figure":
    """Figure 5: as the printed formulas draw it, and as the protocols run."""
    figure, axes = new_figure(12.0, 5.2, 1, 2, sharey=True)
    for ax, measure in zip(axes, ("figure_5", "transmissions"), strict=True):
        for protocol, colour in COLOURS.items():
            spots = of_members(results, "sites", measure, protocol)
            draw_curve(ax, spots, _name(protocol), colour, _MARKS[protocol])
        if measure == "figure_5":
            spots = of_members(results, "sites", "figure_5_receivers", "tom")
            draw_curve(ax, spots, "TOM, h = log_B r", COLOURS["tom"], "", ":")
        _x_axis(ax, values(results, "sites"))
        label(ax, "hosts n in the session, r = n/10 receivers", "transmissions per message")
        ax.label_outer()
    fit_means(axes)
    title(axes[0], "Figure 5: the printed formulas, h = log_B n or log_B r")
    title(axes[1], "Measured, one source among the receivers")
    legend_above(figure, axes[0], columns=4)
    return figure


def _x_axis(ax: "Axes", ticks: list[float]) -> None:
    log_axis(ax, "x", sorted(set(ticks)))


def _name(protocol: str) -> str:
    return NAMES.get(protocol, protocol)
