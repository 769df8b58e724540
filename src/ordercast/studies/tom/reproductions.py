"""[TOM] Dommel and Garcia-Luna-Aceves: Table 1 and Figure 5, by running all seven protocols.

The paper compares symmetric, two-phase, centralized, ring and three tree protocols by formulas.
Here they run over random tables. Table 1 contradicts its own text in places (errata TOM-5), so
there are two columns of formulas, printed and corrected.
"""

from typing import Any

from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.pipeline.sweeps.tables import UNIFORM
from ordercast.studies.reproduction import Family, Finding, Reproduction
from ordercast.studies.tom import tree_findings
from ordercast.studies.tom.figures import sessions_figure, table_figure
from ordercast.studies.tom.findings import sessions_findings, table_findings
from ordercast.studies.tom.given_tree import LOCAL, given_costs
from ordercast.studies.tom.processing import host_costs
from ordercast.studies.tom.runs import MEMBERS, OUTSIDE, message_costs
from ordercast.studies.tom.source_findings import orderers_findings, several_sources_findings

_MEASURES = (
    "transmissions", "printed", "corrected", "as_printed_share", "messages", "work_max",
    "load_max", "hosts_engaged",
)  # fmt: skip
_PACKETS = tuple(
    f"x_{role}{kind}"
    for role in ("source", "order", "receiver")
    for kind in ("", "_multicast", "_printed")
)
_RECEIVERS = (5, 10, 20, 40)
_QUICK_RECEIVERS = (5, 10, 20)
_SOURCES = (1, 2, 4, 8)
_HOSTS = (20, 50, 100, 200, 500, 1000)
_QUICK_HOSTS = (20, 50, 100, 200)
_SEVERAL = 10  # receivers, where sources vary


def _table(quick: bool) -> list[dict[str, Any]]:
    sites, groups = (60, 8) if quick else (100, 12)
    by_receivers = [(size, 1) for size in (_QUICK_RECEIVERS if quick else _RECEIVERS)]
    by_sources = [(_SEVERAL, sources) for sources in _SOURCES if sources > 1]
    return [
        {"sites": sites, "groups": groups, "size": size, "sources": sources, "sent_by": by}
        for size, sources in (*by_receivers, *by_sources)
        for by in (MEMBERS, OUTSIDE)
    ]


