"""The figures of [GS] §4, from results alone."""

from typing import TYPE_CHECKING, Any

from ordercast.pipeline.sweeps.results import Results
from ordercast.plan.colours import PALETTE
from ordercast.studies.figures import (
    COLOURS,
    GREY,
    LABELS,
    MARKERS,
    draw_band,
    draw_curve,
    draw_line,
    fit_means,
    label,
    legend,
    legend_above,
    log_axis,
    new_figure,
    reference,
    title,
)
from ordercast.studies.gs.load import PROTOCOLS
from ordercast.studies.reproduction import Spot, curve, values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES: dict[str, dict[str, int]] = {"sites": {"size": 5}, "size": {"sites": 200}}
"""What varies, and what is held the meanwhile."""

_SITES = (20, 50, 100, 200, 500, 1000)
_P2P = "P = 1 ms, L = 5 ms"
_NAMES = {"sites": "sites in the system", "size": "sites per group", "groups": "groups"}


def depth_figure(x: str) -> Any:
    """Graphs 1 and 2: depth by number of groups; beside it, when the members of a group are
    served."""

    def draw(results: Results) -> "Figure":
        figure, (left, right) = new_figure(11.0, 4.4, 1, 2)
        for place, groups in enumerate(values(results, "groups")):
            spots = curve(results, x, "depth_mean", groups=groups, protocol="propagation")
            draw_curve(left, spots, str(groups), PALETTE[place], MARKERS[place])
        reference(left, 2, "d = 2")
        left.set_ylim(bottom=0)
        title(left, f"Mean depth d, {_fixed(results, x)}")
        label(left, _NAMES[x], "hops from primary to farthest member")
        legend(left, "groups")
        most = max(values(results, "groups"))
        for protocol in PROTOCOLS:
            low, middle, high = (
                curve(results, x, f"delay_{which}_ms", groups=most, protocol=protocol)
                for which in ("first", "mean", "last")
            )
            draw_band(right, low, middle, high, _label(protocol), COLOURS[protocol])
        right.set_ylim(bottom=0)
        title(right, f"When first, mean and last member have it, {most} groups")
        label(right, _NAMES[x], f"delay of one message, ms ({_P2P})")
        legend(right)
        for ax in (left, right):
            _x_axis(ax, x)
        return figure

    return draw


def extra_figure(results: Results) -> "Figure":
    """Graph 3."""
    figure, (ax,) = new_figure(6.6, 4.4)
    for place, groups in enumerate(values(results, "groups")):
        spots = curve(results, "sites", "extra_mean", groups=groups, protocol="propagation")
        draw_curve(ax, spots, str(groups), PALETTE[place], MARKERS[place])
    ax.set_ylim(bottom=0)
    title(ax, f"Mean number of extra sites ε, {_fixed(results, 'sites')}")
    label(ax, _NAMES["sites"], "extra sites per group")
    legend(ax, "groups")
    _x_axis(ax, "sites")
    return figure


def load_figure(x: str) -> Any:
    """Graphs 4 and 5: one panel per number of groups."""

    def draw(results: Results) -> "Figure":
        counts = values(results, "groups")
        rows = (len(counts) + 1) // 2
        columns = min(2, len(counts))
        figure, axes = new_figure(10.0, 3.7 * rows, rows, columns, sharex=True, sharey=True)
        for ax, groups in zip(axes, counts, strict=False):
            for place, protocol in enumerate(PROTOCOLS):
                spots = curve(results, x, "load_max", groups=groups, protocol=protocol)
                draw_curve(ax, spots, _label(protocol), COLOURS[protocol], MARKERS[place])
            source = curve(results, x, "load_source", groups=groups, protocol="two_phase")
            draw_curve(
                ax, source, "two-phase, at a message's source", COLOURS["two_phase"], "", ":"
            )
            of = (
                f"of {values(results, 'size')[0]}"
                if x == "sites"
                else f"among {_fixed(results, x)}"
            )
            title(ax, f"{groups} groups {of}")
            label(ax, _NAMES[x], "highest load at a site, messages")
            ax.label_outer()
            _x_axis(ax, x)
        fit_means(axes[: len(counts)])
        for spare in axes[len(counts) :]:
            spare.set_visible(False)
        legend_above(figure, axes[0], columns=4)  # curves fill the panels from top to bottom
        return figure

    return draw


