"""[GS] §4.2: whether the central site is a bottleneck of a broadcast network."""

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.gs.figures import TWICE, knee
from ordercast.studies.gs.load import PROTOCOLS
from ordercast.studies.reproduction import Finding, curve, judged

_CLAIM = "In a broadcast network the bottleneck at the central site increases the delay."


def broadcast_findings(results: Results, size: int) -> list[Finding]:
    """None where the rows have no broadcast network."""
    delays = {
        p: curve(results, "rate", "broadcast_delay_ms", size=size, protocol=p) for p in PROTOCOLS
    }
    if not all(delays.values()):
        return []
    knees = {p: knee(results, p, size, "broadcast_delay_ms") for p in PROTOCOLS}
    busiest = {
        p: curve(results, "rate", "broadcast_busiest", size=size, protocol=p)[0].y
        for p in PROTOCOLS
    }
    told = "; ".join(
        f"{p} {knees[p]:,g} ({spots[0].y:,.1f} ms at {spots[0].x:,g}, {spots[-1].y:,.0f} at"
        f" {spots[-1].x:,g}; the busiest site takes part in {100 * busiest[p]:.0f} % of all"
        " transmissions)"
        for p, spots in delays.items()
    )
    return [
        Finding(
            f"{_CLAIM[:-1]} (n = {size}).",
            judged([knees["centralized"] < knees[p] for p in PROTOCOLS if p != "centralized"]),
            f"Messages a second up to which the mean delay is at most {TWICE:g} times that at the"
            f" lowest rate, T = 2 ms: {told}. The network carries one message at a time, and T has"
            " a site's time in it: the network is full before any site is.",
            claim=_CLAIM,
        )
    ]
