"""[STAB] §5.4.2: round trips in proportion to the height of the tree, and to the hops of the last
ACK, held against the measured ones."""

from collections.abc import Sequence

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.reproduction import Finding, Spot, judged
from ordercast.studies.stab.figures import by_formula, complete
from ordercast.studies.stab.printed_values import HOPS_OF_THE_LAST_ACK
from ordercast.studies.wording import means, places

PROPORTIONAL = 0.25  # more or less than in proportion to the smallest tree's, at most

_TO_THE_HEIGHT = "S_CoordP's round trip is proportional to the height p of the tree."


def hops_findings(results: Results) -> list[Finding]:
    """On Table 3's trees: their hops are printed, and they have one height."""
    height = by_formula(results, lambda shape: shape.p)
    found = _judged(results, "s_coordp", height, f"{_TO_THE_HEIGHT[:-1]} (one height).")
    for protocol, name, hops in (
        ("train", "Train", "H_d = F_d"),
        ("s_train", "S_Train", "H_h = p(2(b − 1) + 1)"),
    ):
        printed = by_formula(results, HOPS_OF_THE_LAST_ACK[protocol])
        found += _judged(
            results, protocol, printed,
            f"{name}'s round trip is proportional to the hops of the last ACK, {hops}.",
        )  # fmt: skip
    return found


def heights_findings(results: Results) -> list[Finding]:
    """On trees of several heights, four children each."""
    heights = complete(results, "height", "s_coordp")
    return _judged(results, "s_coordp", heights, f"{_TO_THE_HEIGHT[:-1]} (several heights).")


def _judged(results: Results, protocol: str, to: Sequence[Spot], statement: str) -> list[Finding]:
    """Every larger tree's round trip against that of the smallest, multiplied as `to` grows. None
    where `to` is not known of two trees."""
    grown = {spot.x: spot.y for spot in to}
    rtt = [spot for spot in complete(results, "rtt_ms", protocol) if spot.x in grown]
    if len(rtt) < 2:
        return []
    first = rtt[0]
    expected = [Spot(s.x, first.y * grown[s.x] / grown[first.x], 0.0) for s in rtt]
    near = [abs(a.y / b.y - 1) <= PROPORTIONAL for a, b in zip(rtt, expected, strict=True)][1:]
    growth = ", ".join(f"{grown[spot.x]:,.0f}" for spot in rtt)
    return [
        Finding(
            statement,
            judged(near),
            f"n = {places(rtt)}: {means(rtt, 1)} ms. In proportion to the smallest tree's"
            f" ({growth}) they would be {means(expected, 1)} ms: at most"
            f" {100 * PROPORTIONAL:.0f} % apart (taken as proportional) at {sum(near)} of"
            f" {len(near)} larger trees. Arrays of 4n bytes take longer on each link.",
            claim=_TO_THE_HEIGHT if statement.startswith(_TO_THE_HEIGHT[:-1]) else "",
        )
    ]