def under_load_figure(results: Results) -> "Figure":
    """Delay above, throughput below; a column for each size of groups."""
    sizes = values(results, "size")
    figure, axes = new_figure(5.8 * len(sizes), 8.0, 2, len(sizes), sharex=True, sharey="row")
    for column, size in enumerate(sizes):
        above, below = axes[column], axes[len(sizes) + column]
        for place, protocol in enumerate(PROTOCOLS):
            for ax, measure in ((above, "delay_mean_ms"), (below, "carried")):
                spots = curve(results, "rate", measure, size=size, protocol=protocol)
                draw_curve(ax, spots, _label(protocol), COLOURS[protocol], MARKERS[place])
            end = knee(results, protocol, size)
            above.axvline(end, color=COLOURS[protocol], lw=1.0, ls=":")
        sites, groups = values(results, "sites")[0], values(results, "groups")[0]
        title(above, f"Delay, {groups} groups of {size} among {sites} sites")
        label(above, "", f"mean delay of a delivery, ms ({_P2P})")
        title(below, "Messages carried; dotted above: the knees")
        label(below, "messages a second, offered", "messages a second, carried")
        for ax in (above, below):
            log_axis(ax, "x", values(results, "rate"))
    for row in (axes[: len(sizes)], axes[len(sizes) :]):
        fit_means(row)
    legend(axes[0])
    return figure


TWICE = 2.0  # times the delay at the lowest rate: the knee


def knee(results: Results, protocol: str, size: int, measure: str = "delay_mean_ms") -> float:
    """The highest rate up to which the mean delay is at most twice that at the lowest rate."""
    spots = curve(results, "rate", measure, size=size, protocol=protocol)
    end = spots[0].x
    for spot in spots:
        if spot.y > TWICE * spots[0].y:
            break
        end = spot.x
    return end


def exponential_figure(results: Results) -> "Figure":
    """Depth and load; against sites on the left, against the (mean) size on the right."""
    figure, axes = new_figure(12.0, 8.4, 2, 2)
    rows = (("depth_mean", "Mean depth d", "hops from primary to farthest member"),
            ("load_max", "Highest load", "highest load at a site, messages"))  # fmt: skip
    for row, (measure, what, unit) in enumerate(rows):
        for column, (x, held) in enumerate(SERIES.items()):
            ax = axes[2 * row + column]
            for place, groups in enumerate(values(results, "groups")):
                for sizes, line in (("fixed", "--"), ("exponential", "-")):
                    spots = sized_curve(results, x, measure, groups, sizes)
                    draw_curve(
                        ax, spots, f"{groups}, {sizes}", PALETTE[place], MARKERS[place], line
                    )
            ax.set_ylim(bottom=0)
            of = f"groups of {held['size']}" if "size" in held else f"{held['sites']} sites"
            title(ax, f"{what}, {of}: exactly (dashed) or on average")
            label(ax, _NAMES[x], unit)
            _x_axis(ax, x)
    legend(axes[0], "groups, their sizes")
    return figure


def sized_curve(results: Results, x: str, measure: str, groups: int, sizes: str) -> list[Spot]:
    """The curve of `propagation` along one axis, with fixed or with exponential sizes."""
    return curve(
        results, x, measure, groups=groups, sizes=sizes, protocol="propagation", **SERIES[x]
    )


