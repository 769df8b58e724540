"""What [GS] §4 says about its graphs, tables and the cost of set-up, beside what was measured.

Statements are in our words; whether they hold is computed from the results, never written down.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.studies.fits import correlation
from ordercast.studies.gs.broadcast_findings import broadcast_findings
from ordercast.studies.gs.design_findings import compromise_findings, heuristic_findings
from ordercast.studies.gs.figures import SERIES, TWICE, knee, sized_curve
from ordercast.studies.gs.frames import T_MS
from ordercast.studies.gs.latency_findings import latency_findings
from ordercast.studies.gs.load import PROTOCOLS
from ordercast.studies.reproduction import (
    AGREES,
    DIFFERS,
    INTERVAL,
    MEASURED,
    OURS,
    PARTLY,
    Finding,
    Spot,
    curve,
    judged,
    values,
)
from ordercast.studies.wording import means, percents, places, span, with_intervals

CLOSE_TO_2 = 2.5  # what still counts as "close to 2"
SMALL = 10  # sites, at most: what still counts as a small group

MUCH_LESS = 0.75  # of the bound, at most: what still counts as "much less" than it
GENERALLY = 0.9  # of the points, at least
ALIKE = 0.9  # correlation, at least: what still counts as the same shape
MANY = 10.0  # multicasts to a group, at most: what still counts as few of them
SLIGHTLY = 1.1  # times as many, at most: what still counts as "slightly worse"
COMPARABLE = 2.0  # times as many, at most: what still counts as comparable
FAR_FEWER = 0.5  # as many, at most: what still counts as far fewer
MUCH_HIGHER = 2.0  # times as high, at least: what counts as much higher
VERY_LOW = 0.1  # of the load at the crowded end, at most: what still counts as very low
VERY_WELL = 1.5  # times the mean load, at most: what still counts as spread very well
LOW = 1.0  # extra sites of a group, at most: what still counts as few
FREQUENTLY = 0.5  # of the groups, at least: what counts as frequent

_AXES = {"sites": "the number of sites", "size": "the size of groups"}

# --- the graphs -----------------------------------------------------------------------------------


def depth_findings(x: str) -> Any:
    def find(results: Results) -> list[Finding]:
        found = [_at_most_2(results), _shape(results, x), *_spread(results, x)]
        found += latency_findings(results, x) + heuristic_findings(results, x)
        return [*found, _tightness(results, "depth_mean", share=0.1)]

    return find


def _at_most_2(results: Results) -> Finding:
    rows = [
        row
        for row in _rows(results, "depth_mean", protocol="propagation")
        if row.parameters["size"] <= SMALL
    ]
    deepest = max(rows, key=_mean)
    below = [row for row in rows if _mean(row) <= CLOSE_TO_2]
    always = [
        groups
        for groups in values(results, "groups")
        if all(_mean(row) <= CLOSE_TO_2 for row in rows if row.parameters["groups"] == groups)
    ]
    measured = (
        f"d ≤ {CLOSE_TO_2:g} at {len(below)} of {len(rows)} points with groups of at most {SMALL}"
        f"{'; everywhere with ' + _listed(always) + ' groups' if always else ''}."
        f" The deepest: {_told(deepest)} with {_where(deepest, 'groups', 'sites', 'size')}."
    )
    return Finding(
        "d is at most 2, or close to 2, when groups are small.",
        judged([row in below for row in rows]),
        measured,
    )


def _shape(results: Results, x: str) -> Finding:
    """Deepest in the middle of the axis: bushy trees at one end, a sparse forest at the other."""
    peaks, inside = [], []
    for groups in values(results, "groups"):
        spots = curve(results, x, "depth_mean", groups=groups, protocol="propagation")
        peak = max(spots, key=lambda spot: spot.y)
        ends = (spots[0], spots[-1])
        inside.append(all(peak.y - peak.ci > end.y + end.ci for end in ends))
        peaks.append(
            f"{groups} groups: {spots[0].y:.2f} at {spots[0].x:,g}, highest {peak.y:.2f} at"
            f" {peak.x:,g}, {spots[-1].y:.2f} at {spots[-1].x:,g}"
        )
    many = "many sites" if x == "sites" else "small groups"
    few = "few sites" if x == "sites" else "large groups"
    aside = (
        ""
        if x == "sites"
        else " (The text puts the crowded end of the axis on the left; along group size it is on"
        " the right: errata GS-9.)"
    )
    return Finding(
        f"Trees are short and bushy where groups crowd the sites ({few}), longer in between, and"
        f" short again where groups hardly meet ({many}).",
        judged(inside),
        "; ".join(peaks) + f" ({x}).{aside}",
    )


def _spread(results: Results, x: str) -> list[Finding]:
    """Members of a group are not served at once: [GS] §4.1 on the two-phase algorithm."""
    most = max(values(results, "groups"))

    def spots(protocol: str, which: str) -> list[Spot]:
        return curve(results, x, f"delay_{which}_ms", groups=most, protocol=protocol)

    mean, last = spots("propagation", "mean"), spots("propagation", "last")
    first_two_phase, last_two_phase = spots("two_phase", "first"), spots("two_phase", "last")
    sooner = [a.y < b.y for a, b in zip(mean, first_two_phase, strict=True)]
    worst = max(range(len(last)), key=lambda place: last[place].y)
    in_time = [a.y <= b.y for a, b in zip(last, last_two_phase, strict=True)]
    return [
        Finding(
            "The delay is long for one or a few members only; by two-phase every member waits for"
            " two full rounds.",
            judged(sooner),
            f"With {most} groups, the mean member has a message before two-phase serves its first"
            f" one at {sum(sooner)} of {len(mean)} points. Where propagation is slowest ({x}"
            f" {last[worst].x:g}): {mean[worst].y:.1f} ms for the mean member, {last[worst].y:.1f}"
            f" ms for the last (two-phase {first_two_phase[worst].y:.1f} to"
            f" {last_two_phase[worst].y:.1f}).",
        ),
        Finding(
            "Propagation's delay is competitive with two-phase (§6).",
            judged(in_time),
            f"With {most} groups and L = 5 P, the last member is served no later than by two-phase"
            f" at {sum(in_time)} of {len(last)} points.",
        ),
        *([_small_groups(results)] if x == "size" else []),
    ]


def _small_groups(results: Results) -> Finding:
    """Whether the smallest groups are served sooner than by two-phase, and the largest, too."""
    told: list[str] = []
    sooner: dict[int, list[bool]] = {}
    sizes = values(results, "size")
    for size in (sizes[0], sizes[-1]):
        sooner[size] = []
        waits = []
        for groups in values(results, "groups"):
            at = {"size": size, "groups": groups}
            (ours,) = curve(results, "size", "delay_last_ms", protocol="propagation", **at)
            (theirs,) = curve(results, "size", "delay_last_ms", protocol="two_phase", **at)
            sooner[size].append(ours.y < theirs.y)
            waits.append(f"{ours.y:.1f} ms with {groups} groups")
        told.append(f"n = {size}: {', '.join(waits)}; two-phase {theirs.y:.1f} ms")
    return Finding(
        "It can surpass two-phase when groups are small (§6).",
        judged(sooner[sizes[0]]),
        f"Until the last member is served: {'. '.join(told)}. Sooner than by two-phase in"
        f" {sum(sooner[sizes[0]])} of {len(sooner[sizes[0]])} cases where groups are smallest, and"
        f" in {sum(sooner[sizes[-1]])} of {len(sooner[sizes[-1]])} where they are largest.",
    )


def extra_findings(results: Results) -> list[Finding]:
    rows = _rows(results, "extra_mean", protocol="propagation")
    most = max(rows, key=_mean)
    low = [row for row in rows if _mean(row) <= LOW]
    depth = {_key(row): _mean(row) for row in _rows(results, "depth_mean", protocol="propagation")}
    pairs = [(_mean(row), depth[_key(row)]) for row in rows if _key(row) in depth]
    likeness = correlation(pairs)
    share = [_mean(row) for row in _rows(results, "extra_share", protocol="propagation")]
    fewer = [_mean(row) < 2 * row.parameters["size"] for row in rows]
    return [
        Finding(
            "The number of extra sites is low in general.",
            judged([row in low for row in rows]),
            f"At most one per group at {len(low)} of {len(rows)} points; the most is"
            f" {_told(most)} with {_where(most, 'groups', 'sites')}, in groups of"
            f" {most.parameters['size']}.",
        ),
        Finding(
            "Extra sites behave as the depth does.",
            judged([likeness > ALIKE]),
            f"The correlation of ε and d over all points is {likeness:.3f}.",
        ),
        Finding(
            "Extra sites do not occur frequently (§6).",
            judged([each < FREQUENTLY for each in share]),
            f"Between {100 * min(share):.0f} % and {100 * max(share):.0f} % of the groups have one"
            f" or more; fewer than {100 * FREQUENTLY:.0f} % at"
            f" {sum(each < FREQUENTLY for each in share)} of {len(share)} points.",
        ),
        Finding(
            "In most cases propagation takes fewer messages than two-phase (§6).",
            judged(fewer),
            f"n + ε is below 3n at {sum(fewer)} of {len(fewer)} points; at most it is"
            f" {100 * max((1 + _mean(row) / row.parameters['size']) / 3 for row in rows):.0f} % of"
            " it.",
        ),
        _tightness(results, "extra_mean", width=0.5),
    ]


def load_findings(x: str) -> Any:
    crowded_first = x == "sites"

    def find(results: Results) -> list[Finding]:
        counts = values(results, "groups")
        return [
            _falls(results, x, counts, crowded_first=crowded_first),
            _evenly(results, x, counts),
            _source(results, x, counts),
            _central(results, x, counts),
            *compromise_findings(results, x),
            _tightness(results, "load_max", share=0.1),
        ]

    return find


def _falls(results: Results, x: str, counts: Sequence[int], *, crowded_first: bool) -> Finding:
    """From the crowded end of the axis to the sparse one: it falls, and ends very low."""
    told, falls, low = [], [], []
    for groups in counts:
        spots = curve(results, x, "load_max", groups=groups, protocol="propagation")
        crowded, sparse = (spots[0], spots[-1]) if crowded_first else (spots[-1], spots[0])
        falls.append(sparse.y + sparse.ci < crowded.y - crowded.ci)
        low.append(sparse.y <= VERY_LOW * crowded.y)
        told.append(f"{groups} groups: {crowded.y:.0f} at {crowded.x:,g}, {sparse.y:.0f} at"
                    f" {sparse.x:,g}")  # fmt: skip
    return Finding(
        "Propagation's load is high where trees are bushy and few sites are primaries, and falls"
        " until it is very low where trees are sparse.",
        judged([*falls, *low]),
        f"{'; '.join(told)} ({x}). It falls with {_some(falls)} numbers of groups, and is very low"
        f" in the end (at most {100 * VERY_LOW:g} % of what it was) with {_some(low)}.",
    )


def _evenly(results: Results, x: str, counts: Sequence[int]) -> Finding:
    """How far the busiest receiver is above the mean one, and below propagation's busiest site."""
    ratios = _ratios(results, x, counts, "propagation", "two_phase")
    above = []
    for groups in counts:
        busiest, mean = (
            curve(results, x, measure, groups=groups, protocol="two_phase")
            for measure in ("load_max", "load_mean")
        )
        above += [a.y / b.y for a, b in zip(busiest, mean, strict=True)]
    even = [each <= VERY_WELL for each in above]
    return Finding(
        "Two-phase spreads load over the receivers very well, so that the highest is low.",
        judged([*even, *(ratio > 1 for ratio, _ in ratios)]),
        f"The busiest receiver handles {span(above, 1)} times what the mean one does (very well: at"
        f" most {VERY_WELL:g} times; so at {_some(even)} points). Its load is below propagation's"
        f" highest at"
        f" {sum(ratio > 1 for ratio, _ in ratios)} of {len(ratios)} points; propagation's is"
        f" {min(ratios)[0]:.1f} to {max(ratios)[0]:.1f} times as high.",
    )


