"""The figures of [STAB], from results alone."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.sweeps.results import Results
from ordercast.plan.colours import PALETTE
from ordercast.sim.rounds.tree import parse_tree
from ordercast.studies.figures import (
    GREY,
    draw_curve,
    draw_line,
    label,
    legend,
    legend_below,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.reproduction import Spot, curve, values
from ordercast.studies.stab.printed_values import (
    HOPS_OF_THE_LAST_ACK,
    KINDS_ON_HOPS,
    LONGEST_QUEUE,
    MESSAGES_ON_HOPS,
    PROCESSED_BY_THE_FIRST,
    RATIOS,
    ROUNDS,
    Formula,
)
from ordercast.studies.stab.runs import BUFFER, MEASURED_LIMIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[[Results], "Figure"]

COLOURS = {
    "coordp": PALETTE[0], "full_dist": PALETTE[3], "train": PALETTE[4], "s_coordp": PALETTE[2],
    "s_train": PALETTE[1],
}  # fmt: skip
_LINES = {"full_dist": "--", "s_train": "--"}  # where two lie on each other, both can be seen
_MARKERS = {"coordp": "o", "full_dist": "D", "train": "s", "s_coordp": "^", "s_train": "v"}
_PAIRS = (("coordp", "s_coordp"), ("full_dist", "s_coordp"), ("train", "s_train"))
_MEMBERS = "members"
_TICKS = (50, 200, 1_000, 5_000, 20_000)


def complete(results: Results, measure: str, protocol: str) -> list[Spot]:
    """The curve of a measure over the complete trees."""
    return curve(
        results, _MEMBERS, measure, protocol=protocol, random_tree=None, placement=None, links=None
    )


def random_spots(results: Results, measure: str, protocol: str) -> list[Spot]:
    drawn = [tree for tree in values(results, "random_tree") if tree is not None]
    return [
        spot
        for tree in drawn
        for spot in curve(results, _MEMBERS, measure, protocol=protocol, random_tree=tree)
    ]


def draw(ax: "Axes", spots: Sequence[Spot], protocol: str, line: str | None = None) -> None:
    style = _LINES.get(protocol, "-") if line is None else line
    draw_curve(ax, spots, protocol, COLOURS[protocol], _MARKERS[protocol], style)


def draw_protocol(ax: "Axes", results: Results, measure: str, protocol: str) -> None:
    """A line for complete trees, rings for random ones."""
    spots = complete(results, measure, protocol)
    draw(ax, spots, protocol)
    drawn = random_spots(results, measure, protocol)
    draw_line(
        ax, drawn, ls="none", marker="o", ms=5.5, mfc="none", mew=0.9, color=COLOURS[protocol],
        zorder=4,
    )  # fmt: skip


def by_formula(results: Results, formula: Formula) -> list[Spot]:
    """What is printed for each complete tree."""
    trees = [parse_tree(tree) for tree in values(results, "tree") if tree is not None]
    return [Spot(shape.n, formula(shape), 0.0) for shape in sorted(trees, key=lambda s: s.n)]


def draw_printed(ax: "Axes", spots: Sequence[Spot], protocol: str, name: str = "") -> None:
    """An open ring: what was measured lies inside it where it is equal. `name`: in the legend."""
    draw_line(
        ax, spots, ls="none", marker="o", ms=10, mfc="none", mew=1.0, color=COLOURS[protocol],
        label=name or None,
    )  # fmt: skip


def _name_rings(ax: "Axes") -> None:
    ax.plot([], [], ls="none", marker="o", ms=10, mfc="none", color=GREY, label="ring: as printed")


def table1_figure(results: Results) -> "Figure":
    figure, (left, right) = new_figure(11.0, 4.4, 1, 2)
    for protocol in PROTOCOLS:
        for ax, measure, printed in (
            (left, "rounds", ROUNDS), (right, "processed_root", PROCESSED_BY_THE_FIRST),
        ):  # fmt: skip
            spots = complete(results, measure, protocol)
            draw(ax, spots, protocol, "none")
            draw_printed(ax, by_formula(results, printed[protocol]), protocol)
    _name_rings(left)
    title(left, "Rounds of one execution, complete trees")
    label(left, "members", "rounds")
    title(right, "Messages that the first member sends and receives")
    label(right, "members", "messages")
    for ax in (left, right):
        _log_log(ax)
    legend(left)
    return figure


def kinds_figure(results: Results) -> "Figure":
    """Table 4."""
    figure, axes = new_figure(12.6, 4.2, 1, 3, sharey=True)
    for ax, kind in zip(axes, ("start", "ack", "info"), strict=True):
        for protocol in PROTOCOLS:
            spots = [s for s in complete(results, f"on_hops_{kind}", protocol) if s.y]
            if spots:
                draw(ax, spots, protocol)
            if protocol in KINDS_ON_HOPS[kind]:
                printed = by_formula(results, KINDS_ON_HOPS[kind][protocol])
                draw_printed(ax, printed, protocol, "" if spots else f"{protocol}: only printed")
        if kind == "start":
            _name_rings(ax)
        title(ax, f"{kind.upper()} on all hops")
        label(ax, "members", "messages" if kind == "start" else "")
    for ax in axes:
        _log_log(ax)
        legend(ax)
    return figure


def messages_figure(results: Results) -> "Figure":
    """Figure 6."""
    figure, (ax,) = new_figure(6.8, 4.6)
    for protocol in PROTOCOLS:
        spots = complete(results, "messages_on_hops", protocol)
        draw(ax, spots, protocol)
        draw_printed(ax, by_formula(results, MESSAGES_ON_HOPS[protocol]), protocol)
    _name_rings(ax)
    title(ax, "Messages on all hops, one execution")
    label(ax, "members", "messages")
    _log_log(ax)
    legend(ax)
    return figure


def pairs_figure(
    measure: str,
    unit: str,
    what: str,
    printed: Mapping[str, Formula] | None = None,
    said: Callable[["Axes", Results, tuple[str, str]], None] | None = None,
) -> Draw:
    """Figures 7 and 10: a basic protocol and the structured one that belongs to it. Where there are
    random trees, a second row has each of them beside the complete tree of its size: on the axes of
    the first, most lie on the line. `printed`: formulas of the paper, drawn as rings. `said`: draws
    what else the paper says about a pair."""

    def draw_pairs(results: Results) -> "Figure":
        drawn = bool(random_spots(results, measure, "coordp"))
        figure, axes = new_figure(12.6, 9.0 if drawn else 4.6, 1 + drawn, 3)
        for ax, letter, pair in zip(axes, "ABC", _PAIRS, strict=False):
            for protocol in pair:
                draw_protocol(ax, results, measure, protocol)
                if printed is not None:
                    draw_printed(ax, by_formula(results, printed[protocol]), protocol)
            if printed is not None and letter == "A":
                _name_rings(ax)
            if said is not None:
                said(ax, results, pair)
            title(ax, f"({letter}) {what}: {pair[0]} and {pair[1]}")
            label(ax, "members", unit)
            _log_log(ax)  # the structured one would lie on a linear axis
            legend_below(ax)
        for ax, letter, pair in zip(axes[3:], "ABC", _PAIRS, strict=False):
            for protocol in pair:
                _draw_against_complete(ax, results, measure, protocol)
            # Named in the legend: words beside the line would lie on the dots around it.
            ax.axhline(1, color=GREY, lw=1.2, ls="--", zorder=0, label="the complete tree")
            title(ax, f"({letter}) random trees beside complete ones")
            label(ax, "members", "times as long")
            log_axis(ax, "x", _TICKS[:-2])
            legend_below(ax)
        return figure

    return draw_pairs


def draw_said_of_round_trips(ax: "Axes", results: Results, pair: tuple[str, str]) -> None:
    """§5.4.2: stars at the printed ratio above the structured protocol's curve, and rings in
    proportion to the printed hops, through the measured time of the smallest tree."""
    basic, structured = pair
    below = complete(results, "rtt_ms", structured)
    for ratio in RATIOS:
        at = _between(below, ratio.members)
        if (ratio.basic, ratio.structured) == pair and at is not None:
            draw_line(
                ax, [Spot(ratio.members, ratio.times * at, 0.0)], ls="none", marker="*", ms=14,
                mfc="none", mew=1.2, color=COLOURS[basic],
                label=f"printed: {ratio.times:g} × {structured}",
            )  # fmt: skip
    told = [protocol for protocol in pair if protocol in HOPS_OF_THE_LAST_ACK]
    for protocol in told:
        measured = complete(results, "rtt_ms", protocol)
        hops = by_formula(results, HOPS_OF_THE_LAST_ACK[protocol])
        if hops:
            draw_printed(ax, _scaled(hops, measured[0].y / hops[0].y), protocol)
    if told:
        ax.plot(
            [], [], ls="none", marker="o", ms=10, mfc="none", color=GREY,
            label="ring: in proportion to printed hops",
        )  # fmt: skip


def _between(spots: Sequence[Spot], x: float) -> float | None:
    """At `x`, by a straight line on logarithmic axes; none outside the curve."""
    for one, other in pairwise(spots):
        if one.x <= x <= other.x:
            share = log(x / one.x) / log(other.x / one.x)
            return float(one.y * (other.y / one.y) ** share)
    return None


def _draw_against_complete(ax: "Axes", results: Results, measure: str, protocol: str) -> None:
    whole = {spot.x: spot.y for spot in complete(results, measure, protocol)}
    shares = [
        Spot(spot.x, spot.y / whole[spot.x], 0.0)
        for spot in random_spots(results, measure, protocol)
    ]
    draw_line(
        ax, shares, ls="none", marker=_MARKERS[protocol], ms=5.5, mfc="none", mew=0.9,
        color=COLOURS[protocol], label=protocol,
    )  # fmt: skip


def queues_figure(results: Results) -> "Figure":
    """Figure 8, of links and of processors."""
    figure, axes = new_figure(11.0, 4.4, 1, 2, sharey=True)
    for ax, measure, what in (
        (axes[0], "queue_link", "on a link"),
        (axes[1], "queue_cpu", "at a processor"),
    ):
        for protocol in PROTOCOLS:
            spots = complete(results, measure, protocol)
            draw(ax, spots, protocol)
        for printed in sorted(set(LONGEST_QUEUE.values())):
            flat = [p for p in PROTOCOLS if LONGEST_QUEUE.get(p) == printed]
            told = f"printed: {printed} for {', '.join(flat)}"
            ax.axhline(printed, color=GREY, lw=5, alpha=0.35, zorder=0, label=told)
        title(ax, f"Longest queue {what}")
        label(ax, "members", "messages, with the one in service")
    for ax in axes:
        _log_log(ax)
    legend(axes[0])
    return figure


def rtt_figure(results: Results) -> "Figure":
    """Figure 9."""
    figure, (left, right) = new_figure(11.0, 4.4, 1, 2)
    for ax, kinds, what in (
        (left, ("coordp", "full_dist", "train"), "(A) the three basic protocols"),
        (right, ("s_coordp", "s_train"), "(B) the two structured protocols"),
    ):
        for protocol in kinds:
            draw_protocol(ax, results, "rtt_ms", protocol)
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
        _grouped_thousands(ax)
        title(ax, f"{what}; rings: random trees")
        label(ax, "members", "round-trip time at the first member, ms")
        legend_below(ax)
    return figure


def scale_figure(results: Results) -> "Figure":
    figure, axes = new_figure(15.0, 8.0, 2, 3)
    here: dict[str, Any] = {"placement": None, "links": None}
    panels: Sequence[tuple[str, str, dict[str, Any]]] = (
        ("rtt_ms", "Round-trip time, local network", here),
        ("messages_per_member", "Messages on all hops, per member", here),
        ("rtt_ms", "Round-trip time, members anywhere",
         {"placement": "shuffled"}),
        ("rtt_ms", "Round-trip time, the root's children in other regions", {"links": "wan"}),
    )  # fmt: skip
    places = [axes[place] for place in (0, 1, 3, 4)]
    for ax, (measure, what, where) in zip(places, panels, strict=True):
        scale = 1e-3 if measure == "rtt_ms" else 1.0
        for protocol in PROTOCOLS:
            spots = curve(results, _MEMBERS, measure, protocol=protocol, **where)
            if where is not here:
                near = complete(results, measure, protocol)
                draw_line(ax, _scaled(near, scale), color=COLOURS[protocol], lw=0.8, ls=":")
            draw(ax, _scaled(spots, scale), protocol)
        title(ax, what)
        label(ax, "members", "seconds" if measure == "rtt_ms" else "messages")
        _log_log(ax)
    legend(axes[0])
    axes[3].plot([], [], color=GREY, lw=0.8, ls=":", label="as in the first panel")
    legend(axes[3])
    _draw_ratios(axes[2], results)
    axes[5].set_visible(False)
    return figure


def _draw_ratios(ax: "Axes", results: Results) -> None:
    """How many times longer a basic protocol takes than its structured one; stars: as printed."""
    for basic, structured in dict.fromkeys((each.basic, each.structured) for each in RATIOS):
        less = {spot.x: spot.y for spot in complete(results, "rtt_ms", structured)}
        spots = [Spot(s.x, s.y / less[s.x], 0.0) for s in complete(results, "rtt_ms", basic)]
        colour = COLOURS[structured]
        draw_curve(ax, spots, f"{basic} / {structured}", colour, _MARKERS[structured])
        said = [
            Spot(each.members, each.times, 0.0)
            for each in RATIOS if each.basic == basic and each.members <= max(less)
        ]  # fmt: skip
        draw_line(ax, said, ls="none", marker="*", ms=14, mfc="none", mew=1.2, color=colour)
        beside = (-8, 6) if basic == "coordp" else (0, -18)  # where there is no curve
        for spot in said:
            ax.annotate(
                f"{spot.y:,.0f}", (spot.x, spot.y), xytext=beside, textcoords="offset points",
                ha="right" if beside[0] else "center", fontsize=8.5, color=colour,
            )  # fmt: skip
    ax.plot([], [], ls="none", marker="*", ms=14, mfc="none", color=GREY, label="as printed")
    title(ax, "Round-trip times: basic to structured")
    label(ax, "members", "times as long")
    _log_log(ax)
    legend(ax)


def _scaled(spots: Sequence[Spot], by: float) -> list[Spot]:
    return [Spot(spot.x, by * spot.y, by * spot.ci) for spot in spots]


def load_figure(results: Results) -> "Figure":
    counts = values(results, _MEMBERS)
    figure, axes = new_figure(5.6 * len(counts), 4.4, 1, len(counts))
    for ax, members in zip(axes, counts, strict=True):
        for protocol in PROTOCOLS:
            spots = curve(results, "busy", "rtt_ms", protocol=protocol, members=members)
            draw(ax, spots, protocol)
        title(ax, f"f(r), {members:,} members")
        label(ax, "share of a processor's time that data takes", "round-trip time, ms")
        log_axis(ax, "y")
    legend(axes[0])
    return figure


def trigger_figure(results: Results) -> "Figure":
    """Rounds, stops and time to stable against X; above without loss, below with it."""
    losses = values(results, "loss")
    figure, axes = new_figure(13.2, 4.1 * len(losses), len(losses), 3)
    for row, loss in enumerate(losses):
        rounds, stopped, stable = axes[3 * row : 3 * row + 3]
        formula = _held(results, "rounds_formula", loss)
        draw_line(rounds, formula, color=GREY, ls="--", lw=1.2, label="K/(αX)")
        for ax, measure, name, colour in (
            (rounds, "rounds", "X fixed", PALETTE[0]),
            (stopped, "stopped_share", "X fixed: all members", PALETTE[4]),
            (stopped, "first_stopped_share", "X fixed: first member", PALETTE[0]),
            (stable, "time_to_stable_ms", "X fixed", PALETTE[0]),
        ):
            draw_curve(ax, _held(results, measure, loss), name, colour)
        log_axis(rounds, "y")
        lost = f"{100 * loss:g} % of copies lost" if loss else "nothing lost"
        title(rounds, f"Rounds T(X), {lost}")
        title(stopped, "Time for which senders are stopped")
        title(stable, "Time to stable")
        label(rounds, "X, messages", "rounds")
        label(stopped, "X, messages", "share of the time")
        label(stable, "X, messages", "ms until the sender knows")
        for ax, measure in (
            (rounds, "rounds"), (stopped, "stopped_share"), (stable, "time_to_stable_ms"),
        ):  # fmt: skip
            chosen = curve(results, "limit", measure, limit=MEASURED_LIMIT, loss=loss)[0].y
            ax.axhline(chosen, color=PALETTE[1], lw=1.6, label="X measured by each")
            _mark_limits(ax, results, loss)
            ax.legend(loc="upper right" if ax is rounds else "upper left", fontsize=8)
    return figure


def _held(results: Results, measure: str, loss: float) -> list[Spot]:
    """The spots at the X that a buffer can hold."""
    return [spot for spot in by_limit(results, measure, loss=loss) if spot.x <= BUFFER]


def _mark_limits(ax: "Axes", results: Results, loss: float) -> None:
    """The best X by measurement and by the mended formula, and where the printed one lies."""
    best, mended = best_measured(results, loss), mended_limit(results, loss)
    if best is not None:
        ax.axvline(best, color=PALETTE[2], lw=1.6, label=f"best X measured: {best:g}")
    ax.axvline(mended, color=PALETTE[2], lw=1.4, ls=":", label=f"lesser bound: {mended:.0f}")
    ax.axvspan(BUFFER, 1.25 * BUFFER, color=PALETTE[4], alpha=0.12, lw=0)
    ax.set_xlim(0, 1.25 * BUFFER)
    printed = f"\nprinted X: {printed_limit(results, loss):.0f}" if loss else ""
    ax.annotate(
        f"X > g: no round begins{printed}", (1.125 * BUFFER, 0.03),
        xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=8.5,
        color=PALETTE[4], rotation=90,
    )  # fmt: skip


def best_measured(results: Results, loss: float) -> float | None:
    """The largest X with which no member stops."""
    free = [spot.x for spot in by_limit(results, "stops", loss=loss) if spot.y == 0]
    return max(free, default=None)


def mended_limit(results: Results, loss: float) -> float:
    """By the run whose X is nearest below it."""
    spots = by_limit(results, "mended_limit", loss=loss)
    below = [spot for spot in spots if spot.x <= spot.y]
    return max(below or spots, key=lambda spot: spot.x).y


def printed_limit(results: Results, loss: float) -> float:
    spots = by_limit(results, "printed_limit", loss=loss)
    below = [spot for spot in spots if spot.x <= mended_limit(results, loss)]
    return max(below or spots, key=lambda spot: spot.x).y


def by_limit(results: Results, measure: str, **where: Any) -> list[Spot]:
    return [spot for spot in curve(results, "limit", measure, **where) if spot.x != MEASURED_LIMIT]


def _log_log(ax: "Axes") -> None:
    low, high = ax.xaxis.get_data_interval()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    log_axis(ax, "x", ticks if len(ticks) > 2 else None)
    log_axis(ax, "y")


def _grouped_thousands(ax: "Axes") -> None:
    from matplotlib.ticker import StrMethodFormatter

    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
