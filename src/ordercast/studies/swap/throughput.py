"""[SWAP] §6.1: how much each protocol carries where sites need time for what they send.

All sites are one group on a binary tree (the builder `given`) and send to it at random times, in
the point-to-point network: a site needs P for every frame, control frames too.
"""

from typing import TYPE_CHECKING

from ordercast.model.groups import GroupTable
from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import site_names
from ordercast.studies.figures import (
    MARKERS,
    draw_curve,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.load_runs import run_at_rate
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.swap.figures import LOOKS, NAMES
from ordercast.studies.swap.runs import GROUPS_BELOW, PROTOCOLS_OF_SWAP
from ordercast.studies.wording import means, places

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGER_CORE = "hybrid:7"
SERIES = (*PROTOCOLS_OF_SWAP, LARGER_CORE)
_FEWEST = 30  # messages of a run
_ABOUT = 0.9  # of the other's throughput, at least: still counts as no less


def throughput_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` at one rate."""
    sites = tuple(site_names(config["sites"]))
    tree = {sites[place]: sites[(place - 1) // 2] for place in range(1, len(sites))}
    table = GroupTable(sites, {"all": sites}, tree=tree)
    rate = float(config["rate"])
    measures: dict[str, float] = {}
    for protocol in SERIES:
        found, carried = run_at_rate(table, protocol, rate, seed, fewest=_FEWEST, builder="given")
        measures |= {
            f"{protocol}/delay_mean_ms": found.latency.mean,
            f"{protocol}/carried": carried,
            f"{protocol}/frames": (found.data_frames + found.control_frames) / found.sent,
        }
    return Measured({name: float(value) for name, value in measures.items()})


def throughput_figure(results: Results) -> "Figure":
    figure, axes = new_figure(13.5, 4.8, 1, 3)
    for ax, (measure, head, unit) in zip(
        axes,
        (("delay_mean_ms", "Mean delay", "ms (P = 1 ms, L = 5 ms)"),
         ("carried", "Carried", "messages a second"),
         ("frames", "Frames per message", "frames")),
        strict=True,
    ):  # fmt: skip
        for place, protocol in enumerate(SERIES):
            spots = curve(results, "rate", measure, protocol=protocol)
            colour, line = LOOKS[protocol]
            draw_curve(ax, spots, NAMES[protocol], colour, MARKERS[place], line)
        title(ax, f"{head}, {values(results, 'sites')[0]} sites")
        label(ax, "messages a second, offered", unit)
        log_axis(ax, "x", values(results, "rate"))
        log_axis(ax, "y")
    legend_above(figure, axes[0], columns=7)
    return figure


def throughput_findings(results: Results) -> list[Finding]:
    def of(protocol: str, measure: str) -> list[Spot]:
        return curve(results, "rate", measure, protocol=protocol)

    most = {p: max(spot.y for spot in of(p, "carried")) for p in SERIES}
    told = "; ".join(f"{NAMES[p]} {carried:.0f}" for p, carried in most.items())
    busy = {p: of(p, "delay_mean_ms")[-1].y for p in SERIES}
    return [
        Finding(
            "Swapping carries no less than counting.",
            judged([most["arrow"] >= _ABOUT * most["arrow_counting"],
                    most["combining"] >= _ABOUT * most["combining_counting"]]),
            f"The most that is carried, messages a second: {told} (no less: at least"
            f" {_ABOUT:g} times).",
            kind=OURS,
        ),
        Finding(
            "An arrow set in place of the root relieves it: hybrid carries more than combining.",
            judged([most["hybrid"] > most["combining"], busy["hybrid"] < busy["combining"]]),
            f"Carried at most: {told}; mean delay at the highest rate: "
            + "; ".join(f"{NAMES[p]} {delay:.0f} ms" for p, delay in busy.items()) + ".",
        ),
        Finding(
            "A larger arrow set in place of the root gives more throughput.",
            judged([most[LARGER_CORE] > most["hybrid"], most[LARGER_CORE] > most["combining"]]),
            f"Carried at most, with a core of 7 sites, of 3, and of 1: {most[LARGER_CORE]:.0f},"
            f" {most['hybrid']:.0f} and {most['combining']:.0f}.",
        ),
        Finding(
            "Lower nodes can be smaller arrow groups, which relieves them as well.",
            judged([most[GROUPS_BELOW] > most["hybrid"], busy[GROUPS_BELOW] < busy["hybrid"]]),
            f"Carried at most, with groups of 3 below a core of 3 sites, and with that core alone:"
            f" {most[GROUPS_BELOW]:.0f} and {most['hybrid']:.0f}; mean delay at the highest rate"
            f" {busy[GROUPS_BELOW]:.0f} and {busy['hybrid']:.0f} ms, at the lowest"
            f" {of(GROUPS_BELOW, 'delay_mean_ms')[0].y:.0f} and"
            f" {of('hybrid', 'delay_mean_ms')[0].y:.0f} ms.",
        ),
        Finding(
            "Delay and frames per message under load.",
            MEASURED,
            "; ".join(
                f"{NAMES[p]} {means(of(p, 'delay_mean_ms'))} ms and {means(of(p, 'frames'), 1)}"
                " frames" for p in SERIES
            ) + f" (at {places(of('arrow', 'frames'))} messages a second).",
            kind=OURS,
        ),
    ]  # fmt: skip