def _source(results: Results, x: str, counts: Sequence[int]) -> Finding:
    ratios = []
    for groups in counts:
        source = curve(results, x, "load_source", groups=groups, protocol="two_phase")
        sites = curve(results, x, "load_max", groups=groups, protocol="two_phase")
        ratios += [(a.y / b.y, a.x) for a, b in zip(source, sites, strict=True)]
    higher = [ratio > 1 for ratio, _ in ratios]
    largest = max(at for _, at in ratios)
    large = [ratio for ratio, at in ratios if at == largest]
    return Finding(
        "At a source of two-phase it is higher, possibly much higher if groups are large.",
        judged([*(ratio > 1 for ratio in large), max(large) >= MUCH_HIGHER])
        if x == "size"
        else MEASURED,
        f"A source handles 3n messages for each of its own: above the busiest receiver (one"
        f" message to every group) at {sum(higher)} of {len(ratios)} points, {min(ratios)[0]:.1f}"
        f" to {max(ratios)[0]:.1f} times as much"
        + (
            f"; in the largest groups {span(large, 1)} (much higher: {MUCH_HIGHER:g} or more)."
            if x == "size"
            else "."
        ),
    )


def _central(results: Results, x: str, counts: Sequence[int]) -> Finding:
    ratios = _ratios(results, x, counts, "centralized", "propagation")
    stars = []
    for groups in counts:
        one = curve(results, x, "load_max", groups=groups, protocol="centralized")
        star = curve(results, x, "load_star", groups=groups, protocol="centralized")
        stars += [(b.y / a.y, a.x) for a, b in zip(one, star, strict=True)]
    least = min(stars)
    return Finding(
        "The centralized method has the highest load, since one site carries everything;"
        " propagation relieves that bottleneck (§6).",
        judged([ratio > 1 for ratio, _ in ratios]),
        f"Its centre carries {min(ratios)[0]:.1f} to {max(ratios)[0]:.1f} times propagation's"
        f" highest load. With a centre per domain, as our `star` builds it, the busiest centre"
        f" carries as little as {100 * least[0]:.0f} % of that (at {x} {least[1]:,g}).",
    )


