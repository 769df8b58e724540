"""[GS] Garcia-Molina and Spauster 1988: Tables 1 and 2, Graphs 1 to 5 and what §4 says beside them.

Groups are drawn uniformly, as in the paper: 10 to 40 groups of 5 to 40 sites among 20 to 1,000
sites. Every point is a mean over random tables, repeated until its interval is as narrow as the
paper's: ± 10 % of the mean, ± 0.5 for extra sites.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.studies.gs import figures, findings, reliability_findings
from ordercast.studies.gs.changes import change_costs
from ordercast.studies.gs.failures import ANY, INNER, LEAF, failure_costs
from ordercast.studies.gs.forests import OTHER_LATENCIES, forest_costs, last_at, set_up_costs
from ordercast.studies.gs.frames import BROADCAST, P2P, table_costs
from ordercast.studies.gs.load import under_load_costs
from ordercast.studies.reproduction import Family, Reproduction, until

Points = Callable[[bool], Sequence[dict[str, Any]]]

_SITES = (20, 30, 40, 50, 75, 100, 150, 200, 300, 400, 500, 700, 1000)
_QUICK_SITES = (20, 50, 100, 200, 400, 1000)
_GROUPS = (10, 20, 30, 40)
_SIZES = (5, 7, 10, 15, 20, 25, 30, 35, 40)
_QUICK_SIZES = (5, 10, 20, 40)
_TABLE_SIZES = (3, 5, 10, 20, 40)
_QUICK_TABLE_SIZES = (3, 5, 10, 20)

_DEPTH = Precision("propagation/depth_mean", share=0.1)
_EXTRA = Precision("propagation/extra_mean", width=0.5)
_LOAD = tuple(
    Precision(f"{protocol}/load_max", share=0.1)
    for protocol in ("propagation", "two_phase", "centralized")
)
_FORESTS = (
    "Random groups are drawn, the generator of Appendix I builds their forest, and its depth, extra"
    " sites and load are measured by the definitions of `ordercast plan`."
)
_DELAYS = (
    " Delays are those of one message in the point-to-point model, with nothing else under way;"
    " two-phase's are those of its description. The last member's are told at L = P, L = 5 P and"
    " L = 20 P."
)
_DELAY_MEASURES = (
    "delay_first_ms", "delay_mean_ms", "delay_last_ms", *map(last_at, OTHER_LATENCIES),
)  # fmt: skip


def _by_sites(quick: bool) -> list[dict[str, Any]]:
    sites = _QUICK_SITES if quick else _SITES
    return [{"sites": s, "groups": g, "size": 5} for g, s in product(_GROUPS, sites)]


def _by_size(quick: bool) -> list[dict[str, Any]]:
    sizes = _QUICK_SIZES if quick else _SIZES
    return [{"sites": 200, "groups": g, "size": n} for g, n in product(_GROUPS, sizes)]


def _by_sites_and_size(quick: bool) -> list[dict[str, Any]]:
    by_sites = _by_sites(quick)
    return by_sites + [config for config in _by_size(quick) if config not in by_sites]


def _both_sizes(quick: bool) -> list[dict[str, Any]]:
    """Against sites and against the mean size, as Graphs 1, 2, 4 and 5."""
    groups = (10, 40) if quick else _GROUPS
    return [
        {**config, "sizes": sizes}
        for config in _by_sites_and_size(quick)
        for sizes in ("fixed", "exponential")
        if config["groups"] in groups
    ]


def _tables(network: str) -> Points:
    def points(quick: bool) -> list[dict[str, Any]]:
        sizes = _QUICK_TABLE_SIZES if quick else _TABLE_SIZES
        groups, sites = (8, 40) if quick else (20, 200)
        return [{"network": network, "sites": sites, "groups": groups, "size": n} for n in sizes]

    return points


def _table_repeats(quick: bool) -> Repeats:
    """Simulations are dear: in a quick run the intervals are as wide as they are."""
    bounds = (
        Precision("propagation/messages", share=0.1),
        Precision("propagation/delay_ms", share=0.1),
    )
    return Repeats(4, 4) if quick else Repeats(10, 1000, bounds)


_RATES = (10, 20, 40, 80, 160, 320, 640, 1280)
_MORE_RATES = (2560, 5120)  # to small groups two-phase carries 1,280 messages a second with ease
_QUICK_RATES = (20, 80, 160, 320)


def _rates(quick: bool) -> list[dict[str, Any]]:
    groups, sites = (8, 40) if quick else (20, 100)
    if quick:
        points = [(10, rate) for rate in _QUICK_RATES]
    else:
        points = [*product((5, 20), _RATES), *product((5,), _MORE_RATES)]
    return [{"sites": sites, "groups": groups, "size": n, "rate": rate} for n, rate in points]


def _changes(quick: bool) -> list[dict[str, Any]]:
    return [
        {"sites": n, "groups": n // 5, "size": 5}
        for n in ((20, 50) if quick else (20, 50, 100, 200))
    ]


def _failures(quick: bool) -> list[dict[str, Any]]:
    cases = [(crashes, ANY, 50, 1) for crashes in ((0, 2, 4) if quick else (0, 1, 2, 4))]
    cases += [(2, LEAF, 50, 1), (2, INNER, 50, 1), (4, INNER, 200, 2 if quick else 20)]
    return [
        {"sites": 12, "groups": 6, "size": 4, "crashes": crashes, "hit": hit, "rate": rate,
         "tables": tables}
        for crashes, hit, rate, tables in cases
    ]  # fmt: skip


_CHANGE_RUNS = Family("gs-change", change_costs)
_FAILURE_RUNS = Family("gs-failure", failure_costs, split="way")
_LOAD_RUNS = Family("gs-load", under_load_costs)
_TABLE_RUNS = Family("gs-tables", table_costs)
_FOREST_RUNS = Family("gs-forests", forest_costs)
_SETUP_RUNS = Family("gs-setup", set_up_costs)

REPRODUCTIONS = (
    Reproduction(
        name="gs-table1",
        title="Table 1: messages and delay in a point-to-point network",
        source="[GS] §4.1, Table 1",
        says=(
            "Two-phase: N = 3n, D = 3L + (2n+1)P. Centralized: N = n, D = 2L + nP."
            " Propagation: N = n + ε, D at most (d+1)L + (n+ε)P.",
        ),
        how="One message at a time to each group of a random table, from an origin outside, in the"
        " simulator (P = 1 ms, L = 5 ms; acknowledgements held back). The lines are the formulas"
        " with the n, d and ε of the same groups.",
        family=_TABLE_RUNS,
        points=_tables(P2P),
        repeats=_table_repeats,
        measures=("messages", "messages_formula", "delay_ms", "delay_formula_ms", "delay_first_ms",
                  "delay_mean_ms", "depth_mean", "extra_mean"),
        draw=figures.table_figure("P = 1 ms, L = 5 ms"),
        find=findings.table1_findings,
    ),
    Reproduction(
        name="gs-table2",
        title="Table 2: messages and delay in a broadcast network",
        source="[GS] §4.2, Table 2",
        says=(
            "Two-phase: N = n + 2. Centralized: N = 2. Propagation: N = d + 1. In each case"
            " D = N·T, since there is one message on the network at a time. Each site has to check"
            " in software whether a multicast is for it, so multicasts load all sites; unicasts may"
            " be preferable where few sites receive.",
        ),
        how="As for Table 1, on a broadcast network with T = 2 ms, where a message to several"
        " receivers at once is one transmission.",
        family=_TABLE_RUNS,
        points=_tables(BROADCAST),
        repeats=_table_repeats,
        measures=("messages", "messages_formula", "delay_ms", "delay_formula_ms", "delay_first_ms",
                  "delay_mean_ms", "depth_mean", "extra_mean", "checks", "wanted_checks"),
        draw=figures.table_figure("T = 2 ms"),
        find=findings.table2_findings,
    ),
    Reproduction(
        name="gs-graph1",
        title="Graph 1: depth against the number of sites",
        source="[GS] §4.1, Graph 1",
        says=(
            "With groups of fixed size, trees are short and bushy when groups crowd few sites,"
            " grow longer with more sites, and become a forest of short trees when there are very"
            " many. For small groups d is expected to be at most 2 or close to it. To take the site"
            " in most groups as a root helps to keep the trees short.",
        ),
        how=_FORESTS + _DELAYS + " The same generator also runs with any site in the place of the"
        " one in most groups, drawn from the same candidates.",
        family=_FOREST_RUNS,
        points=_by_sites,
        repeats=until(_DEPTH, quick=20, full=100),
        measures=("depth_mean", "depth_mean_at_random", "depth_max", "member_depth_mean",
                  "member_depth_sd", *_DELAY_MEASURES),
        draw=figures.depth_figure("sites"),
        find=findings.depth_findings("sites"),
    ),
    Reproduction(
        name="gs-graph2",
        title="Graph 2: depth against the size of groups",
        source="[GS] §4.1, Graph 2",
        says=(
            "With 200 sites and groups of growing size, the same ratio of group size to sites"
            " explains the curves: many intersections make bushy trees, few of them long ones, very"
            " few a sparse forest.",
        ),
        how=_FORESTS + _DELAYS,
        family=_FOREST_RUNS,
        points=_by_size,
        repeats=until(_DEPTH, quick=20, full=100),
        measures=("depth_mean", "depth_mean_at_random", "depth_max", "member_depth_mean",
                  "member_depth_sd", *_DELAY_MEASURES),
        draw=figures.depth_figure("size"),
        find=findings.depth_findings("size"),
    ),
    Reproduction(
        name="gs-graph3",
        title="Graph 3: extra sites against the number of sites",
        source="[GS] §4.1, Graph 3",
        says=("The number of extra sites is low in general, and its curves are like the depth's.",),
        how=_FORESTS,
        family=_FOREST_RUNS,
        points=_by_sites,
        repeats=until(_EXTRA, quick=20, full=100),
        measures=("extra_mean", "extra_share", "depth_mean"),
        draw=figures.extra_figure,
        find=findings.extra_findings,
    ),
    Reproduction(
        name="gs-graph4",
        title="Graph 4: highest load against the number of sites",
        source="[GS] §4.1, Graph 4",
        says=(
            "Propagation's load is high for few sites and falls to very low. Two-phase is very well"
            " distributed over the receivers, but not at the source. Centralized is high: one site"
            " is the bottleneck. Propagation is a good compromise between delay and load.",
        ),
        how=_FORESTS + " One message goes to each group, from an outside process. Two-phase: three"
        " messages per membership, and 3n at the source of a message. Centralized: the site in most"
        " groups receives each message and sends it to every other member (errata GS-10).",
        family=_FOREST_RUNS,
        points=_by_sites,
        repeats=until(*_LOAD, quick=20, full=100),
        measures=("load_max", "load_mean", "load_source", "load_one_source", "load_star",
                  "delay_last_ms"),
        draw=figures.load_figure("sites"),
        find=findings.load_findings("sites"),
    ),
    Reproduction(
        name="gs-graph5",
        title="Graph 5: highest load against the size of groups",
        source="[GS] §4.1, Graph 5",
        says=(
            "As Graph 4, with 200 sites and groups of growing size: load is high where trees are"
            " bushy, and two-phase's is much higher at the source when groups are large.",
        ),
        how=_FORESTS + " Loads as for Graph 4.",
        family=_FOREST_RUNS,
        points=_by_size,
        repeats=until(*_LOAD, quick=20, full=100),
        measures=("load_max", "load_mean", "load_source", "load_one_source", "load_star",
                  "delay_last_ms"),
        draw=figures.load_figure("size"),
        find=findings.load_findings("size"),
    ),
    Reproduction(
        name="gs-exponential",
        title="Groups of different sizes",
        source="[GS] §4.1, last paragraph",
        says=(
            "With sizes from an exponential distribution instead of a fixed one, the graphs have"
            " the same shape and generally lower depths.",
        ),
        how=_FORESTS + " Sizes are geometric, the exponential distribution of whole numbers: 1 or"
        " more, at most all sites. On average they are 5 along the axis of sites; along the axis of"
        " sizes there are 200 sites, as in Graphs 2 and 5.",
        family=_FOREST_RUNS,
        points=_both_sizes,
        repeats=until(_DEPTH, quick=20, full=100),
        measures=("depth_mean", "depth_max", "extra_mean", "load_max"),
        draw=figures.exponential_figure,
        find=findings.exponential_findings,
    ),
    Reproduction(
        name="gs-load",
        title="Delay and throughput under load",
        source="[GS] §4.1, §4.2, §6",
        says=(
            "The centralized solution is better in delay and messages, but for large groups its"
            " central site is a bottleneck, so D and N are not sufficient. Propagation alleviates"
            " that bottleneck. In a broadcast network it increases T and the delay.",
        ),
        how="Members send at random times to the groups of a random table for about a second, in"
        " the simulator (P = 1 ms, L = 5 ms). All frames are sent and counted, also"
        " acknowledgements and rounds of stability: a site needs P for each. The delay is from"
        " sending to delivery, mean over all members; carried are messages divided by the time"
        " until the last is delivered. Above its knee a protocol does not keep up, and the delay"
        " grows with the length of the run. The broadcast network (T = 2 ms) carries the same rates"
        " up to 320 a second without control frames, which the paper does not count.",
        family=_LOAD_RUNS,
        points=_rates,
        repeats=lambda quick: Repeats(3, 3) if quick else Repeats(6, 6),
        measures=("delay_mean_ms", "delay_p99_ms", "carried", "frames_data", "frames_control",
                  "broadcast_delay_ms", "broadcast_busiest"),
        draw=figures.under_load_figure,
        find=findings.under_load_findings,
    ),
    Reproduction(
        name="gs-setup",
        title="What set-up costs, and when it has paid",
        source="[GS] §4.3",
        says=(
            "The propagation graph (as the centralized solution) is costly to set up, so it is for"
            " groups that receive relatively many messages during their life.",
        ),
        how="Set-up is computing the forest (the quickest of five times, on the machine that ran"
        " this) and installing it: the manager, an outside process, sends an Open to every root,"
        " and it travels down every tree (§5.1), one message for each site that is in a group. What"
        " a multicast saves is what two-phase would take more of it (Table 1): 2n − ε messages, and"
        " the difference in delay. Break-even is set-up divided by saving, in multicasts.",
        family=_SETUP_RUNS,
        points=_by_sites_and_size,
        repeats=until(Precision("break_even_messages", share=0.1), quick=10, full=50),
        measures=("compute_ms", "install_ms", "install_messages", "saved_messages", "saved_ms",
                  "pays_in_messages", "pays_in_delay", "break_even_messages", "break_even_delay"),
        draw=figures.setup_figure,
        find=findings.setup_findings,
    ),
    Reproduction(
        name="gs-change",
        title="What a change of groups costs",
        source="[GS] §4.3, §5.1",
        says=(
            "A commit among all sites would change the graph cleanly, with many messages and long"
            " delays. Instead the manager sends a Close down the old trees and an Open down the new"
            " ones; the order of messages makes the change safe, without tight coordination and"
            " without preventing deliveries for long. Set-up is a substantial cost, as it is of the"
            " centralized solution.",
        ),
        how="Groups of 5, a fifth as many as sites, 40 messages a second; one site joins a group"
        " (P = 1 ms, L = 5 ms). Counted are the frames of the change until the last site has"
        " opened: the wish, appends to the voters' log with their answers, records fed to sites,"
        " the Close down the tree, reports of sites that have closed; signs of life are left out."
        " Frames that are not of an epoch take L, and no P. The paper's Close and Open and a"
        " two-phase commit are computed, over the same trees, from a manager outside.",
        family=_CHANGE_RUNS,
        points=_changes,
        repeats=lambda quick: Repeats(2, 2) if quick else Repeats(5, 5),
        measures=("frames", "frames_wish", "frames_log", "frames_feed", "frames_close",
                  "frames_report", "change_ms", "stopped_ms", "stopped_most_ms", "delay_ms",
                  "sites_changed", "paper_messages", "paper_ms", "commit_messages", "commit_ms"),
        draw=figures.change_figure,
        find=reliability_findings.change_findings,
    ),
    Reproduction(
        name="gs-failure",
        title="Failures: non-atomic deliveries, blocking, and what it costs without any",
        source="[GS] §5.2",
        says=(
            "Non-atomic delivery goes on without the failed site; only that site may have delivered"
            " in the wrong order, which is infrequent, and without failures no additional messages"
            " are sent.",
            "Atomic delivery blocks: not if a leaf fails, but where a failed site propagates"
            " messages. It is as reliable as two-phase, which blocks under the same conditions;"
            " committing in the centralized solution increases its delay considerably.",
        ),
        how="6 groups of 4 among 12 sites; 4 seconds of 50 messages a second, in"
        " the simulator (P = 1 ms, L = 5 ms). Sites crash at random times, any of them, or only"
        " those with nobody below them in the tree (leaves), or with somebody (inner). They return"
        " 0.6 s later; a silent site is excluded after 0.2 s. Non-atomic: `exclude` at `agreed`;"
        " blocking: `wait` at `agreed`; committed: `exclude` at `safe`. Blocked are deliveries, of"
        " messages sent while a site was down, between sites that were up, which came only after"
        " its return; messages of the last 0.3 s before it are left out. How rare non-atomic"
        " deliveries are is measured with 200 messages a second and 20 tables in each run.",
        family=_FAILURE_RUNS,
        points=_failures,
        repeats=lambda quick: Repeats(2, 2) if quick else Repeats(6, 6),
        measures=("delay_mean_ms", "delay_p99_ms", "bare_delay_ms", "frames_data",
                  "frames_control", "annulled_share", "rollback_share", "wrong_elsewhere",
                  "blocked_share"),
        draw=figures.failure_figure,
        find=reliability_findings.failure_findings,
    ),
)  # fmt: skip
