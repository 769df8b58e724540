"""[SWAP] Herlihy, Tirthapura and Wattenhofer 2000: latency of swap against counting, and locality.

The paper has no measurements; what it says of latency (§3 to §5) and of traffic (§6.1) is run here.
"""

from typing import Any

from ordercast.pipeline.sweeps.spec import Repeats
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.studies.reproduction import Family, Reproduction
from ordercast.studies.swap import throughput
from ordercast.studies.swap.changes import change_costs, change_figure, change_findings
from ordercast.studies.swap.figures import latency_figure, locality_figure
from ordercast.studies.swap.findings import latency_findings, locality_findings
from ordercast.studies.swap.runs import (
    BINARY,
    ONE,
    SHAPES,
    TURNS,
    latencies,
    traffic,
)
from ordercast.studies.swap.throughput import throughput_costs

_SITES, _QUICK_SITES = 31, 15
_MESSAGES, _QUICK_MESSAGES = 40, 12


def _latency(quick: bool) -> list[dict[str, Any]]:
    """1, 2, 4, … and all sites at once."""
    sites = _QUICK_SITES if quick else _SITES
    counts = [2**power for power in range(sites.bit_length())]
    return [
        {"sites": sites, "shape": shape, "requests": min(count, sites)}
        for shape in SHAPES
        for count in (*counts, sites)
        if count <= sites
    ]


def _locality(quick: bool) -> list[dict[str, Any]]:
    sites, messages = (_QUICK_SITES, _QUICK_MESSAGES) if quick else (_SITES, _MESSAGES)
    return [
        {"sites": sites, "shape": BINARY, "senders": senders, "messages": messages}
        for senders in (ONE, TURNS)
    ]


def _rates(quick: bool) -> list[dict[str, Any]]:
    sites, rates = (7, (20, 160)) if quick else (15, (10, 40, 160, 640))
    return [{"sites": sites, "rate": rate} for rate in rates]


def _latency_repeats(quick: bool) -> Repeats:
    bound = Precision("arrow/known_hops", share=0.1)
    return Repeats(6, 6) if quick else Repeats(20, 300, (bound,))


def _locality_repeats(quick: bool) -> Repeats:
    return Repeats(6, 6) if quick else Repeats(30, 30)


def _changes(quick: bool) -> list[dict[str, Any]]:
    sizes = (10, 20) if quick else (20, 50, 100)
    return [{"sites": size, "groups": size // 5, "size": 5} for size in sizes]


_RANKS = tuple(f"link_{rank}" for rank in range(1, 31))

_LATENCY = Family("swap-latency", latencies)
_THROUGHPUT = Family("swap-throughput", throughput_costs)
_LOCALITY = Family("swap-locality", traffic)

REPRODUCTIONS = (
    Reproduction(
        name="swap-latency",
        title="Latency of swap against counting",
        source="[SWAP] §3, §4, §5",
        says=(
            "Swap protocols are truncated counting protocols: a message goes out as soon as its"
            " predecessor is known, without counting those before. With concurrent requests the"
            " swap-based multicast always has lower latency; sequential ones cost the same with"
            " arrow. With combining, a count needs the way to the root and back. A request crosses"
            " at most as many links as the diameter.",
        ),
        how="1 to n sites of a tree multicast at the same moment; a frame takes one hop's time per"
        " link between its ends, nothing else takes time. Known: when the header first leaves a"
        " site. Delivered: when the last of all sites has delivered the message. Means over the"
        " messages of a run, random senders (and random trees) in each run.",
        family=_LATENCY,
        points=_latency,
        repeats=_latency_repeats,
        measures=("known_hops", "known_hops_max", "delivered_hops", "links_max", "beyond_diameter",
                  "requests_sent", "diameter"),
        draw=latency_figure,
        find=latency_findings,
    ),
    Reproduction(
        name="swap-locality",
        title="Which links carry requests",
        source="[SWAP] §6.1",
        says=(
            "Arrow's requests travel only between multicasting nodes: with one sender there is no"
            " such traffic. In the combining tree all of it passes the root. If a node splits the"
            " tree and the two parts take turns, arrow's traffic passes that node, too. An arrow"
            " set instead of the root alleviates it.",
        ),
        how="A binary tree. One leaf sends all messages, or a site left and one right of the root"
        " send in turn, one message after the other. Counted per message: requests and answers of"
        " the swap object over each link, the busiest first; headers and bodies, which go to all,"
        " are not.",
        family=_LOCALITY,
        points=_locality,
        repeats=_locality_repeats,
        measures=("requests_sent", "requests_later", "links_used", "busiest_site", "through_root",
                  *_RANKS),
        draw=locality_figure,
        find=locality_findings,
    ),
    Reproduction(
        name="swap-throughput",
        title="What is carried where sites need time",
        source="[SWAP] §6.1",
        says=(
            "In the combining tree all requests pass the root, which can become a bottleneck; an"
            " arrow set in its place alleviates that, and if it is sufficiently large it can have a"
            " large in-degree and still provide high throughput. Nodes lower in the combining tree"
            " could be represented by smaller arrow groups.",
        ),
        how="All sites are one group on a binary tree and send to it at random times for about a"
        " second, in the simulator's point-to-point network: a site needs 1 ms for each frame that"
        " it sends, a frame then takes 5 ms. All frames count. Carried are messages divided by the"
        " time until the last is delivered.",
        family=_THROUGHPUT,
        points=_rates,
        repeats=lambda quick: Repeats(2, 2) if quick else Repeats(5, 5),
        measures=("delay_mean_ms", "carried", "frames"),
        draw=throughput.throughput_figure,
        find=throughput.throughput_findings,
    ),
    Reproduction(
        name="swap-change",
        title="Joining and leaving: local, or not",
        source="[SWAP] §6.2",
        says=(
            "A node enters as a leaf beside any node of the tree, and leaves by a word with its"
            " neighbours: the cost depends on its degree, not on the size of the group. If all"
            " nodes must know every member, a change is a global reconfiguration.",
        ),
        how="Groups of 5, a fifth as many as sites, on greedy trees; one site joins a group, or one"
        " leaves, while 40 messages a second are sent (P = 1 ms, L = 5 ms). Frames are counted from"
        " the wish until all sites have opened the next epoch, without signs of life. The paper's"
        " way is run on the tree of the same domain: a join beside the root, the leave of an inner"
        " site.",
        family=Family("swap-change", change_costs),
        points=_changes,
        repeats=lambda quick: Repeats(1, 1) if quick else Repeats(5, 5),
        measures=tuple(f"{kind}_{what}" for kind in ("join", "leave")
                       for what in ("frames", "ms", "moved", "words")),
        draw=change_figure,
        find=change_findings,
    ),
)  # fmt: skip
