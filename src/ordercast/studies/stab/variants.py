"""[STAB] §3.1, §4.1, §5.1, §7: single numbers instead of arrays, slow routers, long links, and
S_FullDist: the figure, and what the paper says beside what was measured."""

from typing import TYPE_CHECKING, Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.figures import (
    draw_curve,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.stab.figures import COLOURS
from ordercast.studies.stab.runs import S_FULL_DIST
from ordercast.studies.wording import means, places

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 0.05  # of each other, at most: what still counts as the same round trip
_PLAIN = {"array": "senders", "router": 1, "links": "lan"}
_LINES = {"senders": "-", "total": "--"}


def variant_curve(results: Results, measure: str, protocol: str, **other: Any) -> list[Spot]:
    """Against members; `other` than arrays by sender, routers of 1 ms and short links."""
    return curve(results, "members", measure, protocol=protocol, **{**_PLAIN, **other})


def variants_figure(results: Results) -> "Figure":
    figure, axes = new_figure(13.5, 5.0, 1, 3)
    for protocol in PROTOCOLS:
        for array, line in _LINES.items():
            name = protocol if array == "senders" else f"{protocol}, four bytes"
            for ax, links in ((axes[0], "lan"), (axes[2], "wide")):
                spots = variant_curve(results, "rtt_ms", protocol, array=array, links=links)
                draw_curve(ax, spots, name, COLOURS[protocol], "o", line)
        most = _largest(results)
        spots = curve(
            results, "router", "rtt_ms", protocol=protocol, array="senders", links="lan",
            members=most,
        )  # fmt: skip
        draw_curve(axes[1], spots, protocol, COLOURS[protocol])
        log_axis(axes[1], "x", values(results, "router"))
        title(axes[1], f"Slower routers, {most:,} members")
    title(axes[0], "Arrays, and four bytes (dashed)")
    title(axes[2], "Every member in any region")
    for ax in (axes[0], axes[2]):
        label(ax, "members", "round-trip time, ms")
        log_axis(ax, "x", [spot.x for spot in variant_curve(results, "rtt_ms", "s_coordp")])
    label(axes[1], "milliseconds in a router", "round-trip time, ms")
    for ax in axes:
        log_axis(ax, "y")
    legend_above(figure, axes[0], columns=5)
    return figure


def _largest(results: Results) -> int:
    """The most members for which routers vary and every protocol ran."""
    slow = max(values(results, "router"))
    spots = curve(results, "members", "rtt_ms", protocol="full_dist", array="senders",
                  router=slow, links="lan")  # fmt: skip
    return int(spots[-1].x)


def variants_findings(results: Results) -> list[Finding]:
    return [_four_bytes(results), *_routers(results), *_same(results), *_wide(results)]


def _four_bytes(results: Results) -> Finding:
    told, cases = [], []
    for protocol in PROTOCOLS:
        arrays = variant_curve(results, "rtt_ms", protocol)
        single = variant_curve(results, "rtt_ms", protocol, array="total")
        cases += [b.y < a.y for a, b in zip(arrays, single, strict=True)]
        told.append(
            f"{protocol} {means(arrays, 1)} ms with arrays, {means(single, 1)} with four bytes"
            f" ({places(arrays)} members)"
        )
    return Finding(
        "With a total order four bytes take the place of an array, which makes basic and"
        " structured protocols quicker.",
        judged(cases),
        f"{'; '.join(told)}.",
    )


def _routers(results: Results) -> list[Finding]:
    most = _largest(results)
    rtt = {
        p: curve(results, "router", "rtt_ms", protocol=p, array="senders", links="lan",
                 members=most)
        for p in PROTOCOLS
    }  # fmt: skip
    pairs = (("coordp", "s_coordp"), ("full_dist", "s_coordp"), ("train", "s_train"))
    ratios = {
        (basic, ours): [a.y / b.y for a, b in zip(rtt[basic], rtt[ours], strict=True)]
        for basic, ours in pairs
    }
    told = "; ".join(
        f"{ours} {', '.join(f'{each:.0f}' for each in found)} times quicker than {basic}"
        for (basic, ours), found in ratios.items()
    )
    return [
        Finding(
            "Typical routers take 1 to 10 ms; the structured protocols stay quicker.",
            judged([each > 1 for found in ratios.values() for each in found]),
            f"{most:,} members, routers of {places(rtt['coordp'])} ms: {told}.",
            kind=OURS,
        )
    ]


def _same(results: Results) -> list[Finding]:
    ours = variant_curve(results, "rtt_ms", "s_coordp")
    theirs = variant_curve(results, "rtt_ms", S_FULL_DIST)
    shared = [spot for spot in ours if spot.x in {each.x for each in theirs}]
    rounds = [variant_curve(results, "rounds", p)[: len(theirs)] for p in ("s_coordp", S_FULL_DIST)]
    hops = [
        variant_curve(results, "messages_on_hops", p)[: len(theirs)]
        for p in ("s_coordp", S_FULL_DIST)
    ]
    return [
        Finding(
            "FullDist on a tree is S_CoordP: the multicasts among siblings are redundant.",
            judged(
                [
                    abs(a.y - b.y) <= SAME * a.y and x.y == y.y
                    for a, b, x, y in zip(shared, theirs, *rounds, strict=True)
                ]
            ),
            f"{places(theirs)} members: round trips {means(shared, 1)} ms by S_CoordP,"
            f" {means(theirs, 1)} by S_FullDist, both in {means(rounds[0])} rounds, with"
            f" {means(hops[0])} and {means(hops[1])} messages on hops (the same: within"
            f" {100 * SAME:.0f} %).",
        )
    ]


def _wide(results: Results) -> list[Finding]:
    told, cases = [], []
    for basic, ours in (("coordp", "s_coordp"), ("train", "s_train")):
        a, b = (variant_curve(results, "rtt_ms", p, links="wide") for p in (basic, ours))
        cases += [y.y < x.y for x, y in zip(a, b, strict=True)]
        told.append(f"{basic} {means(a)} ms, {ours} {means(b)} ms ({places(a)} members)")
    return [
        Finding(
            "In a wide area where links are long everywhere, the structured protocols are quicker.",
            judged(cases),
            f"{'; '.join(told)}. A leaf's ACK has the same way to the root in CoordP and in"
            " S_CoordP; where that way is long, what the root has to do hardly matters.",
            kind=OURS,
        ),
        Finding(
            "Very many members.",
            MEASURED,
            "; ".join(
                f"{p} with {spots[-1].x:,.0f} members {spots[-1].y:,.0f} ms with arrays,"
                f" {variant_curve(results, 'rtt_ms', p, array='total')[-1].y:,.0f} ms with four"
                " bytes"
                for p in ("s_coordp", "s_train")
                for spots in [variant_curve(results, "rtt_ms", p)]
            ) + ".",
            kind=OURS,
        ),
    ]  # fmt: skip
