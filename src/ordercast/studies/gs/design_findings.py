"""[GS] §3.1, §4.1: what the greedy choice of roots saves, and whether propagation is a compromise
between delay and load."""

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.reproduction import Finding, Spot, curve, judged, values
from ordercast.studies.wording import span

_GREEDY = "The greedy choice of roots helps to keep the trees short."
_COMPROMISE = "Propagation is a good compromise between a short delay and load that is spread."


def heuristic_findings(results: Results, x: str) -> list[Finding]:
    """None where nobody built the forests by another choice."""
    ours, anyhow = (
        _all(results, x, measure, "propagation")
        for measure in ("depth_mean", "depth_mean_at_random")
    )
    if not anyhow:
        return []
    pairs = list(zip(ours, anyhow, strict=True))
    shorter = [a.y < b.y for a, b in pairs]
    return [
        Finding(
            f"{_GREEDY[:-1]} (along {_axis(x)}).",
            judged([any(shorter), *(a.y <= b.y for a, b in pairs)]),
            "With any site in its place, drawn from the same candidates, the mean depth is"
            f" {span([b.y / a.y for a, b in pairs], 2)} times that of the site in"
            f" most groups; the paper's choice is the shorter one at {sum(shorter)} of"
            f" {len(shorter)} points.",
            claim=_GREEDY,
        )
    ]


def compromise_findings(results: Results, x: str) -> list[Finding]:
    """Quicker than two-phase, which spreads load best, and with less load than the centre, which is
    the quickest: else one of the two would give both. None where no delays are known."""
    of = {
        (measure, protocol): _all(results, x, measure, protocol)
        for measure, protocol in (
            ("load_max", "propagation"),
            ("load_max", "centralized"),
            ("delay_last_ms", "propagation"),
            ("delay_last_ms", "two_phase"),
        )
    }
    if not all(of.values()):
        return []
    load, delay = (
        [a.y <= b.y for a, b in zip(of[measure, "propagation"], of[measure, other], strict=True)]
        for measure, other in (("load_max", "centralized"), ("delay_last_ms", "two_phase"))
    )
    both = [a and b for a, b in zip(load, delay, strict=True)]
    return [
        Finding(
            f"{_COMPROMISE[:-1]} (along {_axis(x)}).",
            judged(both),
            f"Its busiest site has no more load than the centre at {sum(load)} of {len(load)}"
            f" points, and its last member is served no later than by two-phase (L = 5 P) at"
            f" {sum(delay)}; both at {sum(both)}. Good: both.",
            claim=_COMPROMISE,
        )
    ]


def _all(results: Results, x: str, measure: str, protocol: str) -> list[Spot]:
    return [
        spot
        for groups in values(results, "groups")
        for spot in curve(results, x, measure, groups=groups, protocol=protocol)
    ]


def _axis(x: str) -> str:
    return "sites" if x == "sites" else "the size of groups"
