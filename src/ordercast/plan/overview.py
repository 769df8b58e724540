"""A forest too large to draw site by site: sites and load per level, and how deep groups reach."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import Metrics
from ordercast.model.groups import GroupTable
from ordercast.plan.captions import NAME, TITLE, headline
from ordercast.plan.colours import INK, PALETTE
from ordercast.plan.levels import Level, by_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

_BLUE, _ORANGE, _GREEN = PALETTE[:3]
_BARS = 40  # values: up to here they are labelled bars, and more are an area


def overview(forest: Forest, table: GroupTable, metrics: Metrics) -> "Figure":
    from matplotlib.figure import Figure

    levels = by_level(forest, table, metrics.load)
    figure = Figure(figsize=(11.0, 4.2))
    title, measures = headline(forest, table, metrics)
    figure.text(0.03, 0.945, title, size=TITLE, weight="bold", color=INK, va="center")
    figure.text(0.03, 0.885, measures, size=NAME, color=INK, va="center")
    left, middle, right = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.77, bottom=0.14, wspace=0.28)

    _bars(left, list(range(len(levels))), [len(level.load) for level in levels], _BLUE)
    left.set(title="Sites per level", xlabel="level (0: the roots)", ylabel="sites")

    _load(middle, levels)
    middle.set(xlabel="level", ylabel="messages, one to each group")

    depths = Counter(metrics.depth)
    reach = list(range(metrics.depth_max + 1))
    _bars(right, reach, [depths[depth] for depth in reach], _GREEN)
    right.set(title="Depth of the groups", xlabel="hops to the farthest member", ylabel="groups")
    return figure


def _load(axes: "Axes", levels: Sequence[Level]) -> None:
    numbers = list(range(len(levels)))
    highest, means = [max(level.load) for level in levels], [level.load_mean for level in levels]
    if len(levels) > _BARS:
        axes.set_title("Load per level (above: highest, below: mean)")
        axes.plot(numbers, highest, color=_ORANGE, lw=1.0)
        axes.plot(numbers, means, color=INK, lw=0.9)
        axes.set_xlim(0, numbers[-1])
    else:
        axes.set_title("Load per level (bar: highest, dash: mean)")
        _bars(axes, numbers, highest, _ORANGE)
        axes.plot(numbers, means, color=INK, ls="none", marker="_", ms=140 / (2 + len(levels)))
    if max(highest) > 50 * min(means):
        axes.set_yscale("log")
        axes.set_ylim(min(means) / 2, max(highest) * 3)
    axes.yaxis.set_major_formatter(_thousands())


def _thousands() -> "StrMethodFormatter":
    from matplotlib.ticker import StrMethodFormatter

    return StrMethodFormatter("{x:,g}")


def _bars(axes: "Axes", xs: list[int], heights: list[int], colour: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(_thousands())
    if len(xs) > _BARS:
        axes.fill_between(xs, heights, step="mid", color=colour, lw=0)
        axes.set_xlim(0, xs[-1])
        axes.set_ylim(bottom=0)
        return
    bars = axes.bar(xs, heights, color=colour, width=0.75)
    axes.margins(y=0.12)
    if len(xs) <= 12:
        axes.bar_label(bars, fmt="{:,.0f}", size=NAME - 1.5, color=INK, padding=2)
        axes.set_xticks(xs)