def table_figure(unit: str) -> Any:
    """Tables 1 and 2: the formulas as lines, what was measured as marks on them."""

    def draw(results: Results) -> "Figure":
        figure, panels = new_figure(11.0, 4.4, 1, 2)
        for ax, measured, formula in (
            (panels[0], "messages", "messages_formula"),
            (panels[1], "delay_ms", "delay_formula_ms"),
        ):
            for place, protocol in enumerate(PROTOCOLS):
                colour, name = COLOURS[protocol], _label(protocol)
                printed = curve(results, "size", formula, protocol=protocol)
                draw_line(ax, printed, color=colour, lw=1.3, label=f"{name}, formula")
                spots = curve(results, "size", measured, protocol=protocol)
                draw_curve(ax, spots, f"{name}, measured", colour, MARKERS[place], "none")
            ax.set_ylim(bottom=0)
            ax.set_xlim(left=0)
            ax.set_xticks(values(results, "size"))
        sites, groups = values(results, "sites")[0], values(results, "groups")[0]
        title(panels[0], f"N, {groups} groups among {sites} sites")
        label(panels[0], _NAMES["size"], "messages per multicast")
        title(panels[1], "D, until the last member has it")
        label(panels[1], _NAMES["size"], f"delay, ms ({unit})")
        legend(panels[0])
        return figure

    return draw


def setup_figure(results: Results) -> "Figure":
    """Against the number of sites (on the left) and against the size of groups; above, what it
    takes to be worth it, below, how long it takes."""
    figure, axes = new_figure(11.0, 7.6, 2, 2, sharey="row")
    for column, (x, held) in enumerate(SERIES.items()):
        above, below = axes[column], axes[column + 2]
        for place, groups in enumerate(values(results, "groups")):
            colour, marker = PALETTE[place], MARKERS[place]
            spots = curve(results, x, "break_even_messages", groups=groups, **held)
            draw_curve(above, spots, str(groups), colour, marker)
            for measure, line in (("install_ms", "-"), ("compute_ms", ":")):
                spots = curve(results, x, measure, groups=groups, **held)
                draw_curve(below, spots, "", colour, marker, line)
        of = f"groups of {held['size']}" if "size" in held else f"{held['sites']} sites"
        title(above, f"Multicasts until the set-up is saved, {of}")
        label(above, _NAMES[x], "multicasts, all groups together")
        title(below, f"Time to compute the forest and to install it, {of}")
        label(below, _NAMES[x], f"ms ({_P2P})")
        above.label_outer(remove_inner_ticks=False)
        for ax in (above, below):
            ax.yaxis.label.set_visible(column == 0)
            _x_axis(ax, x)
    axes[0].set_ylim(bottom=0)
    legend(axes[0], "groups")
    fit_means(axes[2:])
    for name, line in (("install", "-"), ("compute", ":")):
        axes[2].plot([], [], color=GREY, ls=line, label=name)
    axes[2].legend(loc="center", fontsize=8.5)  # between the two bundles of curves
    return figure


def change_figure(results: Results) -> "Figure":
    """Frames and time of one change: ours, the paper's way and a commit."""
    figure, axes = new_figure(12.0, 4.6, 1, 3)
    lines = (("frames", "change_ms", "ours", "-"), ("paper_messages", "paper_ms", "[GS] §5.1", ":"),
             ("commit_messages", "commit_ms", "a commit", "--"))  # fmt: skip
    for place, protocol in enumerate(("propagation", "centralized")):
        colour, marker = COLOURS[protocol], MARKERS[place]
        for messages, took, name, line in lines:
            if name == "a commit" and place:  # the same for both
                continue
            of = "" if name == "a commit" else f", {protocol}"
            shown = GREY if name == "a commit" else colour
            for ax, measure in zip(axes, (messages, took), strict=False):
                spots = curve(results, "sites", measure, protocol=protocol)
                draw_curve(ax, spots, f"{name}{of}", shown, marker, line)
        for measure, line, name in (("stopped_ms", "-", "stopped"), ("delay_ms", ":", "delay")):
            spots = curve(results, "sites", measure, protocol=protocol)
            draw_curve(axes[2], spots, f"{name}, {protocol}", colour, marker, line)
    for ax, head, unit in zip(
        axes,
        ("Messages of one change", "Until the last site has opened", "How long a site stops"),
        ("frames", f"ms ({_P2P})", "ms, mean; and the delay of a message"),
        strict=True,
    ):
        title(ax, head)
        label(ax, _NAMES["sites"], unit)
        log_axis(ax, "x", values(results, "sites"))
    log_axis(axes[0], "y")
    for ax in axes[1:]:
        ax.set_ylim(bottom=0)
    legend(axes[0])
    legend(axes[2])
    return figure