def _ratios(
    results: Results, x: str, counts: Sequence[int], above: str, below: str
) -> list[tuple[float, float]]:
    """(how many times as high, at which x) at every point."""
    found = []
    for groups in counts:
        upper = curve(results, x, "load_max", groups=groups, protocol=above)
        lower = curve(results, x, "load_max", groups=groups, protocol=below)
        found += [(a.y / b.y, a.x) for a, b in zip(upper, lower, strict=True)]
    return found


def exponential_findings(results: Results) -> list[Finding]:
    return [
        *(_lower_depths(results, x) for x in SERIES),
        _same_shape(results, "depth_mean", "the depth"),
        _same_shape(results, "load_max", "the load"),
    ]


def _lower_depths(results: Results, x: str) -> Finding:
    lower, told = [], []
    for groups in values(results, "groups"):
        drawn, fixed = _both(results, x, "depth_mean", groups)
        lower += [a.y < b.y for a, b in zip(drawn, fixed, strict=True)]
        told.append(
            f"{groups} groups: {drawn[0].y:.2f} against {fixed[0].y:.2f} at {drawn[0].x:,g},"
            f" {drawn[-1].y:.2f} against {fixed[-1].y:.2f} at {drawn[-1].x:,g}"
        )
    share = sum(lower) / len(lower)
    return Finding(
        f"Sizes drawn from an exponential distribution give generally lower depths: along"
        f" {_AXES[x]}.",
        AGREES if share >= GENERALLY else DIFFERS if share <= 1 - GENERALLY else PARTLY,
        f"Lower at {sum(lower)} of {len(lower)} points (taken as generally:"
        f" {100 * GENERALLY:.0f} %). {'; '.join(told)} ({x}).",
        claim="Sizes drawn from an exponential distribution give generally lower depths.",
    )


