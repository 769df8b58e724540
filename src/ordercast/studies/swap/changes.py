"""[SWAP] §6.2: is joining and leaving local? In the paper's way, and in the running protocols.

In the paper, a site that joins or leaves sends messages to its neighbours in the tree. Here it is a
new epoch (docs/epochs.md): its tree differs from the one before only next to that site, but every
site of the domain closes the old epoch and opens the new one.
"""

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.structure import Structure
from ordercast.model.groups import Site
from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.studies.figures import (
    MARKERS,
    draw_curve,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.fits import end_to_end
from ordercast.studies.gs.changes import ASKED, of_change
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.swap.figures import LOOKS
from ordercast.studies.swap.tree import Say, SwapTree, Word
from ordercast.studies.wording import means
from ordercast.wire.swap import NOBODY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANGING = ("arrow", "combining", "hybrid")
KINDS = ("join", "leave")
_RATE = 40  # messages a second, and of a run
_FLAT = 0.1  # a power of the sites: what does not depend on their number


def change_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` of one join and one leave."""
    table = draw_table(drawing_of(config), seed)
    measures: Measures = {}
    for protocol in CHANGING:
        for kind in KINDS:
            log = FrameLog()
            found = simulate(
                SimConfig(
                    table, protocol=protocol, builder="greedy", messages=_RATE, rate=_RATE,
                    network=PointToPointSpec(), deliver="agreed", durability="memory",
                    faults=(Fault(kind, count=1, start=ASKED, stop=ASKED),),
                ),
                seed,
                log=log,
            )  # fmt: skip
            if found.violations:
                raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
            took = of_change(found, log)
            closed = {epoch for _, _, epoch in log.closes}
            before = [log.structures[epoch] for epoch in closed]
            after = [each for epoch, each in log.structures.items() if epoch > max(closed)]
            measures |= {
                f"{protocol}/{kind}_frames": float(took["frames"]),
                f"{protocol}/{kind}_ms": float(took["change_ms"]),
                f"{protocol}/{kind}_moved": float(len(_moved(before, after))),
            }
            if protocol == CHANGING[0]:
                largest = max(before, key=lambda each: len(each.forest.parent))
                measures[f"paper/{kind}_words"] = float(_words(largest, kind))
    return Measured(measures)


def _moved(before: list[Structure], after: list[Structure]) -> list[Site]:
    """The sites that have another parent than before, or are new in a tree."""
    old, new = ({s: p for each in some for s, p in each.forest.parent.items()}
                for some in (before, after))  # fmt: skip
    return [site for site, parent in new.items() if site not in old or old[site] != parent]


def _words(structure: Structure, kind: str) -> int:
    """How many messages it takes in the paper's way for a site to join beside the root, or for an
    inner site to leave, while nothing else is under way."""
    sites = list(structure.forest.parent)
    trees = {site: _place(structure, site) for site in sites}
    root = structure.root(sites[0])
    inner = [s for s in sites if structure.children[s] and s != root] or [root]
    joiner = "joiner"
    if kind == "join":
        trees[joiner] = SwapTree(joiner, ArrowSwap(joiner, root), ())
        told, who = trees[joiner].join(root), joiner
    else:
        who = inner[0]
        told = trees[who].leave()
    words, under_way = 0, deque[tuple[Site, Site, Word]]()
    under_way.extend((who, each.peer, each.word) for each in told if isinstance(each, Say))
    while under_way:
        source, peer, word = under_way.popleft()
        words += 1
        said = trees[peer].hear(source, word, NOBODY)
        under_way.extend((peer, each.peer, each.word) for each in said if isinstance(each, Say))
    return words


def _place(structure: Structure, site: Site) -> SwapTree:
    above = structure.parent(site)
    near = [*structure.children[site], *([] if above is None else [above])]
    return SwapTree(site, ArrowSwap(site, above or site), near)


def change_figure(results: Results) -> "Figure":
    figure, axes = new_figure(12.0, 4.6, 1, 2)
    for ax, kind in zip(axes, KINDS, strict=True):
        for place, protocol in enumerate(CHANGING):
            colour, line = LOOKS[protocol]
            spots = curve(results, "sites", f"{kind}_frames", protocol=protocol)
            draw_curve(ax, spots, f"{protocol}: frames", colour, MARKERS[place], line)
        words = curve(results, "sites", f"{kind}_words", protocol="paper")
        draw_curve(ax, words, "the paper's way: words", "#34495E", MARKERS[3], ":")
        title(ax, f"One {kind}")
        label(ax, "sites", "frames or words")
        log_axis(ax, "x", values(results, "sites"))
        log_axis(ax, "y")
    legend_above(figure, axes[0], columns=4)
    return figure


def change_findings(results: Results) -> list[Finding]:
    def of(protocol: str, measure: str) -> list[Spot]:
        return curve(results, "sites", measure, protocol=protocol)

    words = {kind: of("paper", f"{kind}_words") for kind in KINDS}
    moved = {(p, kind): of(p, f"{kind}_moved") for p in CHANGING for kind in KINDS}
    frames = {(p, kind): of(p, f"{kind}_frames") for p in CHANGING for kind in KINDS}
    flat = [end_to_end(spots) <= _FLAT for spots in frames.values()]
    local = [spot.y == words["join"][0].y for spot in words["join"]]
    sizes = ", ".join(f"{size:,}" for size in values(results, "sites"))
    return [
        Finding(
            "Joining and leaving the tree are local: what they take does not depend on the size of"
            " the group.",
            judged([*local, end_to_end(words["leave"]) <= _FLAT]),
            f"In the paper's way, words of a join: {means(words['join'])}; of a leave, three for"
            f" each neighbour: {means(words['leave'])} (at {sizes} sites), which grows as the power"
            f" {end_to_end(words['leave']):.2f} of the sites (taken as none: at most {_FLAT:g}; a"
            " join has to take the same everywhere).",
        ),
        Finding(
            "A change of membership is a local operation of the running protocol.",
            judged(flat),
            "Frames of a change, which is an epoch of the domain here: "
            + "; ".join(f"{p}, {kind} {means(spots)}" for (p, kind), spots in frames.items())
            + f" (at {sizes} sites).",
        ),
        Finding(
            "The tree of the next epoch differs beside the site that comes or goes.",
            judged([spot.y <= 1 for (_, kind), spots in moved.items() if kind == "join"
                    for spot in spots]),
            "Sites with another parent: "
            + "; ".join(f"{p}, {kind} {means(spots, 1)}" for (p, kind), spots in moved.items())
            + ".",
            kind=OURS,
        ),
        Finding(
            "How long a change takes.",
            MEASURED,
            "; ".join(f"{p}, join {means(of(p, 'join_ms'))} ms" for p in CHANGING)
            + " until all sites have opened (P = 1 ms, L = 5 ms).",
            kind=OURS,
        ),
    ]  # fmt: skip
