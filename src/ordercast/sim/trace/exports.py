"""A trace for other programs, and as a picture: Perfetto's JSON, ShiViz's log, SVG."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.messages import MessageId
from ordercast.sim.trace import trace as made
from ordercast.sim.trace.space_time import TraceView, draw_trace
from ordercast.sim.trace.trace import Trace, TraceArrow

_MOST_DRAWN = 40  # times as long as a frame takes: the window of a picture, if nothing went wrong
_WIDTH = 1600


def perfetto(trace: Trace) -> str:
    """The JSON that ui.perfetto.dev and chrome://tracing open. A site is a process; frames are
    flows; times are microseconds."""
    pids = {site: number for number, site in enumerate(trace.sites, start=1)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": site}}
        for site, pid in pids.items()
    ]
    for span in trace.spans:
        for site in span.sites:
            told = {"with": ", ".join(span.others)} if span.others else {}
            events.append(_slice(span.kind, pids[site], 2, trace, span.start, span.stop, told))
    for mark in trace.marks:
        pid, at = pids[mark.site], _us(trace, mark.at)
        args = {"epoch": mark.epoch, "position": mark.position}
        events.append(
            {"ph": "i", "s": "t", "name": mark.words(), "pid": pid, "tid": 1, "ts": at,
             "args": args}
        )  # fmt: skip
    for number, arrow in enumerate(trace.arrows, start=1):
        events += _flow(number, arrow, pids, trace)
    head = {"displayTimeUnit": "ms", "otherData": {"title": trace.title, "replay": trace.command}}
    return json.dumps({**head, "traceEvents": events}, separators=(",", ":")) + "\n"


def _us(trace: Trace, at: int) -> float:
    return (at - trace.start) / 1e3


def _slice(
    name: str, pid: int, tid: int, trace: Trace, start: int, stop: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "pid": pid, "tid": tid, "ts": _us(trace, start),
        "dur": max(1.0, (stop - start) / 1e3), "args": args,
    }  # fmt: skip


def _flow(number: int, arrow: TraceArrow, pids: dict[Site, int], trace: Trace) -> Iterator[Any]:
    name = arrow.words() or type(arrow.frame).__name__
    lost = arrow.arrives < 0
    sent = {"to": arrow.peer, **({"lost": True} if lost else {})}
    source, peer = pids[arrow.source], pids[arrow.peer]
    yield _slice(name, source, 3, trace, arrow.sent, arrow.sent, sent)
    if lost:
        return
    yield _slice(name, peer, 3, trace, arrow.arrives, arrow.arrives, {"from": arrow.source})
    same = {"name": "frame", "cat": arrow.kind, "id": number}
    yield {"ph": "s", **same, "pid": source, "tid": 3, "ts": _us(trace, arrow.sent)}
    yield {"ph": "f", "bp": "e", **same, "pid": peer, "tid": 3, "ts": _us(trace, arrow.arrives)}


def shiviz(trace: Trace) -> Iterator[str]:
    """Two lines for each event: the site with its vector clock, then what happened. Frames that say
    nothing are left out, or the log would be nothing else."""
    clocks: dict[Site, dict[Site, int]] = {site: {} for site in trace.sites}
    sent: dict[int, dict[Site, int]] = {}
    events: list[tuple[int, int, int, Site, str]] = []
    for number, mark in enumerate(trace.marks):
        events.append((mark.at, 1, number, mark.site, mark.words()))
    for number, arrow in enumerate(trace.arrows):
        if arrow.speaks():
            events.append(
                (arrow.sent, 2, number, arrow.source, f"to {arrow.peer}: {arrow.words()}")
            )
            if arrow.arrives >= 0:
                told = f"from {arrow.source}: {arrow.words()}"
                events.append((max(arrow.arrives, arrow.sent), 3, number, arrow.peer, told))
    for at, order, number, site, told in sorted(events):
        clock = clocks[site]
        if order == 3:
            for other, count in sent[number].items():
                clock[other] = max(count, clock.get(other, 0))
        clock[site] = clock.get(site, 0) + 1
        if order == 2:
            sent[number] = dict(clock)
        yield f"{site} {json.dumps(dict(sorted(clock.items())))}"
        yield f"{told} ({(at - trace.start) / 1e6:.3f} ms)"


def telling_window(trace: Trace) -> TraceView:
    """The part of a trace that is worth a picture: around the first violation, if it names a time
    or messages; otherwise the beginning."""
    times, about = _points(trace)
    middle = max(times) if times else trace.start
    flights = sorted(
        a.arrives - a.sent for a in trace.arrows if a.kind == made.DATA and a.arrives > 0
    )
    usual = flights[len(flights) // 2] if flights else 1_000_000
    wide = max(_MOST_DRAWN * usual, (max(times) - min(times)) * 5 // 4 if times else 0)
    start = max(trace.start, middle - wide * 4 // 5 if times else trace.start)
    return TraceView(start, min(trace.end, start + wide), _WIDTH, follow=about)


def _points(trace: Trace) -> tuple[list[int], MessageId | None]:
    if not trace.violations:
        return [], None
    witness = trace.violations[0].get("witness", {})
    named = witness.get("messages") or [witness[k] for k in ("message",) if k in witness]
    found = [_message(one) for one in named if isinstance(one, list | tuple)]
    about = [message for message in found if message is not None and trace.known(message)]
    times = [mark.at for message in about for mark in trace.journey(message)[0]]
    if isinstance(witness.get("at_ns"), int):
        times.append(witness["at_ns"])
    return times, (about[0] if about else None)


def _message(named: Any) -> MessageId | None:
    right = len(named) == 4 and isinstance(named[1], int) and isinstance(named[3], int)
    return MessageId(*named) if right else None


ENDINGS = (".json", ".log", ".svg")


def require_writable(path: str, option: str) -> None:
    """Say before a run what would stand in the way of its trace."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise ConfigError(f"{option} {path}: there is no directory {str(folder)!r}")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{option} {path}: the directory {str(folder)!r} is not writable")


def write_trace(trace: Trace, path: str) -> list[Path]:
    """One file by its ending: .json for Perfetto, .log for ShiViz, .svg. Without such an ending all
    three, beside each other."""
    target = Path(path)
    wanted = [target] if target.suffix in ENDINGS else [Path(f"{path}{end}") for end in ENDINGS]
    for file in wanted:
        try:
            file.write_text(_text(trace, file.suffix), encoding="utf-8")
        except OSError as error:
            told = (error.strerror or str(error)).lower()
            raise ConfigError(f"--trace {file}: {told}") from None
    return wanted


def _text(trace: Trace, ending: str) -> str:
    if ending == ".json":
        return perfetto(trace)
    if ending == ".log":
        return "".join(f"{line}\n" for line in shiviz(trace))
    return draw_trace(trace, telling_window(trace)).svg + "\n"
