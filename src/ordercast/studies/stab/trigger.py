"""What [STAB] §6 says about load and trigger, held against the measured numbers."""

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.reproduction import MEASURED, Finding, curve, judged, values
from ordercast.studies.stab.figures import (
    best_measured,
    by_limit,
    mended_limit,
    printed_limit,
)
from ordercast.studies.stab.runs import BUFFER, MEASURED_LIMIT, RATE

NEAR = 0.15  # of the formula: what still counts as agreeing with it


def load_findings(results: Results) -> list[Finding]:
    found = []
    for members in values(results, "members"):
        told, grows = [], []
        for protocol in PROTOCOLS:
            spots = curve(results, "busy", "rtt_ms", members=members, protocol=protocol)
            grows += [spots[-1].y > spots[0].y]
            told.append(
                f"{protocol} {spots[0].y:,.1f} to {spots[-1].y:,.1f} ms"
                f" ({spots[-1].y / spots[0].y:.1f} times)"
            )
        rates = curve(results, "busy", "rate", members=members, protocol="coordp")
        found.append(
            Finding(
                f"Data traffic makes rounds longer ({members:,} members).",
                judged(grows),
                f"From no data to r = {rates[-1].y:.1f} messages a second from each member, which"
                f" keep processors {100 * rates[-1].x:.0f} % busy: {', '.join(told)}.",
            )
        )
    return found


def trigger_findings(results: Results) -> list[Finding]:
    found = []
    for loss in values(results, "loss"):
        lost = f"{100 * loss:g} % of copies lost" if loss else "nothing lost"
        found += [
            _rounds(results, loss, lost),
            _too_large(results, loss, lost),
            _printed(results, loss, lost),
            _mended(results, loss, lost),
            _measured_at_run_time(results, loss, lost),
        ]
    return found


def _rounds(results: Results, loss: float, lost: str) -> Finding:
    """Where a round is not begun at once after another: X above what is left plus Q."""
    said = {spot.x: spot.y for spot in by_limit(results, "rounds_formula", loss=loss)}
    meanwhile = {spot.x: spot.y for spot in by_limit(results, "meanwhile", loss=loss)}
    spots = [
        spot
        for spot in by_limit(results, "rounds", loss=loss)
        if spot.x in said and spot.x > 2 * meanwhile[spot.x]
    ]
    ends = "; ".join(
        f"X = {spot.x:g}: {spot.y:.1f} rounds, K/(αX) = {said[spot.x]:.1f}"
        for spot in (spots[0], spots[-1])
    )
    return Finding(
        f"T(X) = K/(αX) rounds are needed ({lost}).",
        judged([abs(s.y - said[s.x]) <= max(1, NEAR * said[s.x]) for s in spots]),
        f"{ends} (with the α of each run; taken as agreeing: within {100 * NEAR:.0f} %, or one"
        " round).",
    )


def _too_large(results: Results, loss: float, lost: str) -> Finding:
    stops = by_limit(results, "stops", loss=loss)
    stable = by_limit(results, "time_to_stable_ms", loss=loss)
    rounds = [spot for spot in by_limit(results, "rounds", loss=loss) if spot.y]
    return Finding(
        f"A large X makes senders stop, a small one begins rounds too often; a smaller time to"
        f" stable takes a smaller X ({lost}).",
        judged(
            [
                stops[0].y < stops[-1].y,
                rounds[0].y > rounds[-1].y,
                stable[0].y < stable[-1].y,
            ]
        ),
        f"X = {stable[0].x:g}: {rounds[0].y:.0f} rounds, {stops[0].y:.1f} stops of a member,"
        f" {stable[0].y:.0f} ms to stable; X = {stable[-1].x:g}: {rounds[-1].y:.0f} rounds,"
        f" {_at(results, 'stops', loss, stable[-1].x):.1f} stops, {stable[-1].y:.0f} ms.",
    )


def _printed(results: Results, loss: float, lost: str) -> Finding:
    printed = printed_limit(results, loss)
    above = [spot for spot in by_limit(results, "stable_share", loss=loss) if spot.x > BUFFER]
    stuck = ", ".join(f"{100 * spot.y:.0f} %" for spot in above)
    return Finding(
        f"The best X is the greater of g − rf and (g − 2rf)/(1 − α) ({lost}).",
        judged([printed <= BUFFER]),
        f"That is X = {printed:.0f} for a buffer of g = {BUFFER}."
        + (
            f" No buffer reaches an X above g: no round ever begins, all senders stop for good, and"
            f" {stuck} of the messages become stable (errata STAB-6)."
            if printed > BUFFER
            else " With α = 1 the second bound does not apply, and the text says g − rf."
        ),
    )


def _mended(results: Results, loss: float, lost: str) -> Finding:
    limit, best = mended_limit(results, loss), best_measured(results, loss)
    below = [s.y == 0 for s in by_limit(results, "first_stops", loss=loss) if s.x < limit]
    above = [
        s.y > 0 for s in by_limit(results, "first_stops", loss=loss) if limit + 1 < s.x <= BUFFER
    ]
    others = "none of those tried" if best is None else f"X ≤ {best:g}"
    near = max(s.x for s in by_limit(results, "alpha", loss=loss) if s.x <= limit)
    sent = RATE * _at(results, "round_ms", loss, near) / 1e3
    return Finding(
        f"Mended: it is the lesser of the two, and the first member stops above it only ({lost}).",
        judged([*below, *above]),
        f"X = {limit:.0f} with rf = {sent:.1f} and α = {_at(results, 'alpha', loss, near):.2f}. The"
        " formula knows the first member's buffer only; farther members hear later, and all go on"
        f" without a stop with {others}.",
    )


def _measured_at_run_time(results: Results, loss: float, lost: str) -> Finding:
    def chosen(measure: str) -> float:
        return curve(results, "limit", measure, loss=loss, limit=MEASURED_LIMIT)[0].y

    return Finding(
        f"Where every member measures its own X and may ask for a round ({lost}; beyond the"
        " paper).",
        MEASURED,
        f"{chosen('rounds'):.0f} rounds, {chosen('stops'):.1f} stops of a member, who waits for"
        f" {100 * chosen('stopped_share'):.2f} % of the time, {chosen('time_to_stable_ms'):.0f} ms"
        f" to stable, {100 * chosen('stable_share'):.0f} % of all messages stable in the end.",
    )


def _at(results: Results, measure: str, loss: float, x: float) -> float:
    return next(s.y for s in by_limit(results, measure, loss=loss) if s.x == x)
