"""How the builders scale, from 100 to 30,000 groups: beyond [GS], whose graphs end at 40.

Groups of 5 among as many sites as groups, either local (around a centre on a ring, with a standard
deviation of 10 sites) or uniformly random. All three builders get the same tables.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import measure
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable
from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.pipeline.sweeps.tables import Drawing, draw_table, drawing_of
from ordercast.studies.figures import (
    COLOURS,
    MARKERS,
    draw_curve,
    fit_means,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.fits import end_to_end
from ordercast.studies.reproduction import (
    MEASURED,
    OURS,
    Family,
    Finding,
    Reproduction,
    Spot,
    curve,
    judged,
    values,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BUILDERS: dict[str, Callable[[GroupTable], Forest]] = {
    "greedy": build_greedy,
    "star": build_star,
    "balanced": build_balanced,
}
_GROUPS = (100, 300, 1000, 3000, 10_000, 30_000)
_QUICK_GROUPS = (100, 300, 1000)
# Greedy's depth differs widely from one local table to the next, and a run takes seconds.
_BOUNDS = (Precision("greedy/depth_mean", share=0.2), Precision("balanced/depth_mean", share=0.1))
_SPREADS = {"local": 10, "random": "uniform"}


@cache
def _warm_up() -> None:
    """Load what the builders need, once in a worker: loading must not count as building."""
    for build in _BUILDERS.values():
        build(draw_table(Drawing(100, 100, 5), 1))


def scale_costs(config: Config, seed: int, _run: str) -> Measured:
    _warm_up()
    table = draw_table(drawing_of(config), seed)
    measures: Measures = {}
    for name, build in _BUILDERS.items():
        begun = time.perf_counter()
        forest = build(table)
        took = time.perf_counter() - begun
        metrics = measure(forest, table)
        found = {
            "depth_mean": metrics.depth_mean,
            "depth_max": metrics.depth_max,
            "extra_mean": metrics.extra_mean,
            "messages_mean": sum(metrics.messages) / len(metrics.messages),
            "load_max": metrics.load_max,
            "seconds": took,
        }
        measures |= {f"{name}/{measure_}": float(value) for measure_, value in found.items()}
    return Measured(measures)


def _points(quick: bool) -> list[dict[str, Any]]:
    counts = _QUICK_GROUPS if quick else _GROUPS
    return [
        {"groups": count, "sites": count, "size": 5, "spread": spread}
        for count, spread in product(counts, _SPREADS.values())
    ]


def scale_figure(results: Results) -> "Figure":
    figure, axes = new_figure(12.0, 7.0, 2, 3, sharex=True, sharey="col")
    columns = (
        ("depth_mean", "mean depth", "hops"),
        ("load_max", "highest load", "messages, one to each group"),
        ("seconds", "time to build", "seconds, where it was run"),
    )
    for place, ((kind, spread), (measure_, name, unit)) in enumerate(
        product(_SPREADS.items(), columns)
    ):
        ax = axes[place]
        for number, builder in enumerate(_BUILDERS):
            spots = _curve(results, measure_, spread, builder)
            if measure_ == "seconds":  # what varies here is the machine
                spots = [replace(spot, ci=0.0) for spot in spots]
            draw_curve(ax, spots, builder, COLOURS[builder], MARKERS[number])
        title(ax, f"{kind.capitalize()} groups: {name}")
        label(ax, "groups, and as many sites", unit)
        ax.xaxis.label.set_visible(place >= len(columns))
        log_axis(ax, "x")
    for column in range(len(columns)):
        fit_means(axes[column :: len(columns)])
    legend_above(figure, axes[0], columns=3)
    return figure


def scale_findings(results: Results) -> list[Finding]:
    found = []
    most = max(values(results, "groups"))
    for kind, spread in _SPREADS.items():
        depth = {b: _curve(results, "depth_mean", spread, b) for b in _BUILDERS}
        load = {b: _curve(results, "load_max", spread, b) for b in _BUILDERS}
        growth = {b: end_to_end(spots) for b, spots in depth.items()}
        found += [
            Finding(
                f"{kind.capitalize()} groups: greedy's paths grow with the number of groups, those"
                " of balanced trees hardly.",
                judged([growth["greedy"] > 0.5, growth["balanced"] < 0.5]),
                f"From {depth['greedy'][0].x:,.0f} to {most:,} groups the mean depth goes from"
                f" {_ends(depth['greedy'])} by greedy (as the power {growth['greedy']:.2f} of their"
                f" number), from {_ends(depth['balanced'])} by balanced (power"
                f" {growth['balanced']:.2f}), from {_ends(depth['star'])} by star.",
            ),
            _load_finding(kind, load, most),
        ]
    seconds = {b: _curve(results, "seconds", spread, b)[-1].y
               for spread in _SPREADS.values() for b in _BUILDERS}  # fmt: skip
    took = ", ".join(f"{builder} {each:.1f} s" for builder, each in seconds.items())
    found.append(Finding("Time to build.", MEASURED, f"For {most:,} random groups: {took}."))
    return [replace(finding, kind=OURS) for finding in found]


def _load_finding(kind: str, load: dict[str, list[Spot]], most: int) -> Finding:
    last = {builder: spots[-1].y for builder, spots in load.items()}
    told = ", ".join(f"{builder} {value:,.0f}" for builder, value in last.items())
    if kind == "local":
        return Finding(
            "Local groups: a balanced tree spreads the load, a star puts all of it on one site.",
            judged([last["balanced"] < last["greedy"], last["balanced"] < last["star"]]),
            f"Highest load with {most:,} groups: {told}.",
        )
    share = last["balanced"] / most
    return Finding(
        "Random groups: no tree helps much, its root carries nearly all of them.",
        judged([share > 1]),
        f"Highest load with {most:,} groups: {told}; the busiest site of the balanced tree handles"
        f" {share:.1f} messages per group.",
    )


def _curve(results: Results, measure_: str, spread: object, builder: str) -> list[Spot]:
    return curve(results, "groups", measure_, spread=str(spread), builder=builder)


def _ends(spots: list[Spot]) -> str:
    return f"{spots[0].y:.1f} to {spots[-1].y:,.1f}"


REPRODUCTIONS = (
    Reproduction(
        name="scale-forest",
        title="Forests for many groups: greedy, star and balanced",
        source="beyond [GS]",
        says=(
            "[GS] measures 10 to 40 groups and expects short trees. It does not say what becomes of"
            " the generator's forests with thousands of groups.",
        ),
        how="Groups of 5 among as many sites as groups; the same tables for all builders. Local"
        " groups lie around a random centre on a ring of all sites (standard deviation 10 sites)."
        " Times are wall-clock, measured where the runs were done. Lines join the points; both axes"
        " are logarithmic.",
        family=Family("scale-forest", scale_costs, split="builder"),
        points=_points,
        repeats=lambda quick: Repeats(3, 3) if quick else Repeats(3, 60, _BOUNDS),
        measures=("depth_mean", "depth_max", "extra_mean", "messages_mean", "load_max", "seconds"),
        draw=scale_figure,
        find=scale_findings,
    ),
)  # fmt: skip
