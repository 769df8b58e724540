"""[STAB] Guo, van Renesse, Vogels and Birman: its tables and figures, and what it leaves for later.

Everything comes from running the protocols on the simulated tree network of §5.1; there is no
closed form here. Trees are those of Table 3: height 5, degrees 2 to 4, and 10 random ones per size.
"""

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.studies.reproduction import Family, Reproduction
from ordercast.studies.stab import figures, findings, printed_values, runs, variants

_MODEL = (
    "One round on the network of §5.1 as we read it (errata STAB-4): processors send and receive"
    " one message at a time, links of 100 Mbps store and forward, routers take 1 ms."
)
_RTT = (
    " The round trip is the first member's, from START received to INFO received; of FullDist from"
    " its own row to the last; of Train one circulation, from the first ACK to its return."
)


def _once(_quick: bool) -> Repeats:
    """A tree and a protocol leave nothing to chance."""
    return Repeats(1, 1)


_ROUNDS = Family("stab-rounds", runs.round_costs)
_VARIANTS = Family("stab-variants", runs.variant_costs)
_LOAD = Family("stab-load", runs.load_costs)
_TRIGGER = Family("stab-trigger", runs.trigger_costs)

REPRODUCTIONS = (
    Reproduction(
        name="stab-table1",
        title="Table 1: rounds and messages processed",
        source="[STAB] §3, §4, Tables 1 and 2",
        says=(
            "Rounds: 3 (CoordP), 2 (FullDist), 2n (Train), p + 2 (S_CoordP), bp + 2 (S_Train)."
            " Messages processed: n + 3 at the coordinator, 3 elsewhere; n + 1; 4; at most b + 4;"
            " at most 5. The structured protocols leave every member with O(1).",
        ),
        how="One round on complete trees. A message's round is one more than that of the messages"
        " its sender waited for; a multicast is one message sent and one received by its sender.",
        family=_ROUNDS,
        points=runs.complete_trees,
        repeats=_once,
        measures=(
            "rounds", "processed_root", "processed_internal", "processed_internal_least",
            "processed_leaf", "processed_leaf_least",
        ),
        draw=figures.table1_figure,
        find=findings.table1_findings,
    ),
    Reproduction(
        name="stab-table4",
        title="Table 4: messages on all hops, by kind",
        source="[STAB] §5.3.1, Tables 3 and 4",
        says=(
            "START and INFO are multicasts of n − 1 hops. CoordP's ACKs travel all the way to the"
            " root, S_CoordP's one hop. In all O(n log n) for CoordP, O(n²) for FullDist, O(n) for"
            " the others.",
        ),
        how=_MODEL + " A message counts once on every link that it crosses. That the counts equal"
        " the table's formulas, the wrong one mended (errata STAB-1), is a test of ours.",
        family=_ROUNDS,
        points=runs.table_3,
        repeats=_once,
        measures=("on_hops_start", "on_hops_ack", "on_hops_info", "messages_on_hops"),
        draw=figures.kinds_figure,
        find=findings.table4_findings,
    ),
    Reproduction(
        name="stab-figure6",
        title="Figure 6: messages on all hops",
        source="[STAB] §5.3.1, Figure 6",
        says=(
            "The structured protocols reduce the total number of messages on all hops from their"
            " basic protocols by at least a factor of log n.",
        ),
        how=_MODEL,
        family=_ROUNDS,
        points=runs.table_3,
        repeats=_once,
        measures=("messages_on_hops",),
        draw=figures.messages_figure,
        find=findings.messages_findings,
    ),
    Reproduction(
        name="stab-figure7",
        title="Figure 7: messages on all hops, basic and structured",
        source="[STAB] §5.3.1, Figure 7",
        says=("As Figure 6, each basic protocol beside the structured one derived from it.",),
        how=_MODEL,
        family=_ROUNDS,
        points=runs.table_3,
        repeats=_once,
        measures=("messages_on_hops",),
        draw=figures.pairs_figure(
            "messages_on_hops", "messages", "on all hops", printed_values.MESSAGES_ON_HOPS
        ),
        find=findings.messages_findings,
    ),
    Reproduction(
        name="stab-figure8",
        title="Figure 8: the longest queue",
        source="[STAB] §5.4.1, Figure 8",
        says=(
            "FullDist has the largest value, followed by CoordP; both increase with n. Train stays"
            " at 1, and so do both structured protocols.",
        ),
        how=_MODEL + " The paper does not say which queue it means: both are shown (errata STAB-8)."
        " A queue counts the message in service.",
        family=_ROUNDS,
        points=runs.table_3,
        repeats=_once,
        measures=("queue_link", "queue_cpu"),
        draw=figures.queues_figure,
        find=findings.queue_findings,
    ),
    Reproduction(
        name="stab-figure9",
        title="Figure 9: round-trip time",
        source="[STAB] §5.4.2, Figure 9",
        says=(
            "Train has the longest round trip, CoordP and FullDist almost the same. S_Train"
            " increases more than S_CoordP. On random trees round trips are close to those on"
            " near-complete ones.",
        ),
        how=_MODEL + _RTT + " Random trees are drawn as in the paper, mended (errata STAB-2), and"
        " again where a level would stay empty.",
        family=_ROUNDS,
        points=runs.with_random_trees,
        repeats=_once,
        measures=("rtt_ms", "slowest_rtt_ms"),
        draw=figures.rtt_figure,
        find=findings.rtt_findings,
    ),
    Reproduction(
        name="stab-figure10",
        title="Figure 10: round-trip time, basic and structured",
        source="[STAB] §5.4.2, Figure 10",
        says=(
            "CoordP's round trip increases dramatically with n while S_CoordP's stays almost flat;"
            " FullDist's increases sharply; S_Train scales significantly better than Train.",
        ),
        how=_MODEL + _RTT,
        family=_ROUNDS,
        points=runs.with_random_trees,
        repeats=_once,
        measures=("rtt_ms", "slowest_rtt_ms"),
        draw=figures.pairs_figure(
            "rtt_ms", "round-trip time, ms", "round trip", said=figures.draw_said_of_round_trips
        ),
        find=findings.pairs_findings,
    ),
    Reproduction(
        name="stab-scale",
        title="From 50 to 20,000 members, other trees, and wide areas",
        source="[STAB] §5.4.2, §5.3.1, §7",
        says=(
            "With 1,000 members S_CoordP is 70 times quicker than CoordP, with 20,000 in a tree of"
            " height 7 2,100 times; S_Train 35 and 500 times quicker than Train. The structured"
            " protocols scale to at least tens of thousands of participants. Networks whose tree is"
            " not the protocol's, and wide areas, are left for later.",
        ),
        how=_MODEL + _RTT + " Trees have four children per node, filled level by level; FullDist"
        " ends at 1,365 members. With members anywhere, the protocol's tree and circle are laid"
        " over the nodes at random. In a wide area the links from the root are 31 to 80 ms long"
        " (one way, as between regions of public clouds).",
        family=_ROUNDS,
        points=runs.sizes,
        repeats=_once,
        measures=("rtt_ms", "messages_on_hops", "messages_per_member", "height"),
        draw=figures.scale_figure,
        find=findings.scale_findings,
    ),
    Reproduction(
        name="stab-variants",
        title="Four bytes, slow routers, long links, and FullDist on a tree",
        source="[STAB] §3.1, §4.1, §5.1, §7",
        says=(
            "With a total order each member reports four bytes instead of an array, in basic and"
            " structured protocols alike. Routers typically take 1 to 10 ms. FullDist on a tree"
            " ends up as S_CoordP.",
        ),
        how=_MODEL + _RTT + " Trees have four children per node. `total`: ACK and INFO have one"
        " number. Routers of 1, 5 and 10 ms. Long links: every member is in one of six regions,"
        " drawn by lot, and a link takes the time between its ends (1 to 155 ms one way).",
        family=_VARIANTS,
        points=runs.variants,
        repeats=_once,
        measures=("rtt_ms", "rounds", "messages_on_hops", "queue_cpu", "processed_root"),
        draw=variants.variants_figure,
        find=variants.variants_findings,
    ),
    Reproduction(
        name="stab-load",
        title="f(r): round-trip time under data traffic",
        source="[STAB] §6, §6.1",
        says=(
            "The time of a round is a complicated function f(r) of the rate at which data is sent;"
            " f(0) is a lower bound. The paper measures f(0) only.",
        ),
        how=_MODEL + " All members multicast data of 1,000 bytes at random times, at the rate at"
        " which it alone takes the given share of every processor's time; six rounds are measured"
        " in each run, with rests of 20 ms on average between them.",
        family=_LOAD,
        points=runs.loads,
        repeats=lambda quick: Repeats(1, 1) if quick else Repeats(3, 3),
        measures=("rtt_ms", "rate", "queue_cpu"),
        draw=figures.load_figure,
        find=findings.load_findings,
    ),
    Reproduction(
        name="stab-trigger",
        title="The trigger: rounds, stops and time to stable against X",
        source="[STAB] §6",
        says=(
            "A round begins when the root's output buffer holds X messages. T(X) = K/(αX) rounds"
            " are needed; the best X is max(g − rf, (g − 2rf)/(1 − α)). Larger, and senders have to"
            " stop; smaller, and there are more rounds than needed.",
        ),
        how="15 members, s_coordp, on a tree whose root's links are 31 and 38 ms long; each sends"
        " 60 messages of 200 bytes a second and holds at most g = 40 that are not stable. A lost"
        " copy comes 300 ms later. Green: the largest X with which no member stops, and the lesser"
        " of the two bounds, with the f and α of the same runs (errata STAB-6). Yellow: every"
        " member measures r, f and α and asks for a round at its own X, or when its oldest message"
        " is 2 s old.",
        family=_TRIGGER,
        points=runs.limits,
        repeats=lambda quick: Repeats(1, 1) if quick else Repeats(3, 3),
        measures=(
            "rounds", "rounds_formula", "stops", "first_stops", "stopped_share",
            "first_stopped_share", "stable_share", "time_to_stable_ms", "round_ms", "alpha",
            "meanwhile", "mended_limit", "printed_limit",
        ),
        draw=figures.trigger_figure,
        find=findings.trigger_findings,
    ),
)  # fmt: skip