def _same_shape(results: Results, measure: str, of: str) -> Finding:
    alike, told = [], []
    for x in SERIES:
        for groups in values(results, "groups"):
            drawn, fixed = _both(results, x, measure, groups)
            likeness = correlation([(a.y, b.y) for a, b in zip(drawn, fixed, strict=True)])
            times = [a.y / b.y for a, b in zip(drawn, fixed, strict=True)]
            alike.append(likeness > ALIKE)
            told.append(f"{groups} groups {likeness:.2f} ({span(times, 2)} times as high)")
        told[-1] += f" along {_AXES[x]}"
    return Finding(
        f"The curves of {of} have the same shape as with fixed sizes.",
        judged(alike),
        f"Correlation of the two (taken as the same shape: above {ALIKE:g}): {'; '.join(told)}.",
    )


def _both(results: Results, x: str, measure: str, groups: int) -> tuple[list[Spot], list[Spot]]:
    return (
        sized_curve(results, x, measure, groups, "exponential"),
        sized_curve(results, x, measure, groups, "fixed"),
    )


def _tightness(
    results: Results, measure: str, *, share: float = 0.0, width: float = 0.0
) -> Finding:
    rows = [row for row in _rows(results, measure) if row.ci95 is not None]
    if share:
        widest = max((row.ci95 or 0.0) / abs(_mean(row)) for row in rows if row.mean)
        measured, good = f"± {100 * widest:.1f} % of the mean", widest <= share
        wanted = f"± {100 * share:g} % of the mean"
    else:
        widest = max(row.ci95 or 0.0 for row in rows)
        measured, good = f"± {widest:.2f}", widest <= width
        wanted = f"± {width:g}"
    least, most = min(row.runs for row in rows), max(row.runs for row in rows)
    runs = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return Finding(
        f"95 % intervals within {wanted}.",
        judged([good]),
        f"The widest is {measured}, with {runs} random tables per point.",
        kind=INTERVAL,
    )


