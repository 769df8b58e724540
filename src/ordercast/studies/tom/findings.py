"""What [TOM] §4 says about its table and figure, held against what was measured."""

from collections.abc import Sequence

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.studies.fits import power
from ordercast.studies.reproduction import Finding, Spot, judged, values
from ordercast.studies.tom.costs import GROWTH, PACKETS, PROCESSING, TRANSMISSIONS
from ordercast.studies.tom.figures import NAMES, of_members, usual
from ordercast.studies.tom.runs import MEMBERS, OUTSIDE
from ordercast.studies.wording import means, places, with_intervals

PRINTED = {
    "symmetric": "s(1 + 2r)",
    "two_phase": "s(1 + r)",
    "centralized": "s + r",
    "ring": "2sn",
    "propagation": "s(1 + d)",
    "metagroup": "s(1 + d + k)",
    "tom": "s(2 + p)",
}
SHARED = {
    "symmetric": " (it is for messages one at a time; sources at once share questions)",
    "ring": " (it is an average, for messages one at a time; sources at once share a turn)",
}
NEAR = 0.35  # of a power: what still counts as the same growth
HOLDS = 0.5  # of the sessions of a point, more than: where an equation still counts as holding
FLAT = 0.1  # of a power, at most: what still counts as none, where s is not printed
EQUAL = 1.5  # times as many, at most: what still counts as the same number of packets
_ROLES = {"source": "a source", "order": "the ordering node", "receiver": "a receiver"}
_EQUATIONS = {"symmetric": 1, "two_phase": 2, "centralized": 3, "ring": 4, "propagation": 5,
              "metagroup": 5, "tom": 5}  # fmt: skip
SIMILAR = 2.0  # times as many, at most: what still counts as similar
AFFECTED = 2.0  # times the receivers, at most: what still counts as those that are affected
_TREES = ("propagation", "metagroup", "tom")
BETTER = "TOM is equal or better than MG and MP."


def table_findings(results: Results) -> list[Finding]:
    return [
        *(_formula(results, protocol) for protocol in TRANSMISSIONS),
        *(_growth(results, protocol) for protocol in TRANSMISSIONS),
        *(_packets(results, protocol) for protocol in TRANSMISSIONS),
        _with_broadcast(results),
        _shared_turns(results),
    ]


def _packets(results: Results, protocol: str) -> Finding:
    """Equations 1 to 5: packets at a source, at the ordering node and at a receiver."""
    told = []
    right: dict[str, list[bool]] = {"": [], "_multicast": []}
    for role in PACKETS[protocol]:
        spots = {
            kind: of_members(results, "size", f"x_{role}{kind}", protocol, **usual(results, "size"))
            for kind in ("", "_multicast", "_printed")
        }
        for kind, cases in right.items():
            cases += [
                p.y / EQUAL <= m.y <= p.y * EQUAL
                for m, p in zip(spots[kind], spots["_printed"], strict=True)
            ]
        told.append(
            f"{_ROLES[role]} {means(spots[''], 1)}, with multicast {means(spots['_multicast'], 1)}"
            f" (printed {means(spots['_printed'], 1)})"
        )
    sizes = places(of_members(results, "size", "x_source", protocol, **usual(results, "size")))
    return Finding(
        f"{NAMES.get(protocol, protocol)}: the terms of X, equation {_EQUATIONS[protocol]}.",
        judged(max(right.values(), key=sum)),
        f"Packets sent and received, one source, r = {sizes}: {'; '.join(told)}. Taken as equal:"
        f" within {EQUAL:g} times; judged by one way of counting for all of them, which agrees more"
        " often.",
    )


def _formula(results: Results, protocol: str) -> Finding:
    """Printed M against measured M, at every point of the table. An equation holds at a point if it
    holds in more than half of the sessions there. The caption calls M an average, and p is an
    average path: to ask for every session would be more than the paper says. A mean does not judge
    it either: it may be right because errors cancel."""
    printed, corrected = _rows(results, protocol, "printed"), _rows(results, protocol, "corrected")
    measured = _rows(results, protocol, "transmissions")
    ratios = [m / p for m, p in zip(measured, printed, strict=True)]
    rows = _all(results, protocol, "transmissions")
    off = [abs(m - c) for m, c in zip(measured, corrected, strict=True)]
    right = sum(each < 1e-9 for each in off)
    exact = _rows(results, protocol, "as_printed_share")
    near = sum(1e-9 <= d <= (row.ci95 or 0) for d, row in zip(off, rows, strict=True))
    within = f", within the interval at {near} more" if near else ""
    told = "; ".join(
        f"r = {row.parameters['size']}, s = {row.parameters['sources']}, {_by(row)}:"
        f" {row.mean:.1f} ± {row.ci95 or 0:.1f} (printed {p:.1f}, corrected {c:.1f}"
        + (f", as printed in {100 * share:.0f} %)" if share else ")")
        for row, p, c, share in zip(rows, printed, corrected, exact, strict=True)
    )
    return Finding(
        f"{NAMES.get(protocol, protocol)}: M = {PRINTED[protocol]}.",
        judged([share > HOLDS for share in exact]),
        f"Measured {_span(ratios)} times the printed cost; met exactly in"
        f" {_percent(exact)} of the sessions of a point, in more than {100 * HOLDS:g} % of them (it"
        f" holds) at {sum(share > HOLDS for share in exact)} of {len(exact)} points, in all of them"
        f" at {sum(share == 1 for share in exact)}. The corrected formula is"
        f" met exactly at {right} of {len(measured)} points{within}{SHARED.get(protocol, '')}."
        f" {told}.",
    )


