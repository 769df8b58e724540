"""What [GS] says about its tables and about the cost of set-up, held against what was measured."""

from collections.abc import Sequence

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.reproduction import (
    MEASURED,
    Finding,
    Spot,
    curve,
    judged,
    with_interval,
)

MUCH_LESS = 0.75  # of the bound, at most: what still counts as "much less" than it
SLIGHTLY = 1.1  # times as many, at most: what still counts as "slightly worse"


def table1_findings(results: Results) -> list[Finding]:
    def of(protocol: str, measure: str) -> list[Spot]:
        return curve(results, "size", measure, protocol=protocol)

    n, printed_n = of("propagation", "messages"), of("propagation", "messages_formula")
    delay, bound = of("propagation", "delay_ms"), of("propagation", "delay_formula_ms")
    depth = of("propagation", "depth_mean")
    central, central_delay = of("centralized", "messages"), of("centralized", "delay_ms")
    two_phase, two_phase_delay = of("two_phase", "messages"), of("two_phase", "delay_ms")
    shares = [a.y / b.y for a, b in zip(delay, bound, strict=True)]
    at = _sizes(n)
    return [
        Finding(
            "Propagation takes N = n + ε messages.",
            judged(_equal(n, printed_n)),
            f"{at} N {_list(n)}; ε {_list(of('propagation', 'extra_mean'))}.",
        ),
        Finding(
            "Its delay D is at most (d + 1)L + (n + ε)P.",
            judged([share <= 1 + 1e-9 for share in shares]),
            f"{at} D {_list(delay)} ms, at most {_list(bound)} ms with d {_list(depth)}.",
        ),
        Finding(
            "In general D is much less than that.",
            judged([share <= MUCH_LESS for share in shares]),
            f"{at} {', '.join(f'{100 * share:.0f} %' for share in shares)} of it (taken as much"
            f" less: {100 * MUCH_LESS:.0f} % or below).",
        ),
        Finding(
            "Centralized: N = n and D = 2L + nP.",
            judged(
                [
                    *_equal(central, of("centralized", "messages_formula")),
                    *_equal(central_delay, of("centralized", "delay_formula_ms")),
                ]
            ),
            "One message more whenever the centre is not a member (errata GS-9)."
            f" {at} N {_list(central)}; D {_list(central_delay)} ms.",
        ),
        Finding(
            "Two-phase: N = 3n and D = 3L + (2n + 1)P.",
            judged(
                [
                    *_equal(two_phase, of("two_phase", "messages_formula")),
                    *_equal(two_phase_delay, of("two_phase", "delay_formula_ms")),
                ]
            ),
            f"{at} N {_list(two_phase)}; D {_list(two_phase_delay)} ms.",
        ),
        Finding(
            "Propagation needs far fewer messages than two-phase (3n).",
            judged([a.y < b.y for a, b in zip(n, two_phase, strict=True)]),
            f"{at} {_shares(n, two_phase)} as many.",
        ),
        Finding(
            "It needs only slightly more messages than the centralized method.",
            judged([a.y <= SLIGHTLY * b.y for a, b in zip(n, central, strict=True)]),
            f"{at} {_shares(n, central)} as many (taken as slightly more: up to"
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
            f"{at} the first member after {_list(of('propagation', 'delay_first_ms'))} ms, the"
            f" mean one after {_list(of('propagation', 'delay_mean_ms'))} ms, the last after"
            f" {_list(delay)} ms.",
        ),
    ]  # fmt: skip


def table2_findings(results: Results) -> list[Finding]:
    def of(protocol: str, measure: str) -> list[Spot]:
        return curve(results, "size", measure, protocol=protocol)

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
            judged([abs(each - per_message[0]) < 1e-6 for each in per_message]),
            f"{at} D {_list(delay)} ms, {per_message[0]:g} ms for each transmission.",
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
        Finding(
            "Two-phase (n + 2) is comparable for small groups only.",
            judged([a.y < b.y for a, b in zip(n, two_phase, strict=True)]),
            f"{at} propagation takes {_shares(n, two_phase)} as many transmissions.",
        ),
    ]


def setup_findings(results: Results) -> list[Finding]:
    def all_of(measure: str) -> list[float]:
        return [row.mean for row in results.where(measure=measure) if row.mean is not None]

    pays, delay = all_of("pays_in_delay"), all_of("break_even_delay")
    worst = min(all_of("pays_in_messages"))
    ever = "all tables" if worst == 1 else f"at least {100 * worst:.0f} % of the tables"
    regained = f"after {_range(delay, 0)} multicasts" if delay else "nowhere"
    return [
        Finding(
            "Setting up costs a lot, so a group must get relatively many messages in its life.",
            MEASURED,
            f"Counted in messages, the set-up is regained after"
            f" {_range(all_of('break_even_messages'), 0)} multicasts, to all groups together, in"
            f" {ever} of each point. It"
            f" takes {_range(all_of('install_messages'), 0)} messages; computing the forest takes"
            f" {_range(all_of('compute_ms'), 1)} ms, installing it"
            f" {_range(all_of('install_ms'), 0)} ms.",
        ),
        Finding(
            "Counted in delay (not in the paper).",
            MEASURED,
            f"Where propagation is quicker than two-phase, the time to compute and install is"
            f" regained {regained}. At {sum(share < 0.5 for share in pays)} of {len(pays)} points"
            " it is slower in most tables; there it never pays.",
        ),
    ]


def _equal(a: Sequence[Spot], b: Sequence[Spot]) -> list[bool]:
    return [abs(x.y - y.y) < 1e-9 for x, y in zip(a, b, strict=True)]


def _sizes(spots: Sequence[Spot]) -> str:
    return f"n = {', '.join(f'{spot.x:g}' for spot in spots)}:"


def _list(spots: Sequence[Spot]) -> str:
    return ", ".join(with_interval(spot, 2) for spot in spots)


def _shares(part: Sequence[Spot], whole: Sequence[Spot]) -> str:
    return ", ".join(f"{100 * a.y / b.y:.0f} %" for a, b in zip(part, whole, strict=True))


def _range(numbers: Sequence[float], digits: int) -> str:
    return f"{min(numbers):,.{digits}f} to {max(numbers):,.{digits}f}"
