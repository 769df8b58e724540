"""`python -m tools.timeline`: run three sites, and draw what they say to each other.

The runs are real: members of the core under a small driver of virtual time. A frame takes 1 ms,
the disk takes no time. Writes docs/images/epochs.svg and docs/images/stability.svg, and prints the
runs as docs/epochs.md and docs/stability.md show them. A test holds pictures and pages to the code.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from html import escape
from itertools import count, groupby
from pathlib import Path
from typing import Any, NamedTuple

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import EpochOpened, MemberBox
from ordercast.model.epochs import JoinGroup
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, DeliveredBatch, payloads_of
from ordercast.model.options import MILLISECOND, NEVER, SECOND, Options
from ordercast.sim.members import build_forest
from ordercast.wire.epochs import ChangeRequest, Fed, Feed, InEpoch
from ordercast.wire.frames import Data, DurableCounts, Relay
from ordercast.wire.stability import RoundAck, RoundInfo
from ordercast.wire.voting import Append

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SITES = ("a", "b", "c")
BEGIN = SECOND  # of what is shown: the voters have found each other


class Event(NamedTuple):
    """What a site does; with a `peer`, a frame that leaves for it."""

    at: int
    site: Site
    peer: Site
    text: str


class Run:
    """State: the members, a heap of calls, and what has happened so far."""

    def __init__(self, groups: dict[Group, tuple[Site, ...]], options: Options) -> None:
        layout = first_layout(SITES, SITES, groups, "greedy", "propagation", build_forest)
        self.members = {
            site: Member(site, layout, options, build_forest, store=number)
            for number, site in enumerate(SITES, start=1)
        }
        self.events: list[Event] = []
        self._heap: list[tuple[int, int, Site, Callable[[int], object]]] = []
        self._tick = count().__next__
        self._alarms = dict.fromkeys(SITES, NEVER)
        for site, member in self.members.items():
            self._push(0, site, member.start)

    def sends(self, at: int, site: Site, payload: str) -> None:
        def call(now: int) -> None:
            self.events.append(Event(now, site, "", f"sends {payload}"))
            self.members[site].submit(now, "alpha", [payload.encode()])

        self._push(BEGIN + at, site, call)

    def joins(self, at: int, site: Site) -> None:
        def call(now: int) -> None:
            self.events.append(Event(now, site, "", "asks to join"))
            self.members[site].ask(now, f"{site} joins", (JoinGroup("alpha", site),))

        self._push(BEGIN + at, site, call)

    def until(self, end: int) -> list[Event]:
        while self._heap and self._heap[0][0] <= BEGIN + end:
            now, _, site, call = heappop(self._heap)
            call(now)
            self._do(now, site, self.members[site].drain())
        return [event._replace(at=event.at - BEGIN) for event in self.events if event.at >= BEGIN]

    def _push(self, at: int, site: Site, call: Callable[[int], object]) -> None:
        heappush(self._heap, (at, self._tick(), site, call))

    def _do(self, now: int, site: Site, box: MemberBox) -> None:
        """The duties of a driver. What is to be written is durable at once."""
        for peer, frame in (*box.send, *box.then_send):
            self._push(now + MILLISECOND, peer, self._arrival(site, peer, frame))
            event = Event(now, site, peer, in_words(frame))
            if event.text and event not in self.events:  # said twice at once: shown once
                self.events.append(event)
        if box.counted:
            self.members[site].stored(box.counted)
        for item in box.deliver:
            self.events.append(Event(now, site, "", _delivery(item)))
        for receipt in box.receipts:
            if receipt.stage == "stable":
                self.events.append(Event(now, site, "", f"m{receipt.seq} is stable"))
        alarm = min(box.epochs_alarm, box.voters_alarm)
        if alarm < NEVER and alarm != self._alarms[site]:
            self._alarms[site] = alarm
            self._push(max(now, alarm), site, self._alarm(site, alarm))

    def _arrival(self, site: Site, peer: Site, frame: Any) -> Callable[[int], object]:
        return lambda now: self.members[peer].receive(now, site, frame)

    def _alarm(self, site: Site, alarm: int) -> Callable[[int], object]:
        def call(now: int) -> None:
            if self._alarms[site] == alarm:
                self._alarms[site] = NEVER
                self.members[site].alarm(now)

        return call


def a_change() -> list[Event]:
    """Site c joins a group while messages flow: the example of docs/epochs.md."""
    run = Run({"alpha": ("a", "b")}, Options())
    run.sends(0, "b", "m1")
    run.joins(0, "c")
    run.sends(3 * MILLISECOND, "b", "m2")
    return run.until(11 * MILLISECOND)


def a_round() -> list[Event]:
    """A message becomes stable by rounds of `coordp`: the example of docs/stability.md."""
    run = Run({"alpha": SITES}, Options(stability="coordp"))
    run.sends(0, "b", "m1")
    return run.until(26 * MILLISECOND)


# --- in words -------------------------------------------------------------------------------------


def in_words(frame: Any) -> str:
    """Nothing of acknowledgements, signs of life and what only repeats."""
    match frame:
        case InEpoch(_, Data() as data):
            riding = data.rider.items if data.rider else ()
            return ", ".join(_item(item) for item in (*data.items, *riding))
        case Append() if frame.entries:
            return f"Append({', '.join(type(entry.record).__name__ for entry in frame.entries)})"
        case Feed() if frame.records:
            return f"Feed({', '.join(type(entry.record).__name__ for entry in frame.records)})"
        case Fed() if frame.closed:
            return "Fed(closed)"
        case ChangeRequest():
            return "ChangeRequest"
    return ""


def _item(item: Any) -> str:
    kind = type(item).__name__
    match item:
        case Relay():
            return f"{kind}({_named(item.placed.batch)})"
        case DurableCounts():
            return f"{kind}({', '.join(str(logged) for _, logged, _ in item.counts)})"
        case RoundAck() | RoundInfo():
            told = (
                f"{logged} logged, {settled} settled" for _, logged, settled, _, _ in item.counts
            )
            return f"{kind}({', '.join(told)})"
    return f"{kind}({_named(item.batch)})" if hasattr(item, "batch") else kind


def _named(batch: Batch) -> str:
    own = batch.incarnation  # the Close of an epoch has none
    return ", ".join(payload.decode() for payload in payloads_of(batch)) if own else "Close"


def _delivery(item: Any) -> str:
    if isinstance(item, DeliveredBatch):
        return f"delivers {_named(item.placed.batch)}"
    return f"epoch {item.epoch} opens" if isinstance(item, EpochOpened) else type(item).__name__


def as_text(events: Sequence[Event]) -> list[str]:
    """A line per event; the time stands where it changes."""
    lines, last = [], -1
    for at, site, peer, text in events:
        time = "" if at == last else f"{at // MILLISECOND} ms"
        lines.append(f"{time:>5}  {f'{site} > {peer}' if peer else site:5}  {text}")
        last = at
    return lines


# --- drawn ----------------------------------------------------------------------------------------

_LEFT, _COLUMN, _TOP, _ROW = 150, 360, 56, 66


@dataclass(frozen=True, slots=True)
class _Canvas:
    """Time goes down, one row for each time at which something happens."""

    rows: dict[int, int]

    def x(self, site: Site) -> float:
        return _LEFT + SITES.index(site) * _COLUMN

    def y(self, at: int) -> float:
        return _TOP + _ROW * self.rows[at]


def picture(title: str, events: Sequence[Event]) -> str:
    arrivals = {event.at + MILLISECOND for event in events if event.peer}
    times = sorted({event.at for event in events} | arrivals)
    canvas = _Canvas({at: row for row, at in enumerate(times)})
    width, height = _LEFT * 2 + 2 * _COLUMN, _TOP + _ROW * len(times)
    frames = list(_together([event for event in events if event.peer]))
    marks = [event for event in events if not event.peer]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#1b2733">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#4a6a8f"/>'
            "</marker></defs>",
            *_lines(canvas, times, height),
            *(_arrow(canvas, frame) for frame in frames),
            *(line for frame in frames for line in _label(canvas, frame)),
            *_marks(canvas, marks),
            "</svg>",
            "",
        ]
    )


def _together(frames: Sequence[Event]) -> Iterator[Event]:
    """What leaves a site for the same other at the same time is one arrow."""
    ordered = sorted(frames, key=lambda event: event[:3])
    for (at, site, peer), same in groupby(ordered, key=lambda event: event[:3]):
        yield Event(at, site, peer, ", ".join(dict.fromkeys(event.text for event in same)))


def _lines(canvas: _Canvas, times: Sequence[int], height: float) -> Iterator[str]:
    for site in SITES:
        x = canvas.x(site)
        yield f'<path d="M{x} 30V{height - 12}" stroke="#b7c4d3" stroke-width="2"/>'
        yield (
            f'<text x="{x}" y="20" text-anchor="middle" font-weight="bold" font-size="14">'
            f"site {site}</text>"
        )
    for before, at in zip([None, *times[:-1]], times, strict=True):
        y = canvas.y(at)
        yield f'<text x="10" y="{y + 4}" fill="#5c6b7a">{at // MILLISECOND} ms</text>'
        if before is not None and at - before > MILLISECOND:
            yield (
                f'<path d="M10 {y - 14}H{_LEFT * 2 + 2 * _COLUMN - 10}" stroke="#b7c4d3"'
                ' stroke-dasharray="4 4"/>'
            )


def _arrow(canvas: _Canvas, frame: Event) -> str:
    x1, x2 = canvas.x(frame.site), canvas.x(frame.peer)
    y1, y2 = canvas.y(frame.at), canvas.y(frame.at + MILLISECOND)
    return (
        f'<path d="M{x1} {y1}L{x2} {y2 - 3}" stroke="#4a6a8f" stroke-width="1.3"'
        ' marker-end="url(#tip)"/>'
    )


def _label(canvas: _Canvas, frame: Event) -> Iterator[str]:
    """Beside its arrow, where other arrows of the same time leave room."""
    x1, x2 = canvas.x(frame.site), canvas.x(frame.peer)
    right, far = x2 > x1, abs(x2 - x1) > _COLUMN
    share = (0.76 if right else 0.24) if far else (0.32 if right else 0.4)
    above = far or (frame.site, frame.peer) == ("b", "a")
    x, y = x1 + (x2 - x1) * share, canvas.y(frame.at) + _ROW * share + (-5 if above else 13)
    for stroke in (' stroke="#ffffff" stroke-width="4"', ""):  # the first keeps lines away
        yield (
            f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="11"{stroke}>'
            f"{escape(frame.text)}</text>"
        )


def _marks(canvas: _Canvas, marks: Sequence[Event]) -> Iterator[str]:
    for (at, site), same in groupby(sorted(marks), key=lambda event: event[:2]):
        text = ", ".join(dict.fromkeys(event.text for event in same))
        x, y, width = canvas.x(site), canvas.y(at), 6.2 * len(text) + 14
        yield (
            f'<rect x="{x - width / 2:.0f}" y="{y - 10}" width="{width:.0f}" height="20" rx="10"'
            ' fill="#fdf3d8" stroke="#c9a84a"/>'
        )
        yield f'<text x="{x}" y="{y + 4}" text-anchor="middle">{escape(text)}</text>'


PICTURES: dict[str, tuple[str, Callable[[], list[Event]]]] = {
    "epochs.svg": ("Site c joins a group while messages flow", a_change),
    "stability.svg": ("A message becomes stable by two rounds of coordp", a_round),
}


def main() -> None:
    for name, (title, run) in PICTURES.items():
        events = run()
        (IMAGES / name).write_text(picture(title, events), encoding="utf-8")
        print(f"{title} (docs/images/{name}):", *as_text(events), "", sep="\n")


if __name__ == "__main__":
    main()