_WAYS = {
    "non_atomic": ("propagation, non-atomic", COLOURS["propagation"], "-"),
    "blocking": ("propagation, blocking", COLOURS["propagation"], "--"),
    "committed": ("propagation, committed", COLOURS["propagation"], ":"),
    "two_phase": ("two-phase, blocking", COLOURS["two_phase"], "--"),
    "centralized": ("centralized, blocking", COLOURS["centralized"], "--"),
    "committed_centre": ("centralized, committed", COLOURS["centralized"], ":"),
}


def failure_figure(results: Results) -> "Figure":
    """What is blocked, and the delay, against crashes; what a leaf blocks and what another site."""
    figure, axes = new_figure(13.5, 5.0, 1, 3)
    rate = min(values(results, "rate"))
    hits = ("leaf", "inner")
    for place, (way, (name, colour, line)) in enumerate(_WAYS.items()):
        at = {"way": way, "rate": rate}
        for ax, measure in ((axes[0], "blocked_share"), (axes[1], "delay_mean_ms")):
            spots = curve(results, "crashes", measure, hit="any", **at)
            draw_curve(ax, _in_percent(spots) if ax is axes[0] else spots, name, colour,
                       MARKERS[place], line)  # fmt: skip
        for column, hit in enumerate(hits):
            spots = _in_percent(curve(results, "crashes", "blocked_share", hit=hit, **at))
            axes[2].bar(
                column + (place - 2.5) * 0.13, spots[0].y, 0.12, yerr=spots[0].ci, color=colour,
                alpha={"-": 1.0, "--": 0.65, ":": 0.3}[line], capsize=2,
            )  # fmt: skip
    title(axes[0], "Blocked deliveries among other sites")
    label(axes[0], "crashes in a run", "%, only after the site's return")
    title(axes[1], "Mean delay")
    label(axes[1], "crashes in a run", f"ms ({_P2P})")
    title(axes[2], "Blocked, by the sites that crash")
    axes[2].set_xticks(range(len(hits)), ["leaves", "inner sites"])
    label(axes[2], "", "%, bars in the order of the legend")
    for ax in axes[:2]:
        ax.set_xticks(values(results, "crashes"))
    for ax in (axes[0], axes[2]):
        ax.set_ylim(0, 100)  # a wide bar must not set the scale
    axes[1].set_ylim(0, 1.3 * max(spot.y for way in _WAYS for spot in _crash_delays(results, way)))
    legend_above(figure, axes[0], columns=3)
    return figure


def _crash_delays(results: Results, way: str) -> list[Spot]:
    rate = min(values(results, "rate"))
    return curve(results, "crashes", "delay_mean_ms", way=way, hit="any", rate=rate)


def _in_percent(spots: list[Spot]) -> list[Spot]:
    return [Spot(spot.x, 100 * spot.y, 100 * spot.ci) for spot in spots]


def _fixed(results: Results, x: str) -> str:
    """What does not vary, for a title."""
    if x == "sites":
        return f"groups of {values(results, 'size')[0]}"
    return f"{values(results, 'sites')[0]} sites"


def _label(protocol: str) -> str:
    return LABELS.get(protocol, protocol)


def _x_axis(ax: "Axes", x: str) -> None:
    if x == "sites":
        log_axis(ax, "x", _SITES)