# --- the tables, and the cost of set-up -----------------------------------------------------------


def _by_size(results: Results, protocol: str, measure: str) -> list[Spot]:
    return curve(results, "size", measure, protocol=protocol)


def table1_findings(results: Results) -> list[Finding]:
    return [*_propagation(results), *_others(results), *_compared(results)]


def _propagation(results: Results) -> list[Finding]:
    of = partial(_by_size, results, "propagation")
    n, delay, bound = of("messages"), of("delay_ms"), of("delay_formula_ms")
    depth = of("depth_mean")
    shares = [a.y / b.y for a, b in zip(delay, bound, strict=True)]
    at = _sizes(n)
    return [
        Finding(
            "Propagation takes N = n + ε messages.",
            judged(_equal(n, of("messages_formula"))),
            f"{at} N {_list(n)}; ε {_list(of('extra_mean'))}.",
        ),
        Finding(
            "Its delay D is at most (d + 1)L + (n + ε)P.",
            judged([share <= 1 + 1e-9 for share in shares]),
            f"{at} D {_list(delay)} ms, at most {_list(bound)} ms with d {_list(depth)}.",
        ),
        Finding(
            "In general D is much less than that.",
            judged([share <= MUCH_LESS for share in shares]),
            f"{at} {percents(delay, bound)} of it (taken as much less: {100 * MUCH_LESS:.0f} % or"
            " below).",
        ),
    ]


def _others(results: Results) -> list[Finding]:
    found = []
    for protocol, statement, aside in (
        ("centralized", "Centralized: N = n and D = 2L + nP.",
         "One message more whenever the centre is not a member (errata GS-9). "),
        ("two_phase", "Two-phase: N = 3n and D = 3L + (2n + 1)P.", ""),
    ):  # fmt: skip
        of = partial(_by_size, results, protocol)
        n, delay = of("messages"), of("delay_ms")
        same = [*_equal(n, of("messages_formula")), *_equal(delay, of("delay_formula_ms"))]
        told = f"{aside}{_sizes(n)} N {_list(n)}; D {_list(delay)} ms."
        found.append(Finding(statement, judged(same), told))
    return found


