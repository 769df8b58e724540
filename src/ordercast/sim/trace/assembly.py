"""Traces from what there is: a simulated run with its log of frames, or a history alone."""

from collections.abc import Iterable, Mapping
from typing import Any

from ordercast.history.rows import (
    CRASH,
    EXCLUDED,
    GAP,
    OPEN,
    RESTART,
    RETURNED,
    Event,
    History,
    gap_message,
)
from ordercast.model.groups import Group, Site
from ordercast.sim.driver import is_data
from ordercast.sim.injections import ENDS, Injection
from ordercast.sim.result import SimResult
from ordercast.sim.trace import trace as made
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.sim.trace.trace import EpochShape, Mark, Span, Trace, TraceArrow
from ordercast.wire.epochs import InEpoch

_LASTING = ("partition", "oneway", "slow", "lag", "clog", "cut", "cut_one_way")


def trace_of_run(result: SimResult, log: FrameLog) -> Trace:
    history, end = result.history, result.virtual_ns
    marks = _marks(history)
    marks += [Mark(at, site, made.CLOSE, epoch) for at, site, epoch in log.closes]
    spans = [*_absences(history.events, end), *_faults(log, end), *_closings(log, history, end)]
    down = [span for span in spans if span.kind == made.DOWN]
    arrows = [
        TraceArrow(sent, source, peer, -1 if _is_down(down, peer, at) else at, _kind(frame), frame)
        for sent, source, peer, at, frame in log.frames
    ]
    notes = []
    if log.unlogged:
        kept, more = len(log.frames), log.unlogged
        notes.append(f"only the first {kept:,} frames are kept; {more:,} came after them")
    return Trace(
        title=f"{result.protocol} on a {result.builder} forest, seed {result.seed}",
        clock="virtual",
        start=0,
        end=end,
        sites=_sites(history),
        arrows=sorted(arrows, key=lambda arrow: arrow.sent),
        marks=_in_order(marks),
        spans=spans,
        epochs=_shapes(history, log),
        command=result.replay,
        notes=notes,
        violations=[violation._asdict() for violation in result.violations],
    )


def trace_of_history(history: History, title: str) -> Trace:
    """Clocks of real sites differ, so an arrow may seem to arrive before it left: it is drawn as
    arriving at once."""
    marks = _marks(history)
    sent = {row.id: row for row in history.sent}
    arrows = [
        TraceArrow(
            sent[row.id].sent_ns, row.origin, row.site,
            max(sent[row.id].sent_ns, row.delivered_ns), made.DELIVERY, None, row.id,
        )
        for row in history.deliveries
        if row.id in sent and row.site != row.origin
    ]  # fmt: skip
    times = [mark.at for mark in marks if mark.at]
    end = max(times, default=0)
    notes = ["a history has no frames: an arrow goes from a send to a delivery"]
    if history.meta.clock != "virtual":
        notes.append("times are those of the sites' own clocks")
    return Trace(
        title=title,
        clock=history.meta.clock,
        start=min(times, default=0),
        end=end,
        sites=_sites(history),
        arrows=sorted(arrows, key=lambda arrow: arrow.sent),
        marks=_in_order(marks),
        spans=_absences(history.events, end),
        epochs=_shapes(history, None),
        command=str(history.meta.config.get("command", "")),
        notes=notes,
    )


def _sites(history: History) -> tuple[Site, ...]:
    named = {row.site for row in history.groups} | {row.site for row in history.events}
    named |= {row.site for row in history.deliveries} | {row.origin for row in history.sent}
    return tuple(sorted(named))


def _marks(history: History) -> list[Mark]:
    marks = [Mark(row.sent_ns, row.origin, made.SEND, 0, row.id) for row in history.sent]
    marks += [
        Mark(row.delivered_ns, row.site, made.DELIVER, row.epoch, row.id, row.position, row.attempt)
        for row in history.deliveries
    ]
    for event in history.events:
        message = gap_message(event) if event.kind == GAP else None
        marks.append(
            Mark(
                event.at_ns, event.site, event.kind, event.epoch, message, event.position,
                event.attempt,
            )
        )  # fmt: skip
    return marks


