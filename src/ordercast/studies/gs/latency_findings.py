"""[GS] §4.1: where the depth is above 2, propagation may be slower than two-phase, and only where
latency dominates the processing."""

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.gs.forests import L_MS, OTHER_LATENCIES, P_MS, last_at
from ordercast.studies.reproduction import Finding, Spot, curve, judged, values
from ordercast.studies.wording import span

DEEP = 2.0  # d above which two-phase may be quicker

_MEASURES = {l_ms: last_at(l_ms) for l_ms in OTHER_LATENCIES} | {L_MS: "delay_last_ms"}
_SLOWER_IF_DEEP = "If d is above 2, propagation may be slower than two-phase."
_ONLY_BY_LATENCY = (
    "That is so only where latency dominates; where processing is significant (L = P), propagation"
    " is still as quick."
)


def latency_findings(results: Results, x: str) -> list[Finding]:
    """At the points whose mean depth is above 2; none where nothing was run at another L."""
    shares = {l_ms: _times_as_long(results, x, l_ms) for l_ms in sorted(_MEASURES)}
    if not all(shares.values()):
        return []
    short, long = min(shares), max(shares)
    told = "; ".join(
        f"L = {l_ms / P_MS:g} P: slower at {sum(s.y > 1 for s in found)} of {len(found)}"
        f" ({span([s.y for s in found], 2)} times as long)"
        for l_ms, found in shares.items()
    )
    measured = f"Until the last member has it, at the points with d > {DEEP:g}: {told}."
    along = f" (along {'sites' if x == 'sites' else 'the size of groups'})."
    return [
        Finding(
            f"{_SLOWER_IF_DEEP[:-1]}{along}",
            judged([any(s.y > 1 for s in shares[long])]),
            measured,
            claim=_SLOWER_IF_DEEP,
        ),
        Finding(
            f"{_ONLY_BY_LATENCY[:-1]}{along}",
            judged([s.y <= 1 for s in shares[short]]),
            measured,
            claim=_ONLY_BY_LATENCY,
        ),
    ]


def _times_as_long(results: Results, x: str, l_ms: float) -> list[Spot]:
    """Propagation's delay divided by two-phase's, where propagation's trees are deep."""
    found = []
    for groups in values(results, "groups"):
        depth, ours, theirs = (
            {s.x: s.y for s in curve(results, x, measure, groups=groups, protocol=protocol)}
            for measure, protocol in (
                ("depth_mean", "propagation"),
                (_MEASURES[l_ms], "propagation"),
                (_MEASURES[l_ms], "two_phase"),
            )
        )
        found += [
            Spot(at, ours[at] / theirs[at], 0.0)
            for at, d in depth.items()
            if d > DEEP and at in ours and at in theirs
        ]
    return found