def _compared(results: Results) -> list[Finding]:
    of = partial(_by_size, results, "propagation")
    n, delay, depth = of("messages"), of("delay_ms"), of("depth_mean")
    central, central_delay, two_phase, two_phase_delay = (
        _by_size(results, protocol, measure)
        for protocol in ("centralized", "two_phase")
        for measure in ("messages", "delay_ms")
    )
    at = _sizes(n)
    return [
        Finding(
            "Propagation needs far fewer messages than two-phase (3n).",
            judged([a.y <= FAR_FEWER * b.y for a, b in zip(n, two_phase, strict=True)]),
            f"{at} {percents(n, two_phase)} as many (taken as far fewer: up to"
            f" {100 * FAR_FEWER:.0f} %).",
        ),
        Finding(
            "It needs only slightly more messages than the centralized method.",
            judged([a.y <= SLIGHTLY * b.y for a, b in zip(n, central, strict=True)]),
            f"{at} {percents(n, central)} as many (taken as slightly more: up to"
            f" {100 * SLIGHTLY:.0f} %).",
        ),
        Finding(
            "The centralized method is better in messages and in delay.",
            judged(
                [
                    a.y <= b.y
                    for one, other in ((central, n), (central_delay, delay))
                    for a, b in zip(one, other, strict=True)
                ]
            ),
            f"{at} N {_list(central)} against {_list(n)}; D {_list(central_delay)} ms against"
            f" {_list(delay)} ms. With one message under way its centre is no bottleneck.",
        ),
        Finding(
            "Where d ≤ 2, propagation is quicker than two-phase.",
            judged(
                [a.y < b.y for a, b, d in zip(delay, two_phase_delay, depth, strict=True)
                 if d.y <= 2]
            ),
            f"{at} D {_list(delay)} ms with d {_list(depth)}; two-phase {_list(two_phase_delay)}"
            " ms.",
        ),
        Finding(
            "Within a group, members other than the last may be served early.",
            MEASURED,
            f"{at} the first member after {_list(of('delay_first_ms'))} ms, the mean one after"
            f" {_list(of('delay_mean_ms'))} ms, the last after {_list(delay)} ms.",
        ),
    ]  # fmt: skip


def table2_findings(results: Results) -> list[Finding]:
    of = partial(_by_size, results)
    n, delay = of("propagation", "messages"), of("propagation", "delay_ms")
    depth = of("propagation", "depth_mean")
    central, two_phase = of("centralized", "messages"), of("two_phase", "messages")
    more = [a.y - (b.y + 1) for a, b in zip(n, depth, strict=True)]
    per_message = [a.y / b.y for a, b in zip(delay, n, strict=True)]
    at = _sizes(n)
    return [
        Finding(
            "Propagation takes N = d + 1 messages.",
            judged([abs(each) < 1e-9 for each in more]),
            "A lower bound: every site that forwards transmits once, and a level may have several"
            f" of them (errata GS-9). {at} N {_list(n)}, which is"
            f" {', '.join(f'{each:.2f}' for each in more)} more than d + 1.",
        ),
        Finding(
            "D is N times T.",
            judged([abs(each - T_MS) < 1e-6 for each in per_message]),
            f"{at} D {_list(delay)} ms, {span(per_message, 3)} ms for each transmission (T ="
            f" {T_MS:g} ms).",
        ),
        Finding(
            "Centralized takes two messages.",
            judged([spot.y == 2 for spot in central]),
            f"{at} N {_list(central)}.",
        ),
        Finding(
            "Two-phase takes n + 2 messages.",
            judged(_equal(two_phase, of("two_phase", "messages_formula"))),
            f"{at} N {_list(two_phase)}.",
        ),
        _comparable(n, two_phase),
        _checks(results),
        _unicasts(results),
    ]


def _comparable(n: Sequence[Spot], two_phase: Sequence[Spot]) -> Finding:
    """Both halves of "only": comparable where groups are small, and not where they are larger."""
    times = [Spot(b.x, b.y / a.y, 0.0) for a, b in zip(n, two_phase, strict=True)]
    return Finding(
        "Two-phase (n + 2) is comparable for small groups only.",
        judged([(spot.y <= COMPARABLE) == (spot.x <= SMALL) for spot in times]),
        f"{_sizes(n)} two-phase takes {means(times, 1)} times as many transmissions as propagation"
        f" (comparable: at most {COMPARABLE:g}; small: at most {SMALL} sites).",
    )


