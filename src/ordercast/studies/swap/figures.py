"""The figures for [SWAP], from results alone."""

from typing import TYPE_CHECKING

from ordercast.pipeline.sweeps.results import Results
from ordercast.plan.colours import PALETTE
from ordercast.studies.figures import (
    GREY,
    MARKERS,
    draw_curve,
    draw_line,
    label,
    legend,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.reproduction import Spot, curve, values
from ordercast.studies.swap.runs import LIST, ONE, PROTOCOLS_OF_SWAP, SHAPES, TURNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS = {
    "arrow": (PALETTE[0], "-"),
    "arrow_counting": (PALETTE[0], "--"),
    "combining": (PALETTE[4], "-"),
    "combining_counting": (PALETTE[4], "--"),
    "hybrid": (PALETTE[2], "-"),
    "hybrid:7": (PALETTE[2], "--"),
    "hybrid:3:3": (PALETTE[2], ":"),
}
_LINKS = 10  # that are shown; beyond, nothing travels
_MARKS = dict(zip(PROTOCOLS_OF_SWAP, MARKERS, strict=False))
NAMES = {name: name.replace("_", " ") for name in LOOKS}
"""As they are told, also that with a larger core, which `swap-throughput` alone has."""


def latency_figure(results: Results) -> "Figure":
    """A column per tree: above until the predecessor is known, below until all have delivered."""
    figure, axes = new_figure(13.0, 7.6, 2, 3, sharex=True)
    for column, shape in enumerate(SHAPES):
        for row, (measure, name) in enumerate(
            (("known_hops", "predecessor or number known"), ("delivered_hops", "delivered by all"))
        ):
            ax = axes[3 * row + column]
            for protocol in PROTOCOLS_OF_SWAP:
                colour, line = LOOKS[protocol]
                spots = curve(results, "requests", measure, shape=shape, protocol=protocol)
                draw_curve(ax, spots, NAMES[protocol], colour, _MARKS[protocol], line)
            if not row:
                _draw_bound(ax, results, shape)
            log_axis(ax, "x", values(results, "requests"))
            if shape == LIST:  # counting takes a hundred times as long there
                log_axis(ax, "y")
            else:
                ax.set_ylim(bottom=0)
            title(ax, f"{shape} tree of {values(results, 'sites')[0]}: {name}")
            label(ax, "requests at once" if row else "", "" if column else "hops, mean")
    legend_above(figure, axes[0], columns=4)
    return figure


def _draw_bound(ax: "Axes", results: Results, shape: str) -> None:
    """The paper's bound for arrow, and how far its requests go."""
    longest = curve(results, "requests", "links_max", shape=shape, protocol="arrow")
    wide = curve(results, "requests", "diameter", shape=shape)
    draw_line(ax, longest, color=LOOKS["arrow"][0], ls=":", lw=1.6, label="arrow: the longest way")
    draw_line(ax, wide, color=GREY, ls="--", lw=1.6, label="its printed bound: the diameter")


def locality_figure(results: Results) -> "Figure":
    """Requests per message over each link, the busiest first."""
    figure, axes = new_figure(12.0, 4.6, 1, 2, sharey=True)
    for ax, senders in zip(axes, (ONE, TURNS), strict=True):
        for protocol in PROTOCOLS_OF_SWAP:
            colour, line = LOOKS[protocol]
            draw_curve(
                ax, ranked(results, senders, protocol), NAMES[protocol], colour, _MARKS[protocol],
                line,
            )  # fmt: skip
        title(ax, f"{senders[0].upper()}{senders[1:]}, binary tree")
        label(ax, "links, the busiest first", "requests and answers per message")
        ax.set_ylim(bottom=-0.05)
        ax.set_xlim(0.5, _LINKS + 0.5)
        ax.set_xticks(range(1, _LINKS + 1))
        ax.label_outer()
    legend(axes[0])
    return figure


def ranked(results: Results, senders: str, protocol: str) -> list[Spot]:
    """Traffic of each link, by rank."""
    rows = results.where(senders=senders, protocol=protocol)
    return sorted(
        (
            Spot(int(row.measure.removeprefix("link_")), row.mean, row.ci95 or 0.0)
            for row in rows
            if row.measure.startswith("link_") and row.mean is not None
        ),
        key=lambda spot: spot.x,
    )