def _sessions(quick: bool) -> list[dict[str, Any]]:
    return [
        {"sites": n, "groups": 20, "size": n // 10, "sources": 1, "sent_by": MEMBERS}
        for n in (_QUICK_HOSTS if quick else _HOSTS)
    ]


def _repeats(quick: bool) -> Repeats:
    bound = Precision("propagation/transmissions", share=0.1)
    return Repeats(4, 4) if quick else Repeats(10, 300, (bound,))


def _given(quick: bool) -> list[dict[str, Any]]:
    return [
        {"sites": n, "groups": 20, "size": n // 10, "where": where}
        for n in ((31, 100) if quick else (31, 100, 300))
        for where in (UNIFORM, LOCAL)
    ]


def _rings(quick: bool) -> list[dict[str, Any]]:
    hosts, rates = ((8, 24), (10, 160)) if quick else ((8, 16, 32), (10, 40, 160))
    return [{"sites": n, "rate": rate, "loss": 0.0} for n in hosts for rate in rates]


def _losses(quick: bool) -> list[dict[str, Any]]:
    losses = (0.0, 0.05) if quick else (0.0, 0.01, 0.03, 0.1)
    return [{"sites": 12, "rate": 40, "loss": loss} for loss in losses]


def _few(quick: bool) -> Repeats:
    return Repeats(2, 2) if quick else Repeats(6, 6)


def _of_sessions(results: Results) -> list[Finding]:
    return [*sessions_findings(results), *orderers_findings(results)]


def _of_rings(results: Results) -> list[Finding]:
    return [*tree_findings.rings_findings(results), *several_sources_findings(results)]


_GIVEN = Family("tom-given", given_costs)
_HOST_COSTS = Family("tom-hosts", host_costs)
_HOST_MEASURES = ("frames", "busiest", "host_mean", "delay_mean_ms", "delay_p99_ms")
_SEVERAL_SOURCES = ("carried", "at_once_ms", "alone_ms")
_MESSAGES = Family("tom-messages", message_costs)

REPRODUCTIONS = (
    Reproduction(
        name="tom-table1",
        title="Table 1: processing overhead X and message cost M with multicast",
        source="[TOM] §4, Table 1",
        says=(
            "For s sources, r receivers and n hosts: symmetric M = s(1+2r), two-phase s(1+r),"
            " centralized s+r, ring 2sn, MP s(1+d), MG s(1+d+k), TOM s(2+p). X is O(sr²), O(r),"
            " O(sr), O(r), and O(B) for the trees. Without multicast symmetric ordering takes"
            " s((r−1) + r(r−1)) (§4.1.1); a ring at best 2n/k, if k messages share its turns"
            " (§4.2.1).",
        ),
        how="s sources send one message each to one group of a random table at the same time, in"
        " the simulator; a multicast is one transmission, by one rule for all protocols. The"
        " formulas have the d, k and p of the same group. Corrected (errata TOM-3, TOM-5):"
        " two-phase s(2+r), centralized 2s, MP and MG 1 + forwarding sites, TOM 1 + p + forwarding"
        " sites; symmetric 2 + r(n−1), since every host that may send is asked; ring n + 2, half a"
        " turn of a call and half a turn of the token; these two for messages one at a time. A"
        " source among the receivers saves its own proposal, one that is centre or primary the"
        " first step. The CSV has sources among the receivers and outside.",
        family=_MESSAGES,
        points=_table,
        repeats=_repeats,
        measures=(*_MEASURES, *_PACKETS),
        draw=table_figure,
        find=table_findings,
    ),
    Reproduction(
        name="tom-figure5",
        title="Figure 5: message cost against the size of the session",
        source="[TOM] §4.3, Figure 5",
        says=(
            "One source, a tenth of the hosts as receivers, trees of degree 5, p = h/2. Symmetric"
            " ordering scales least; two-phase, centralized and ring are alike; TOM is equal or"
            " better than MG and MP, and spreads the load of ordering over several nodes.",
        ),
        how="The protocols run over random tables of 20 groups; symmetric up to 500 hosts. The"
        " paper leaves h and k open: its curves are drawn with h = log_B n and with h = log_B r,"
        " and with k = 1. Its figure cannot have r = n and r = n/10 at once (errata TOM-5): here"
        " r = n/10.",
        family=_MESSAGES,
        points=_sessions,
        repeats=_repeats,
        measures=(*_MEASURES, "figure_5", "figure_5_receivers", "orderers", "orderer_share"),
        draw=sessions_figure,
        find=_of_sessions,
    ),
    Reproduction(
        name="tom-given",
        title="On a tree that is given: what a hop is in the network",
        source="[TOM] §3, §4.3",
        says=(
            "A logical hop between hosts in MP and MG may be several hops in the multicast routing"
            " tree; TOM's tree mirrors that tree, and no graph is computed from the groups. TOM is"
            " equal or better than MG and MP.",
        ),
        how="The hosts are the nodes of a complete tree with five children each, which is the"
        " network: a frame takes one hop's time per link. TOM runs on the builder `given` with this"
        " tree; propagation on greedy, metagroups on their own trees. 20 groups of n/10 hosts, from"
        " anywhere or near each other (standard deviation n/20 in the tree's preorder); 6 messages"
        " from members, one at a time. A hop is a frame that is no body alone; equal content sent"
        " to several at one time crosses a link once.",
        family=_GIVEN,
        points=_given,
        repeats=_few,
        measures=("stretch", "stretch_max", "transmissions", "links", "delay_mean_hops",
                  "delay_last_hops", "direct_hops"),
        draw=tree_findings.given_figure,
        find=tree_findings.given_findings,
    ),
    Reproduction(
        name="tom-rings",
        title="Concurrency of rings against latency",
        source="[TOM] §4.3",
        says=(
            "Rings may permit higher concurrency than two-phase and centralized ordering, but"
            " latency increases in large sessions. Centralized ordering is reasonable for few"
            " hosts, and a potential bottleneck for large sessions. With several sources trees"
            " scale better with the receivers; if all nodes send at the same time, symmetric"
            " ordering's latency may be low.",
        ),
        how="All hosts are one group and send 60 messages to it at random times, in the"
        " point-to-point network (P = 1 ms, L = 5 ms), with all control frames. The token of an"
        " idle ring goes on turning, and is counted. At the same time: each host sends one message"
        " at time 0, and nothing is counted but what orders and carries messages.",
        family=_HOST_COSTS,
        points=_rings,
        repeats=_few,
        measures=(*_HOST_MEASURES, *_SEVERAL_SOURCES),
        draw=tree_findings.rings_figure,
        find=_of_rings,
    ),
    Reproduction(
        name="tom-loss",
        title="Processing at hosts when frames are lost",
        source="[TOM] §6",
        says=("An analysis of processing costs with packet loss is left for later work.",),
        how="12 hosts in one group, 40 messages a second, as in `tom-rings`; each frame is lost"
        " with the given probability. Counted are frames that a host sends and receives, resent"
        " ones and acknowledgements too. Messages that wait for a lost one go on together, in"
        " fewer frames.",
        family=_HOST_COSTS,
        points=_losses,
        repeats=_few,
        measures=_HOST_MEASURES,
        draw=tree_findings.loss_figure,
        find=tree_findings.loss_findings,
    ),
)  # fmt: skip