def _checks(results: Results) -> Finding:
    """Checks of multicasts, in software; the hardware checks a unicast."""
    checks = {p: _by_size(results, p, "checks") for p in PROTOCOLS}
    wanted = {p: _by_size(results, p, "wanted_checks") for p in PROTOCOLS}
    more = [a.y > b.y for p in PROTOCOLS for a, b in zip(checks[p], wanted[p], strict=True) if a.y]
    told = "; ".join(
        f"{p} {_list(checks[p])}, of them {percents(wanted[p], checks[p])} where it is wanted"
        for p in PROTOCOLS if all(spot.y for spot in checks[p])
    )  # fmt: skip
    return Finding(
        "Multicasts have to be checked in software at all sites, also where nobody is a member.",
        judged(more),
        f"{_sizes(checks['two_phase'])} checks for one message: {told}.",
    )


def _unicasts(results: Results) -> Finding:
    """Both ways are there; which one is preferable depends on what a check costs."""
    n, checks, extra = (
        _by_size(results, "propagation", measure)
        for measure in ("messages", "checks", "extra_mean")
    )
    alone = [spot.x + more.y for spot, more in zip(n, extra, strict=True)]
    return Finding(
        "Where few sites receive, a series of unicasts may be preferable.",
        MEASURED,
        f"{_sizes(n)} propagation takes {means(n, 1)} transmissions and {means(checks)} checks in"
        f" software, or by unicasts {', '.join(f'{each:.1f}' for each in alone)} transmissions"
        " (n + ε, Table 1) and no check.",
    )


def under_load_findings(results: Results) -> list[Finding]:
    return [
        finding
        for size in values(results, "size")
        for finding in (
            _bottleneck(results, size), _relieved(results, size), _control(results, size),
            *broadcast_findings(results, size),
        )
    ]  # fmt: skip


def _bottleneck(results: Results, size: int) -> Finding:
    knees = {protocol: knee(results, protocol, size) for protocol in PROTOCOLS}
    most = _rates(results, size)[-1]
    told = ", ".join(
        f"{protocol} {rate:,g}{' or more' if rate == most else ''}"
        for protocol, rate in knees.items()
    )
    return Finding(
        f"The central site is a bottleneck, so D and N do not suffice (n = {size}).",
        judged(
            [knees["centralized"] < rate for name, rate in knees.items() if name != "centralized"]
        ),
        f"Messages a second up to which the mean delay is at most {TWICE:g} times that at the"
        f" lowest rate: {told}.",
        claim="The central site is a bottleneck, so D and N do not suffice.",
    )


def _relieved(results: Results, size: int) -> Finding:
    """At the rates above the centre's knee."""
    end = knee(results, "centralized", size)
    ours, theirs, two_phase = (
        curve(results, "rate", "delay_mean_ms", size=size, protocol=protocol)
        for protocol in ("propagation", "centralized", "two_phase")
    )
    beyond = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.x > end]
    told = "; ".join(
        f"{a.x:,g} a second: {a.y:,.0f} against {b.y:,.0f} ms (two-phase {c.y:,.0f})"
        for a, b, c in zip(ours, theirs, two_phase, strict=True)
    )
    return Finding(
        f"Propagation alleviates the bottleneck of the centralized solution (§6; n = {size}).",
        judged([a.y < b.y for a, b in beyond]) if beyond else MEASURED,
        f"Quicker at {sum(a.y < b.y for a, b in beyond)} of {len(beyond)} rates above the centre's"
        f" knee. {told}.",
        claim="Propagation alleviates the bottleneck of the centralized solution (§6).",
    )


def _rates(results: Results, size: int) -> list[float]:
    """Small groups were sent to at more rates than large ones."""
    spots = curve(results, "rate", "delay_mean_ms", size=size, protocol=PROTOCOLS[0])
    return [spot.x for spot in spots]