def _in_order(marks: Iterable[Mark]) -> list[Mark]:
    """By time; at one time sends first, then a site's deliveries by position."""
    return sorted(
        marks, key=lambda mark: (mark.at, mark.kind != made.SEND, mark.attempt, mark.position)
    )


def _kind(frame: Any) -> str:
    if type(frame) is not InEpoch:
        return made.VOTING
    return made.DATA if is_data(frame) else made.CONTROL


def _absences(events: Iterable[Event], end: int) -> list[Span]:
    """When sites were down, and when they were excluded."""
    spans: list[Span] = []
    for begins, ends, kind in (
        (CRASH, RESTART, made.DOWN),
        (EXCLUDED, RETURNED, made.EXCLUDED),
    ):
        since: dict[Site, int] = {}
        for event in sorted(events, key=lambda event: (event.at_ns, event.n)):
            if event.kind == begins:
                since.setdefault(event.site, event.at_ns)
            elif event.kind == ends and event.site in since:
                spans.append(Span(since.pop(event.site), event.at_ns, kind, (event.site,)))
        spans += [Span(at, end, kind, (site,)) for site, at in since.items()]
    return spans


def _is_down(down: Iterable[Span], site: Site, at: int) -> bool:
    return any(site in span.sites and span.start <= at < span.stop for span in down)


def _faults(log: FrameLog, end: int) -> list[Span]:
    spans: list[Span] = []
    begun: dict[tuple[str, tuple[Site, ...], tuple[Site, ...]], int] = {}
    calm = min(end, log.calm_at or end)
    begins = {over: kind for kind, over in ENDS.items()}
    for now, injection in log.injections:
        kind, sites, others = injection.kind, injection.sites, injection.others
        if kind in begins:
            start = begun.pop((begins[kind], sites, others), None)
            if start is not None:
                spans.append(Span(start, now, _name(begins[kind]), sites, others))
        elif kind == "pause" or kind in _LASTING:
            if kind in ENDS:
                begun.setdefault((kind, sites, others), now)
            else:
                spans.append(Span(now, _until(injection, calm, end), kind, sites, others))
    spans += [Span(at, calm, _name(kind), *ends) for (kind, *ends), at in begun.items()]
    return spans


def _name(kind: str) -> str:
    return made.PAUSED if kind == "pause" else kind


def _until(injection: Injection, calm: int, end: int) -> int:
    return min(injection.until, calm) if injection.kind == "clog" else end


def _closings(log: FrameLog, history: History, end: int) -> list[Span]:
    """From a site's Close to its next Open."""
    spans = []
    opened: dict[Site, list[int]] = {}
    for event in history.events:
        if event.kind == OPEN:
            opened.setdefault(event.site, []).append(event.at_ns)
    for at, site, _ in log.closes:
        stop = min((one for one in opened.get(site, ()) if one >= at), default=end)
        spans.append(Span(at, stop, made.CLOSING, (site,)))
    return spans


def _shapes(history: History, log: FrameLog | None) -> list[EpochShape]:
    first: dict[int, int] = {}
    for event in history.events:
        if event.kind == OPEN:
            first[event.epoch] = min(event.at_ns, first.get(event.epoch, event.at_ns))
    shapes = []
    for row in {row.epoch: row for row in history.epochs}.values():
        known = log.structures.get(row.epoch) if log else None
        begun = row.decided_ns if log is None or row.reason == "start" else 0
        shapes.append(
            EpochShape(
                row.epoch,
                first.get(row.epoch, begun),
                row.protocol,
                row.reason,
                _groups(history, row.epoch),
                _parents(history, row.epoch) if known is None else dict(known.forest.parent),
                {} if known is None else dict(known.forest.primary),
            )
        )
    return sorted(shapes)


def _groups(history: History, epoch: int) -> dict[Group, tuple[Site, ...]]:
    found: dict[Group, list[Site]] = {}
    for row in history.groups:
        if row.epoch == epoch and row.live:
            found.setdefault(row.group_name, []).append(row.site)
    return {group: tuple(sites) for group, sites in found.items()}


def _parents(history: History, epoch: int) -> Mapping[Site, None]:
    """No forest is known: every site of the epoch stands alone."""
    return dict.fromkeys(sorted({row.site for row in history.groups if row.epoch == epoch}))