def _with_broadcast(results: Results) -> Finding:
    """§4.1.1's other formula: a packet to each host, no multicast."""
    spots = of_members(results, "size", "messages", "symmetric", **usual(results, "size"))
    printed = [s.x - 1 + s.x * (s.x - 1) for s in spots]
    return Finding(
        "symmetric, without multicast: M = s((r − 1) + r(r − 1)).",
        judged([abs(s.y - p) < 1e-9 for s, p in zip(spots, printed, strict=True)]),
        f"One source, r = {places(spots)}: {with_intervals(spots, 1)} packets, one for each"
        f" receiver of each (printed {', '.join(f'{p:,.0f}' for p in printed)}). Every host that"
        " may send is asked, not the receivers alone (errata OTHER-2).",
    )


def _shared_turns(results: Results) -> Finding:
    """§4.2.1: k messages that are sent at once share the turns of the token."""
    held = usual(results, "sources")
    spots = of_members(results, "sources", "transmissions", "ring", **held)
    printed = of_members(results, "sources", "printed", "ring", **held)  # 2sn
    best = [Spot(p.x, p.y / p.x**2, 0.0) for p in printed]
    each = [Spot(s.x, s.y / s.x, s.ci / s.x) for s in spots]
    return Finding(
        "ring: at best M = 2n/k, if k messages share the turns of the token.",
        judged([a.y >= b.y for a, b in zip(each, best, strict=True)]),
        f"k = s = {places(each)}: {with_intervals(each, 1)} transmissions for each message (2n/k:"
        f" {means(best, 1)}; at best: not below it). A token that is fetched has half a turn to go"
        " on average, not a whole one (errata TOM-5).",
    )


def _growth(results: Results, protocol: str) -> Finding:
    """X is an order: the powers of r and of s that fit what the busiest host sends and receives,
    each copy by itself, as the equations have it."""

    def told(measure: str) -> str:
        spots = of_members(results, "size", measure, protocol, **usual(results, "size"))
        several = of_members(results, "sources", measure, protocol, **usual(results, "sources"))
        return (
            f"r = {places(spots)}: {with_intervals(spots, 1)} (s = 1);"
            f" s = {places(several)}: {with_intervals(several, 1)}"
        )

    spots = of_members(results, "size", "load_max", protocol, **usual(results, "size"))
    by = ""
    if protocol in _TREES:
        twice = of_members(results, "size", "x_order_printed", protocol, **usual(results, "size"))
        spots = [Spot(s.x, 2 * s.y / b.y, 0.0) for s, b in zip(spots, twice, strict=True)]
        by = f", divided by B = {', '.join(f'{each.y / 2:.1f}' for each in twice)},"
    several = of_members(results, "sources", "load_max", protocol, **usual(results, "sources"))
    powers = (power(spots), power(several))
    of_r, of_s = GROWTH[protocol]
    return Finding(
        f"{NAMES.get(protocol, protocol)}: X = {PROCESSING[protocol][0]}.",
        judged([abs(powers[0] - of_r) <= NEAR, abs(powers[1] - of_s) <= (NEAR if of_s else FLAT)]),
        f"With each copy counted it grows{by} as the powers {powers[0]:.2f} of r and"
        f" {powers[1]:.2f} of s (printed: {of_r:g} and {of_s:g}; taken as equal: within {NEAR:g},"
        f" and where none of s is printed {FLAT:g}). The busiest host sends and receives, a"
        f" multicast being one: {told('work_max')}. Point to point: {told('load_max')}.",
    )


