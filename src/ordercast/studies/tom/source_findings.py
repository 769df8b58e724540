"""[TOM] §4.3 on several sources: how protocols scale then, the latency of symmetric ordering when
all hosts send, and how many nodes share the ordering of a session."""

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.fits import power
from ordercast.studies.reproduction import Finding, Spot, curve, judged, values
from ordercast.studies.tom.figures import NAMES, of_members
from ordercast.studies.tom.processing import HOST_PROTOCOLS
from ordercast.studies.tom.runs import ORDERED_AT_A_SITE
from ordercast.studies.wording import means, places

SEVERAL = 2.0  # nodes, at least: what still counts as several


def several_sources_findings(results: Results) -> list[Finding]:
    """Of one group of all hosts; none if throughput was not measured."""
    most = max(values(results, "rate"))
    carried = {p: _by_hosts(results, "carried", p, rate=most) for p in HOST_PROTOCOLS}
    at_once, alone = (
        {p: _by_hosts(results, measure, p, rate=most) for p in HOST_PROTOCOLS}
        for measure in ("at_once_ms", "alone_ms")
    )
    if not all(carried.values()) or not all(at_once.values()):
        return []
    growth = {p: power(spots) for p, spots in carried.items()}
    others = [p for p in HOST_PROTOCOLS if p != "symmetric"]
    hosts = places(carried["tom"])
    return [
        Finding(
            "With several sources a tree's throughput scales better with the receivers.",
            judged([growth["tom"] > growth[p] for p in HOST_PROTOCOLS if p != "tom"]),
            f"All of {hosts} hosts send, {most:g} messages a second in all. Carried a second: "
            + "; ".join(
                f"{NAMES.get(p, p)} {means(spots)} (power {growth[p]:.2f} of the hosts)"
                for p, spots in carried.items()
            ) + ".",
        ),
        Finding(
            "If all nodes send at the same time, symmetric ordering's latency is low.",
            judged([a.y < b.y for p in others
                    for a, b in zip(at_once["symmetric"], at_once[p], strict=True)]),
            f"Mean delay when each of {hosts} hosts sends one message at the same time, and (in"
            " brackets) when one host does: "
            + "; ".join(
                f"{NAMES.get(p, p)} {means(spots)} ms ({means(alone[p])})"
                for p, spots in at_once.items()
            ) + ". Low: below that of every other protocol.",
        ),
    ]  # fmt: skip


def _by_hosts(results: Results, measure: str, protocol: str, *, rate: float) -> list[Spot]:
    return curve(results, "sites", measure, protocol=protocol, rate=rate)


def orderers_findings(results: Results) -> list[Finding]:
    """Of 20 groups among the hosts of a session; none if they were not counted."""
    count = {p: of_members(results, "sites", "orderers", p) for p in ORDERED_AT_A_SITE}
    share = {p: of_members(results, "sites", "orderer_share", p) for p in ORDERED_AT_A_SITE}
    if not all(count.values()):
        return []
    return [
        Finding(
            "TOM spreads the load of ordering over several nodes.",
            judged([
                nodes.y >= SEVERAL and ours.y < theirs.y
                for nodes, ours, theirs in zip(
                    count["tom"], share["tom"], share["centralized"], strict=True
                )
            ]),
            f"n = {places(count['tom'])}: nodes that order a session's 20 groups, and the share of"
            " the groups that the busiest of them orders: "
            + "; ".join(
                f"{NAMES.get(p, p)} {means(count[p], 1)}"
                f" ({', '.join(f'{100 * spot.y:.0f} %' for spot in share[p])})"
                for p in ORDERED_AT_A_SITE
            )
            + ". Several: two or more, and the busiest orders less than a centre.",
        ),
    ]  # fmt: skip