def _control(results: Results, size: int) -> Finding:
    def per_message(protocol: str, measure: str) -> str:
        spots = curve(results, "rate", measure, size=size, protocol=protocol)
        return f"{spots[0].y:.1f} to {spots[-1].y:.1f}"

    told = "; ".join(
        f"{protocol} {per_message(protocol, 'frames_data')} of data and"
        f" {per_message(protocol, 'frames_control')} of control"
        for protocol in PROTOCOLS
    )
    rates = _rates(results, size)
    return Finding(
        f"Frames per message, with all control frames (n = {size}).",
        MEASURED,
        f"From {rates[0]:,g} to {rates[-1]:,g} messages a second: {told}. The tables count data"
        " only; acknowledgements and rounds of stability are fewer per message the more is sent.",
        kind=OURS,
    )


def setup_findings(results: Results) -> list[Finding]:
    def all_of(measure: str) -> list[float]:
        return [_mean(row) for row in _rows(results, measure)]

    pays, worst = all_of("pays_in_delay"), min(all_of("pays_in_messages"))
    never = sum(share < 0.5 for share in pays)
    by_messages = _of_each_group(results, "break_even_messages")
    by_delay = _of_each_group(results, "break_even_delay")
    many = [each > MANY for each in (*by_messages, *by_delay)] + [True] * never
    ever = "all tables" if worst == 1 else f"at least {100 * worst:.0f} % of the tables"
    regained = f"after {span(by_delay, 1)} multicasts to each group" if by_delay else "nowhere"
    return [
        Finding(
            "Setting up costs a lot, so a group must get relatively many messages in its life.",
            judged(many),
            f"Counted in messages, the set-up is regained after {span(by_messages, 1)} multicasts"
            f" to each group ({span(all_of('break_even_messages'), 0)} to all together), in {ever}"
            f" of each point. Counted in delay, where propagation is quicker than two-phase, it is"
            f" regained {regained}, at {sum(each > MANY for each in by_delay)} of"
            f" {len(by_delay)} points after many (more than {MANY:g}); at {never} of {len(pays)}"
            " propagation is slower in most tables, and it never is. Set-up takes"
            f" {span(all_of('install_messages'), 0)} messages; computing the forest takes"
            f" {span(all_of('compute_ms'), 1)} ms, installing it"
            f" {span(all_of('install_ms'), 0)} ms. What a change of a running system takes:"
            " `gs-change`.",
        ),
    ]


def _of_each_group(results: Results, measure: str) -> list[float]:
    """Break-even in multicasts to each group, at points where propagation pays in most tables."""
    pays = measure.replace("break_even", "pays_in")
    where = [row.parameters for row in _rows(results, pays) if _mean(row) >= 0.5]
    return [
        _mean(row) / row.parameters["groups"]
        for row in _rows(results, measure)
        if row.parameters in where
    ]


def _equal(a: Sequence[Spot], b: Sequence[Spot]) -> list[bool]:
    return [abs(x.y - y.y) < 1e-9 for x, y in zip(a, b, strict=True)]


def _sizes(spots: Sequence[Spot]) -> str:
    return f"n = {places(spots)}:"


def _list(spots: Sequence[Spot]) -> str:
    return with_intervals(spots, 2)


def _rows(results: Results, measure: str, **where: Any) -> list[ResultRow]:
    return [row for row in results.where(measure=measure, **where) if row.mean is not None]


def _mean(row: ResultRow) -> float:
    return row.mean or 0.0


def _key(row: ResultRow) -> tuple[Any, ...]:
    return tuple(row.parameters.get(name) for name in ("sites", "groups", "size"))


def _told(row: ResultRow) -> str:
    return f"{_mean(row):.2f} ± {row.ci95 or 0.0:.2f}"


def _where(row: ResultRow, *names: str) -> str:
    words = {"groups": "{} groups", "sites": "{} sites", "size": "{} sites per group"}
    return ", ".join(words[name].format(row.parameters[name]) for name in names)


def _some(cases: Sequence[bool]) -> str:
    return f"{sum(cases)} of {len(cases)}"


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(str(number) for number in numbers)