def sessions_findings(results: Results) -> list[Finding]:
    hosts = values(results, "sites")

    def of(protocol: str) -> dict[float, float]:
        return {s.x: s.y for s in of_members(results, "sites", "transmissions", protocol)}

    found = {protocol: of(protocol) for protocol in TRANSMISSIONS}
    known = {protocol: spots for protocol, spots in found.items() if spots}
    at = f"n = {', '.join(f'{n:,}' for n in hosts)}:"

    def listed(protocol: str) -> str:
        return ", ".join(f"{known[protocol][n]:.1f}" for n in hosts if n in known[protocol])

    flat = [p for p in ("two_phase", "centralized", "ring") if p in known]
    ratios = [max(known[p][n] for p in flat) / min(known[p][n] for p in flat) for n in hosts]
    others = [p for p in ("propagation", "metagroup") if p in known]
    readings = {h: _printed(results, hosts, h) for h in ("log_B n", "log_B r")}
    printed = of_members(results, "sites", "printed", "ring")  # 2n, of the hosts of its domain
    in_ring = {spot.x: spot.y / 2 for spot in printed}
    receivers = {row.parameters["sites"]: row.parameters["size"] for row in results.rows}
    return [
        Finding(
            "Symmetric ordering scales least.",
            judged(
                [
                    known["symmetric"][n] >= max(spots[n] for spots in known.values())
                    for n in hosts
                    if n in known["symmetric"]
                ]
            ),
            f"{at} {listed('symmetric')} transmissions.",
        ),
        Finding(
            "Two-phase, centralized and ring have similar message overhead.",
            judged([ratio <= SIMILAR for ratio in ratios]),
            f"{at} {'; '.join(f'{NAMES.get(p, p)} {listed(p)}' for p in flat)} (taken as similar:"
            f" at most {SIMILAR:g} times as many). Centralized takes two whatever the group"
            " (errata TOM-5).",
        ),
        Finding(
            BETTER,
            judged([known["tom"][n] <= known[p][n] for p in others for n in hosts]),
            f"{at} TOM {listed('tom')}; {'; '.join(f'{NAMES[p]} {listed(p)}' for p in others)}. The"
            " printed cost leaves out the way of the final header down the tree (errata TOM-3)."
            f" By the printed formulas: {'; '.join(readings.values())}.",
        ),
        Finding(
            "Trees engage only those hosts that are affected; rings engage all.",
            judged(
                [_engaged(results, p, n) <= AFFECTED * receivers[n] for p in _TREES for n in hosts]
                + [_engaged(results, "ring", n) >= in_ring[n] for n in hosts]
            ),
            "Hosts that send or receive: " + "; ".join(
                f"{NAMES.get(p, p)} {', '.join(f'{_engaged(results, p, n):.0f}' for n in hosts)}"
                for p in known if p != "symmetric"
            ) + f" ({at[:-1]}; affected alone: at most {AFFECTED:g} times the"
            f" {', '.join(f'{receivers[n]}' for n in hosts)} receivers; all: the"
            f" {', '.join(f'{in_ring[n]:.0f}' for n in hosts)} hosts of its domain, and tokens of"
            " other domains turn as well).",
        ),
    ]  # fmt: skip


def _printed(results: Results, hosts: Sequence[int], height: str) -> str:
    """Whether the claim holds of the formulas themselves, by one reading of h."""
    measure = "figure_5" if height == "log_B n" else "figure_5_receivers"
    by = {p: {s.x: s.y for s in of_members(results, "sites", measure, p)} for p in _TREES}
    holds = {
        other: [n for n in hosts if by["tom"][n] <= by[other][n] + 1e-9]
        for other in _TREES
        if other != "tom"
    }
    told = ", ".join(
        f"{NAMES[other]} at n = {', '.join(f'{n:,}' for n in at)}"
        if at
        else f"{NAMES[other]} nowhere"
        for other, at in holds.items()
    )
    return f"with h = {height} it is equal or better than {told}"


def _engaged(results: Results, protocol: str, hosts: int) -> float:
    (row,) = results.where(measure="hosts_engaged", protocol=protocol, sites=hosts)
    return row.mean or 0.0


def _all(results: Results, protocol: str, measure: str) -> list[ResultRow]:
    rows = results.where(measure=measure, protocol=protocol)
    return sorted(
        rows,
        key=lambda row: (
            row.parameters["sent_by"] == OUTSIDE,
            row.parameters["sources"],
            row.parameters["size"],
        ),
    )


def _rows(results: Results, protocol: str, measure: str) -> list[float]:
    return [row.mean or 0.0 for row in _all(results, protocol, measure)]


def _by(row: ResultRow) -> str:
    return "from members" if row.parameters["sent_by"] == MEMBERS else "from outside"


def _percent(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def _span(ratios: Sequence[float]) -> str:
    if not ratios:
        return "no"
    low, high = min(ratios), max(ratios)
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
