"""Three studies beyond the papers: ordering, churn, and forests by computation. The last takes
longest, and so comes last of all.
"""

from itertools import product
from typing import Any

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.studies.internet.churn import churn_costs
from ordercast.studies.internet.findings import (
    churn_figure,
    churn_findings,
    forest_figure,
    forest_findings,
    ordering_figure,
    ordering_findings,
)
from ordercast.studies.internet.forests import forest_costs
from ordercast.studies.internet.ordering import ROW_MEASURES, ordering_costs
from ordercast.studies.internet.tables import KINDS, UNIFORM
from ordercast.studies.reproduction import Family, Reproduction

_SITES, _QUICK_SITES = (1_000, 10_000, 100_000), (100, 300)
_RUN_SITES, _QUICK_RUN_SITES = (100, 1_000, 5_000, 20_000), (50, 100)
_MOST_DRAWN = 5_000  # sites that are run with members near each other, or popular ones
_MESSAGES, _QUICK_MESSAGES = 200, 20
_MATRIX = (
    " All delays are those of one matrix, the simulator's own: with another network they differ."
)
_TABLES = (
    " There are as many groups as sites; the k-th has 1/k of the members of the largest, a tenth of"
    " all sites, and at least two; rates are Zipf by another ranking."
)


def _forests(quick: bool) -> list[dict[str, Any]]:
    sites = _QUICK_SITES if quick else _SITES
    return [{"sites": count, "drawn": kind} for count, kind in product(sites, KINDS)]


def _ordering(quick: bool) -> list[dict[str, Any]]:
    sites = _QUICK_RUN_SITES if quick else _RUN_SITES
    messages = _QUICK_MESSAGES if quick else _MESSAGES
    return [
        {"sites": count, "drawn": kind, "messages": messages}
        for kind, count in product(KINDS, sites)
        if kind == UNIFORM or count <= _MOST_DRAWN
    ]


def _churn(quick: bool) -> list[dict[str, Any]]:
    if quick:
        return [{"sites": 12, "changes": each} for each in (0.5, 8.0)]
    few, many = product((20, 60), (0.5, 2.0, 8.0)), product((200,), (0.5, 8.0))
    return [{"sites": count, "changes": each} for count, each in (*few, *many)]


REPRODUCTIONS = (
    Reproduction(
        name="scale-ordering",
        title="Ordering among 20,000 sites over a wide area",
        source="beyond the papers",
        says=("No paper runs its protocol among so many sites.",),
        how="The protocol objects run in the simulator, propagation on a balanced tree, 100"
        " messages a second in all, six regions with delays of 1 to 155 ms between them; all"
        " deliveries are judged. Rounds of the whole domain are run up to 1,000 sites." + _TABLES
        + " Members are drawn uniformly; up to 5,000 sites also near each other, or Zipf by the"
        " sites' popularity. Up to 1,000 sites the same messages also go over another network,"
        " eight regions in a row: 1 ms within a region, 5 ms more for each that is farther.",
        family=Family("scale-ordering", ordering_costs, split="tracker"),
        points=_ordering,
        repeats=lambda _: Repeats(1, 1),
        measures=("delay_mean_ms", "delay_p99_ms", "data_frames", "control_frames", "seconds",
                  *(f"row_{name}" for name in ROW_MEASURES), "between_ms", "row_between_ms"),
        draw=ordering_figure,
        find=ordering_findings,
    ),
    Reproduction(
        name="scale-churn",
        title="Joining and leaving at a rate",
        source="beyond the papers",
        says=(
            "[SWAP] §1, §6.2: joining and leaving must be local operations, or a protocol does not"
            " scale beyond local networks.",
        ),
        how="Sites join and leave groups at random times, for six seconds or until eight changes"
        " are asked for, over the simulator's wide area, while 10 messages a second are sent for"
        " seven seconds. A change is done when its epoch is open everywhere. The rate that a domain"
        " carries is known where it is asked for more than it does." + _TABLES + _MATRIX,
        family=Family("scale-churn", churn_costs),
        points=_churn,
        repeats=lambda quick: Repeats(1, 1) if quick else Repeats(3, 3),
        measures=("done", "behind_ms", "delay_mean_ms", "delay_p99_ms"),
        draw=churn_figure,
        find=churn_findings,
    ),
    Reproduction(
        name="scale-internet",
        title="Forests of 100,000 sites: what breaks first",
        source="beyond the papers",
        says=(
            "The papers measure tens to hundreds of sites. [GS] leaves open what its generator does"
            " with very many, [SWAP] wants protocols that scale beyond local networks.",
        ),
        how="By computation, in the planner's model: the mean delay between the six regions of the"
        " simulator's wide area, 20 µs for each message that a site receives or sends, 0.1 messages"
        " a second from each site." + _TABLES
        + " Members are near each other, drawn uniformly, or Zipf by the sites' popularity. The"
        " limits are those of the wire format." + _MATRIX,
        family=Family("scale-internet", forest_costs, split="builder"),
        points=_forests,
        repeats=lambda _: Repeats(1, 1),
        measures=("seconds", "depth_mean", "depth_max", "tree_depth", "utilisation",
                  "idle_delay_ms", "chosen", "domain_share", "domains", "memory_mb", "layout_mb",
                  "groups_most"),
        draw=forest_figure,
        find=forest_findings,
    ),
)  # fmt: skip
