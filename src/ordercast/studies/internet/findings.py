"""Which limit is met first as the number of sites grows, and what that means for a plan.

All statements are ours. Their bounds are not chosen to fit. A site is overloaded when it is busy
all the time. The deepest forest, the largest layout and the longest array are limits of the wire
format. Only the bound of memory is a choice: 4 GB at a site.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from ordercast.model.limits import DEEPEST
from ordercast.pipeline.sweeps.results import Results
from ordercast.plan.colours import PALETTE
from ordercast.studies.figures import (
    COLOURS,
    MARKERS,
    draw_curve,
    label,
    legend,
    legend_above,
    log_axis,
    new_figure,
    reference,
    title,
)
from ordercast.studies.fits import end_to_end
from ordercast.studies.internet.churn import PROTOCOLS_UNDER_CHURN
from ordercast.studies.internet.forests import (
    BUILDERS,
    ENTRIES,
    LAYOUT_MB,
    MEMORY_MB,
)
from ordercast.studies.internet.ordering import TRACKERS
from ordercast.studies.internet.tables import KINDS, UNIFORM
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.wording import means, places, with_intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HARDLY = 0.1  # of a power, at most: what still counts as hardly growing
_FOR_EACH = 0.9  # of a power, at least: what still counts as a cost for each site
_NO_GROWTH = 0.05  # of a power: one table of each size tells no more
_FOLLOWS = 0.25  # more or less, at most: what still counts as following the network's time
_BEHIND = 0.5  # of the rate asked for, at most: what still counts as not followed


# --- by computation -------------------------------------------------------------------------------


def forest_figure(results: Results) -> "Figure":
    figure, axes = new_figure(13.0, 9.0, 3, 3, sharex=True)
    columns = (
        ("utilisation", "busiest site", "share of its time"),
        ("tree_depth", "deepest site", "hops from the root"),
        ("seconds", "time to build", "processor seconds"),
    )
    for row, kind in enumerate(KINDS):
        for column, (measure, name, unit) in enumerate(columns):
            ax = axes[len(columns) * row + column]
            for number, builder in enumerate(BUILDERS):
                spots = _of(results, measure, kind, builder)
                draw_curve(ax, spots, builder, COLOURS[builder], MARKERS[number])
            title(ax, f"{kind.capitalize()}: {name}")
            label(ax, "sites" if row == len(KINDS) - 1 else "", unit)
            log_axis(ax, "x", values(results, "sites"))
            log_axis(ax, "y")
            if measure == "utilisation":
                reference(ax, 1.0, "overloaded", at="left")
            if measure == "tree_depth":
                reference(ax, DEEPEST, "too deep for an epoch", at="left")
    legend_above(figure, axes[0], columns=3)
    return figure


def forest_findings(results: Results) -> list[Finding]:
    most = max(values(results, "sites"))
    found = [_first_limit(results, kind) for kind in KINDS]
    busy = {
        (kind, builder): _of(results, "utilisation", kind, builder)
        for kind in KINDS for builder in BUILDERS
    }  # fmt: skip
    shares = {kind: _table(results, "domain_share", kind) for kind in KINDS}
    better = [busy[kind, "balanced"][-1].y < busy[kind, "star"][-1].y for kind in KINDS]
    found += [
        Finding(
            "A balanced tree takes load off the busiest site of a star, whoever the members are.",
            judged(better),
            f"Busy at {most:,} sites with 0.1 messages a second each: "
            + "; ".join(
                f"{kind}: " + ", ".join(f"{b} {100 * busy[kind, b][-1].y:,.1f} %" for b in BUILDERS)
                for kind in KINDS
            ) + ".",
        ),
        Finding(
            "What the planner chooses for delay, and how long its tree takes to build.",
            MEASURED,
            "; ".join(_chosen(results, kind) for kind in KINDS) + ".",
        ),
        Finding(
            "Most sites are in one domain.",
            judged([spot.y > 0.5 for spots in shares.values() for spot in spots]),
            "; ".join(
                f"{kind}: {', '.join(f'{100 * spot.y:.0f} %' for spot in spots)}"
                for kind, spots in shares.items()
            ) + f" of {places(shares[KINDS[0]])} sites.",
        ),
    ]  # fmt: skip
    return [replace(finding, kind=OURS) for finding in found]


def _first_limit(results: Results, kind: str) -> Finding:
    """The number of sites at which each limit is met, by the growth between two sizes."""
    limits: dict[str, float] = {
        f"{builder}: a site busy all its time": _met(
            _of(results, "utilisation", kind, builder), 1.0
        )
        for builder in BUILDERS
    }
    limits |= {
        f"{builder}: a tree too deep to open": _met(
            _of(results, "tree_depth", kind, builder), DEEPEST
        )
        for builder in ("greedy", "balanced")
    }
    limits["a layout that takes 4 GB of a site's memory"] = _met(
        _table(results, "memory_mb", kind), MEMORY_MB
    )
    limits["a layout too long for a frame"] = _met(_table(results, "layout_mb", kind), LAYOUT_MB)
    limits["a site in more groups than an array of stability has"] = _met(
        _table(results, "groups_most", kind), ENTRIES
    )
    ranked = sorted(limits, key=limits.__getitem__)
    told = "; ".join(f"{name}, {_sites(limits[name])}" for name in ranked)
    return Finding(
        f"Members {kind}: what is met first as the sites become more.",
        MEASURED,
        f"In this order: {told}. (By the growth between two sizes.)",
    )


def _met(spots: Sequence[Spot], limit: float) -> float:
    """The number of sites at which a measure meets its limit. It lies on the straight line through
    the logarithms of the two points around it, or of the last two. inf: the measure does not
    grow."""
    place = next((n for n, spot in enumerate(spots) if spot.y >= limit), len(spots) - 1)
    if place == 0:
        return float(spots[0].x)
    below = spots[place - 1 : place + 1]
    growth = end_to_end(below)
    if growth <= _NO_GROWTH:
        return inf
    return float(below[0].x * (limit / below[0].y) ** (1 / growth))


def _sites(count: float) -> str:
    if count > 1e9:
        return "not below a billion sites"
    return f"about {float(f'{count:.2g}'):,.0f} sites"


def _chosen(results: Results, kind: str) -> str:
    sizes = values(results, "sites")
    by_size = []
    for place, size in enumerate(sizes):
        share = {b: _of(results, "chosen", kind, b)[place].y for b in BUILDERS}
        best = max(share, key=share.__getitem__)
        took = _of(results, "seconds", kind, best)[place].y
        by_size.append(f"{best} at {size:,} ({took:.1f} s)")
    return f"{kind}: {', '.join(by_size)}"


def _of(results: Results, measure: str, kind: str, builder: str) -> list[Spot]:
    return curve(results, "sites", measure, drawn=kind, builder=builder)


def _table(results: Results, measure: str, kind: str) -> list[Spot]:
    return curve(results, "sites", measure, drawn=kind)


# --- by running -----------------------------------------------------------------------------------

_LOOKS: Mapping[str, str] = {"plain": COLOURS["propagation"], "s_coordp": COLOURS["star"]}


def ordering_figure(results: Results) -> "Figure":
    figure, axes = new_figure(13.0, 4.6, 1, 3)
    columns = (
        ("delay_mean_ms", "Mean delay", "ms"),
        ("control_frames", "Control frames per message", "frames"),
        ("seconds", "Time to simulate", "processor seconds"),
    )
    for ax, (measure, name, unit) in zip(axes, columns, strict=True):
        for number, tracker in enumerate(TRACKERS):
            draw_curve(ax, _run(results, measure, tracker), tracker, _LOOKS[tracker],
                       MARKERS[number])  # fmt: skip
        for number, kind in enumerate(kind for kind in KINDS if kind != UNIFORM):
            spots = _run(results, measure, "plain", kind)
            draw_curve(ax, spots, f"plain, members {kind}", PALETTE[2 + 4 * number],
                       MARKERS[2 + number], "--")  # fmt: skip
        if measure == "delay_mean_ms":
            spots = _run(results, "row_delay_mean_ms", "plain")
            draw_curve(ax, spots, "plain, regions in a row", PALETTE[8], MARKERS[4], ":")
        title(ax, name)
        label(ax, "sites", unit)
        log_axis(ax, "x", values(results, "sites"))
        if measure == "delay_mean_ms":
            ax.set_ylim(bottom=0)  # it hardly grows, and should look so
        else:
            log_axis(ax, "y")
    legend_above(figure, axes[0], columns=5)
    return figure


def ordering_findings(results: Results) -> list[Finding]:
    delay = _run(results, "delay_mean_ms", "plain")
    frames = {t: _run(results, "control_frames", t) for t in TRACKERS}
    growth = {t: end_to_end(spots) for t, spots in frames.items()}
    data, took = _run(results, "data_frames", "plain"), _run(results, "seconds", "plain")
    found = [
        Finding(
            "The delay of a message hardly grows with the sites.",
            judged([end_to_end(delay) <= _HARDLY]),
            f"Mean {means(delay)} ms, 99 % within {means(_run(results, 'delay_p99_ms', 'plain'))}"
            f" ms, at {places(delay)} sites (power {end_to_end(delay):.2f}); {means(data, 1)} data"
            " frames per message.",
        ),
        Finding(
            "Rounds of stability through the domain cost frames for each of its sites; reports"
            " within groups do not.",
            judged([growth["s_coordp"] >= _FOR_EACH, growth["plain"] < _FOR_EACH]),
            "Control frames per message: "
            + "; ".join(
                f"{t} {means(frames[t])} at {places(frames[t])} sites (power {growth[t]:.2f})"
                for t in TRACKERS
            ) + ".",
        ),
        Finding(
            "What a run takes.",
            MEASURED,
            f"{means(took, 1)} processor seconds at {places(took)} sites with plain"
            f" (power {end_to_end(took):.2f}).",
        ),
    ]  # fmt: skip
    found += [*_members(results), *_over_a_row(results)]
    return [replace(finding, kind=OURS) for finding in found]


def _members(results: Results) -> list[Finding]:
    """Where members are near each other, or popular ones: none where these were not run."""
    by_kind = {
        kind: {
            measure: _run(results, measure, "plain", kind)
            for measure in ("delay_mean_ms", "data_frames", "control_frames")
        }
        for kind in KINDS if kind != UNIFORM
    }  # fmt: skip
    delays = [found["delay_mean_ms"] for found in by_kind.values()]
    if not all(delays):
        return []
    return [
        Finding(
            "It hardly grows either where members are near each other, or popular sites.",
            judged([end_to_end(spots) <= _HARDLY for spots in delays]),
            f"At {places(delays[0])} sites: "
            + "; ".join(
                f"{kind} {means(found['delay_mean_ms'])} ms (power"
                f" {end_to_end(found['delay_mean_ms']):.2f}), {means(found['data_frames'], 1)} data"
                f" frames and {means(found['control_frames'])} of control per message"
                for kind, found in by_kind.items()
            ) + ".",
        ),
    ]  # fmt: skip


def _over_a_row(results: Results) -> list[Finding]:
    """The same messages over the second network: none where it was not run."""
    told, apart = [], []
    for kind in KINDS:
        far = _run(results, "row_delay_mean_ms", "plain", kind)
        near = [s for s in _run(results, "delay_mean_ms", "plain", kind) if s.x in _places(far)]
        hops, far_hops = (
            [
                spot.y / between.y
                for spot, between in zip(
                    spots, curve(results, "sites", measure, drawn=kind), strict=True
                )
            ]
            for spots, measure in ((near, "between_ms"), (far, "row_between_ms"))
        )
        apart += [abs(a / b - 1) for a, b in zip(far_hops, hops, strict=True)]
        if far:
            told.append(
                f"{kind}, {places(far)} sites: {means(far)} ms, {_times(far_hops)} times the mean"
                f" time between two regions, instead of {means(near)} ms, {_times(hops)} times"
            )
    if not told:
        return []
    return [
        Finding(
            "Over another network the delay follows the time between its regions.",
            judged([each <= _FOLLOWS for each in apart]),
            f"Eight regions in a row instead of six: {'; '.join(told)} (follows: as many times that"
            f" time, within {100 * _FOLLOWS:.0f} %).",
        )
    ]


def _places(spots: Sequence[Spot]) -> set[float]:
    return {spot.x for spot in spots}


def _times(ratios: Sequence[float]) -> str:
    return ", ".join(f"{ratio:.1f}" for ratio in ratios)


def _run(results: Results, measure: str, tracker: str, kind: str = UNIFORM) -> list[Spot]:
    return curve(results, "sites", measure, tracker=tracker, drawn=kind)


# --- churn ----------------------------------------------------------------------------------------


def churn_figure(results: Results) -> "Figure":
    figure, axes = new_figure(10.0, 4.6, 1, 2)
    for ax, (measure, name, unit) in zip(
        axes,
        (("done", "Changes done", "changes a second"), ("delay_mean_ms", "Mean delay", "ms")),
        strict=True,
    ):
        for number, sites in enumerate(values(results, "sites")):
            for protocol, line in zip(PROTOCOLS_UNDER_CHURN, ("-", "--"), strict=True):
                spots = curve(results, "changes", measure, sites=sites, protocol=protocol)
                colour = PALETTE[2 * number % len(PALETTE)]
                draw_curve(ax, spots, f"{protocol}, {sites} sites", colour, MARKERS[number], line)
        title(ax, name)
        label(ax, "changes a second, asked for", unit)
        ax.set_ylim(bottom=0)
    legend(axes[0])
    return figure


def churn_findings(results: Results) -> list[Finding]:
    sizes, asked = values(results, "sites"), values(results, "changes")
    most = {
        protocol: [_most_done(results, protocol, sites) for sites in sizes]
        for protocol in PROTOCOLS_UNDER_CHURN
    }
    at = f"at {', '.join(map(str, sizes))} sites"
    delays = {
        (protocol, sites): curve(
            results, "changes", "delay_mean_ms", sites=sites, protocol=protocol
        )
        for protocol in PROTOCOLS_UNDER_CHURN for sites in sizes
    }  # fmt: skip
    found = [
        Finding(
            "A domain follows only so many changes a second: they wait for each other.",
            judged([one.y <= _BEHIND * asked[-1] for spots in most.values() for one in spots]),
            "Done at most, a second: "
            + "; ".join(
                f"{protocol} {with_intervals(spots, 2)} (power {end_to_end(spots):.2f} of the"
                " sites)"
                for protocol, spots in most.items()
            )
            + f", {at}; asked for up to {asked[-1]:g} (behind: at most {_BEHIND:g} of these).",
        ),
        Finding(
            "Messages wait for changes: the more changes, the longer the delay.",
            judged([spots[-1].y > spots[0].y for spots in delays.values()]),
            "; ".join(
                f"{protocol}, {sites} sites: {means(spots)} ms at {places(spots)}"
                for (protocol, sites), spots in delays.items()
            ) + " changes a second.",
        ),
        Finding(
            "How long members must stay on average, if each site of a domain joins a group once"
            " and leaves it.",
            MEASURED,
            "; ".join(
                f"{protocol} at least {', '.join(f'{2 * s.x / s.y:,.0f}' for s in spots)} s"
                for protocol, spots in most.items()
            ) + f" {at}: two changes for each site, at the highest rate. No larger domain was run.",
        ),
    ]  # fmt: skip
    return [replace(finding, kind=OURS) for finding in found]


def _most_done(results: Results, protocol: str, sites: int) -> Spot:
    """Against the sites: the changes a second that were done at the rate where most were."""
    best = max(
        curve(results, "changes", "done", sites=sites, protocol=protocol), key=lambda spot: spot.y
    )
    return Spot(sites, best.y, best.ci)
