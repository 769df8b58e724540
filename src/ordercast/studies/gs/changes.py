"""[GS] §5.1: what a change of groups costs, by running one, beside what the paper's way would take.

A site joins a group while members send. Ours (docs/epochs.md): the wish, `Begin` in the voters' log
and to every site, the Close down the tree, a report from every site, `Finish` in the log and to
every site. The paper's: a Close to every site down the old tree, an Open down the new one. And the
commit among all sites that the paper means to avoid: prepare, vote and commit, each between the
manager and every site. The last two are computed, in the same point-to-point network.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ordercast.core.order.interface import CLOSING
from ordercast.core.structure import Structure
from ordercast.history.rows import OPEN
from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.studies.gs.forests import L_MS, P_MS
from ordercast.wire.epochs import ChangeRequest, Fed, Feed, InEpoch
from ordercast.wire.frames import Data
from ordercast.wire.voting import Append

BUILDERS = {"propagation": "greedy", "centralized": "star"}
_RATE = 40  # messages a second, and of a run
ASKED = SECOND // 2  # when the site asks; the cluster is founded by then


def change_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` of one join."""
    table = draw_table(drawing_of(config), seed)
    measures: dict[str, float] = {}
    for protocol, builder in BUILDERS.items():
        log = FrameLog()
        found = simulate(
            SimConfig(
                table,
                protocol=protocol,
                builder=builder,
                messages=_RATE,
                rate=_RATE,
                network=PointToPointSpec(round(P_MS * MILLISECOND), round(L_MS * MILLISECOND)),
                faults=(Fault("join", count=1, start=ASKED, stop=ASKED),),
                deliver="agreed",
                durability="memory",
            ),
            seed,
            log=log,
        )
        if found.violations:
            raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
        measures |= {
            f"{protocol}/{name}": float(value) for name, value in of_change(found, log).items()
        }
    return Measured(measures)


def of_change(found: SimResult, log: FrameLog) -> Mapping[str, float]:
    """The time of the change, and its time by other ways."""
    closed = dict.fromkeys(epoch for _, _, epoch in log.closes)
    if not closed:
        raise RuntimeError("nothing was closed")
    before = [log.structures[epoch] for epoch in closed]
    opened = {epoch for epoch in log.structures if epoch > max(closed)}
    after = [log.structures[epoch] for epoch in sorted(opened)]
    opens = {
        event.site: event.at_ns
        for event in found.history.events
        if event.kind == OPEN and event.epoch in opened
    }
    close = {site: at for at, site, _ in log.closes}
    stopped = [(opens[site] - at) / MILLISECOND for site, at in close.items() if site in opens]
    last = max(opens.values())
    frames = _frames(log, last)
    paper_messages, paper_ms = closed_and_opened(before, after)
    sites = len({site for each in (*before, *after) for site in _engaged(each)})
    commit_messages, commit_ms = committed(sites)
    return {
        "sites_changed": sites,
        "frames": sum(frames.values()),
        **{f"frames_{name}": count for name, count in frames.items()},
        "change_ms": (last - ASKED) / MILLISECOND,
        "stopped_ms": fmean(stopped),
        "stopped_most_ms": max(stopped),
        "delay_ms": _delay_before(found),
        "paper_messages": paper_messages,
        "paper_ms": paper_ms,
        "commit_messages": commit_messages,
        "commit_ms": commit_ms,
    }


def _frames(log: FrameLog, last: int) -> dict[str, int]:
    """The frames of the change from the wish until all sites have opened. Signs of life, which go
    on without it, are left out."""
    found = dict.fromkeys(("wish", "log", "feed", "close", "report"), 0)
    for frame in log.frames:
        if ASKED <= frame.sent <= last:
            kind = _kind(frame.frame)
            if kind:
                found[kind] += 2 if kind == "log" else 1  # and its answer
    return found


def _kind(frame: Any) -> str:
    if isinstance(frame, InEpoch):
        said = frame.frame
        return "close" if isinstance(said, Data) and any(map(_is_close, said.items)) else ""
    if isinstance(frame, ChangeRequest):
        return "wish"
    if isinstance(frame, Append):
        return "log" if frame.entries else ""
    if isinstance(frame, Feed):
        return "feed" if frame.records else ""
    return "report" if isinstance(frame, Fed) and frame.closed else ""


def _is_close(item: Any) -> bool:
    """On a tree a batch is sent with its place, by direct protocols without."""
    batch = getattr(getattr(item, "placed", item), "batch", None)
    return batch is not None and batch.incarnation == CLOSING


def _delay_before(found: SimResult) -> float:
    """Mean delay of what was delivered before the change."""
    sent = {row.id: row.sent_ns for row in found.history.sent}
    delays = [
        row.delivered_ns - sent[row.id]
        for row in found.history.deliveries
        if row.delivered_ns < ASKED and row.id in sent
    ]
    return fmean(delays) / MILLISECOND if delays else 0.0


def closed_and_opened(before: Sequence[Structure], after: Sequence[Structure]) -> tuple[int, float]:
    """Messages, and milliseconds until every site has both: the manager, an outside process, sends
    a Close to each old root and behind it an Open to each new one; a site hands each on to its
    children, one after the other, and the Open only when it has closed."""
    old, new = _children(before), _children(after)
    free: dict[Site | None, float] = {}
    closed: dict[Site | None, float] = {None: 0.0}
    waiting: list[Site | None] = [None]
    for place in waiting:  # grows while it is read
        at = closed[place]
        for child in old.get(place, ()):
            at += P_MS
            closed[child] = at + L_MS
            waiting.append(child)
        free[place] = at
    opened: dict[Site | None, float] = {None: 0.0}
    waiting = [None]
    for place in waiting:
        at = max(opened[place], closed.get(place, 0.0), free.get(place, 0.0))
        for child in new.get(place, ()):
            at += P_MS
            opened[child] = at + L_MS
            waiting.append(child)
    last = max(max(at, closed.get(site, 0.0)) for site, at in opened.items())
    return len(closed) - 1 + len(opened) - 1, last


def _children(structures: Sequence[Structure]) -> dict[Site | None, list[Site]]:
    found: dict[Site | None, list[Site]] = {}
    for each in structures:
        engaged = _engaged(each)
        for site, parent in each.forest.parent.items():
            if site in engaged:
                found.setdefault(parent, []).append(site)
    return found


def _engaged(structure: Structure) -> dict[Site, None]:
    """The sites that are in a group: a site in none has no place in the paper's trees."""
    return dict.fromkeys(site for members in structure.groups.values() for site in members)


def committed(sites: int) -> tuple[int, float]:
    """Two-phase commit: the manager asks each site, hears each, and tells each."""
    return 3 * sites, 3 * L_MS + (2 * sites + 1) * P_MS
