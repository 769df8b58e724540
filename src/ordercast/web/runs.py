"""The runs that the Replay page shows, and their answers to its questions.

Times that a page sees are nanoseconds since the beginning of a run: a browser's numbers are not
large enough for those since 1970.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from ordercast.check.report import check_history
from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.sim.config import SimConfig
from ordercast.sim.simulate import simulate
from ordercast.sim.trace import trace as made
from ordercast.sim.trace.assembly import trace_of_run
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.sim.trace.space_time import TraceView, draw_trace, message_key, parse_message
from ordercast.sim.trace.trace import EpochShape, Trace
from ordercast.web.answers import number_of
from ordercast.web.forest_picture import ForestShape, draw_forest
from ordercast.web.witness_picture import draw_witness, explain

MOST_RUNS = 12
MOST_EVENTS = 3_000_000
MOST_MESSAGES = 100_000
_WIDTHS = (240, 4000)
_SHOWN_FIRST = 50
_EVERY_KIND = (made.DATA, made.CONTROL, made.DELIVERY)

Query: TypeAlias = Mapping[str, str]
ParseLine: TypeAlias = Callable[[str], tuple[SimConfig, int]]


def run_config(
    config: SimConfig, seed: int, progress: Callable[[int, int], None] | None = None
) -> tuple[Trace, History]:
    """`progress`: as for `simulate`."""
    log = FrameLog()
    result = simulate(config, seed, log=log, progress=progress)
    return trace_of_run(result, log), result.history


def bounded(config: SimConfig) -> SimConfig:
    """The same, unless it is too long for a page."""
    if config.messages > MOST_MESSAGES:
        raise ConfigError(
            f"messages: {config.messages:,} are too many for the page ({MOST_MESSAGES:,} at most)"
        )
    most = MOST_EVENTS if config.most_events is None else min(config.most_events, MOST_EVENTS)
    return replace(config, most_events=most)


class Runs:
    """State: the last runs, by number. The first ones are those of the command line, and stay."""

    def __init__(self) -> None:
        self._traces: dict[int, Trace] = {}
        self._histories: dict[int, History] = {}
        self._kept = 0
        self._last = 0

    def add(self, trace: Trace, history: History, *, keep: bool = False) -> int:
        self._last += 1
        self._traces[self._last] = trace
        self._histories[self._last] = history
        if keep:
            self._kept = self._last
        dropped = [number for number in self._traces if number > self._kept][: -MOST_RUNS or None]
        for number in dropped:
            del self._traces[number]
            del self._histories[number]
        return self._last

    def listed(self) -> list[dict[str, Any]]:
        return [{"run": n, "title": trace.title} for n, trace in self._traces.items()]

    def trace(self, number: int) -> Trace:
        if number not in self._traces:
            raise ConfigError(f"there is no run {number} any more")
        return self._traces[number]

    def history(self, number: int) -> History:
        self.trace(number)
        return self._histories[number]


def facts_of(trace: Trace) -> dict[str, Any]:
    sent = sum(mark.kind == made.SEND for mark in trace.marks)
    delivered = sum(mark.kind == made.DELIVER for mark in trace.marks)
    return {
        "title": trace.title,
        "command": trace.command,
        "clock": trace.clock,
        "begun_ns": str(trace.start),
        "length": trace.end - trace.start,
        "sites": list(trace.sites),
        "sent": sent,
        "delivered": delivered,
        "arrows": len(trace.arrows),
        "window": _first_window(trace),
        "notes": trace.notes,
        "forest": any(shape.primary for shape in trace.epochs),
        "violations": [dict(violation) for violation in trace.violations],
        "epochs": [_epoch(trace, shape) for shape in trace.epochs],
    }


def _first_window(trace: Trace) -> int:
    """How much of the run is shown at first: some fifty events, and not less than a millisecond."""
    shown = trace.marks[:_SHOWN_FIRST]
    return max(1_000_000, shown[-1].at - trace.start if shown else 0)


def _epoch(trace: Trace, shape: EpochShape) -> dict[str, Any]:
    return {
        "epoch": shape.epoch,
        "at": max(0, shape.at - trace.start),
        "protocol": shape.protocol,
        "reason": shape.reason,
    }


def picture_of(trace: Trace, query: Query) -> dict[str, Any]:
    start = number_of(query, "start", 0, trace.end - trace.start)
    stop = number_of(query, "stop", start + 1, 1 << 62)
    kinds = [*_EVERY_KIND, *([made.VOTING] if query.get("voting") == "1" else [])]
    view = TraceView(
        trace.start + start,
        trace.start + stop,
        number_of(query, "width", *_WIDTHS),
        kinds,
        parse_message(query["follow"]) if query.get("follow") else None,
        quiet=query.get("quiet") == "1",
    )
    picture = draw_trace(trace, view, alone=False)
    return picture._asdict()


def state_of(trace: Trace, query: Query) -> dict[str, Any]:
    at = trace.start + number_of(query, "at", 0, trace.end - trace.start)
    before, after = trace.neighbours(at)
    return {
        "sites": [
            {**state._asdict(), "last": message_key(state.last) if state.last else None}
            for state in trace.states(at)
        ],
        "before": None if before is None else before - trace.start,
        "after": None if after is None else after - trace.start,
        "epochs": [shape.epoch for shape in trace.epochs_at(at)],
        "spans": [
            f"{span.kind}: {', '.join(span.sites)} | {', '.join(span.others)}"
            for span in trace.spans_between(at, at)
            if span.others
        ],
    }


def forest_of(trace: Trace, query: Query) -> dict[str, Any]:
    at = trace.start + number_of(query, "at", 0, trace.end - trace.start)
    shapes = trace.epochs_at(at)
    parent = {site: above for shape in shapes for site, above in shape.parent.items()}
    groups = {group: members for shape in shapes for group, members in shape.groups.items()}
    primary = {group: site for shape in shapes for group, site in shape.primary.items()}
    return {"svg": draw_forest(ForestShape(parent, groups, primary)) if parent else ""}


def journey_of(trace: Trace, query: Query) -> dict[str, Any]:
    """Where a message was sent, over which links it went, and where it was delivered."""
    message = parse_message(query.get("message", ""))
    if message is None or not trace.known(message):
        raise ConfigError(f"there is no message {query.get('message', '')!r} in this run")
    marks, arrows = trace.journey(message)
    steps: list[dict[str, Any]] = [
        {
            "at": mark.at - trace.start,
            "kind": mark.kind,
            "site": mark.site,
            "position": mark.position,
            "attempt": mark.attempt,
            "epoch": mark.epoch,
        }
        for mark in marks
    ]
    steps += [
        {
            "at": arrow.sent - trace.start,
            "kind": "frame",
            "site": arrow.source,
            "peer": arrow.peer,
            "arrives": None if arrow.arrives < 0 else arrow.arrives - trace.start,
            "words": arrow.words(),
        }
        for arrow in arrows
        if arrow.kind != made.DELIVERY
    ]
    steps.sort(key=lambda step: (step["at"], step["kind"] != made.SEND))
    return {"message": message_key(message), "steps": steps}


def witnesses_of(trace: Trace, history: History, *, causal: bool) -> dict[str, Any]:
    """The verdict of every check, with a picture of each witness; and what else a run of the
    simulator found."""
    found = check_history(history, causal=causal).as_json()
    known = found["witnesses"]
    return {
        "title": trace.title,
        "report": found,
        "pictures": [
            {"check": name, "told": explain(name, each), "witness": each,
             "svg": draw_witness(name, each, history, alone=False)}
            for name, each in known.items()
        ],
        "besides": [dict(each) for each in trace.violations if each["check"] not in known],
    }  # fmt: skip
