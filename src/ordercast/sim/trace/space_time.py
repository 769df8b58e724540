"""The space–time diagram: a line for each site, time to the right, an arrow for each frame.

A picture of a busy window shows a sample of the arrows, and says so.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ordercast.model.groups import Site
from ordercast.model.messages import MessageId
from ordercast.plan.colours import PALETTE
from ordercast.plan.svg import drawing, tag, title, words
from ordercast.sim.trace import trace as made
from ordercast.sim.trace.trace import Mark, Span, Trace, TraceArrow

MOST_ARROWS = 1200
MOST_MARKS = 3000
_TOP, _BOTTOM, _LANE, _RIGHT = 30, 10, 16, 14
_LETTER = 7.0  # pixels, about
_SITE_STATES = (made.DOWN, made.PAUSED, made.EXCLUDED, made.CLOSING, "slow", "lag")
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))

STYLE = """\
.st-paper{fill:var(--paper,#fff)}
.st-label,.st-time,.st-note,.st-lane-words{fill:var(--ink,#1b2733);font:12px system-ui,sans-serif}
.st-time,.st-note,.st-lane-words{fill:var(--quiet,#5c6b7a);font-size:11px}
.st-grid{stroke:var(--line,#e3e8ee)}
.st-life{stroke:var(--life,#aab8c8);stroke-width:1.5}
.st-span{opacity:.55}
.st-down{fill:var(--bad,#c0392b);opacity:.3}
.st-paused,.st-slow,.st-lag{fill:var(--quiet,#5c6b7a);opacity:.25}
.st-excluded{fill:var(--warn,#b9770e);opacity:.28}
.st-closing{fill:var(--accent,#2c6fb3);opacity:.22}
.st-lane{fill:var(--warn,#b9770e);opacity:.25}
.st-arrow{stroke:var(--data,#2c6fb3);stroke-width:1.1;opacity:.75;fill:none}
.st-arrow.control{stroke:var(--quiet,#5c6b7a);opacity:.5}
.st-arrow.voting{stroke:var(--vote,#8e5fb0);opacity:.5;stroke-dasharray:4 3}
.st-arrow.lost{stroke:var(--bad,#c0392b);stroke-dasharray:3 3}
.st-head{fill:var(--data,#2c6fb3)}
.st-head.control{fill:var(--quiet,#5c6b7a)}
.st-head.voting{fill:var(--vote,#8e5fb0)}
.st-cross,.st-crash{stroke:var(--bad,#c0392b);stroke-width:2;fill:none}
.st-send{fill:var(--paper,#fff);stroke:var(--ink,#1b2733);stroke-width:1.3}
.st-deliver{stroke:var(--paper,#fff);stroke-width:.8}
.st-open{stroke:var(--good,#1e8449);stroke-width:2.5}
.st-close{stroke:var(--accent,#2c6fb3);stroke-width:2.5}
.st-restart{fill:var(--good,#1e8449)}
.st-other{fill:var(--warn,#b9770e)}
.st-follows .st-arrow,.st-follows .st-head,.st-follows .st-deliver,.st-follows .st-send{opacity:.12}
.st-follows .followed{opacity:1}
.st-follows .st-arrow.followed{stroke-width:2.2}
""" + "".join(f".st-group-{i}{{fill:{colour}}}\n" for i, colour in enumerate(PALETTE))
STANDALONE = STYLE + (
    "@media (prefers-color-scheme:dark){svg{--paper:#12181f;--ink:#dfe7ef;--quiet:#93a3b3;"
    "--line:#232d37;--life:#4a5968;--data:#6cb0ee;--accent:#6cb0ee;--bad:#f1948a;--warn:#e5b25d;"
    "--good:#6fcf97;--vote:#c39be0}}"
)


class TraceView(NamedTuple):
    """Which part of a trace is drawn, and how. `kinds`: of arrows."""

    start: int
    stop: int
    width: int = 1200
    kinds: Collection[str] = (made.DATA, made.CONTROL, made.DELIVERY)
    follow: MessageId | None = None
    most: int = MOST_ARROWS
    quiet: bool = False  # also arrows that say nothing: acknowledgements and signs of life


class TracePicture(NamedTuple):
    """`shown` of the `found` arrows are drawn. Times become x by `left` and `right`."""

    svg: str
    shown: int
    found: int
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class _Canvas:
    view: TraceView
    rows: dict[Site, float]
    left: float
    right: float

    def x(self, at: int) -> float:
        span = max(1, self.view.stop - self.view.start)
        return self.left + (self.right - self.left) * ((at - self.view.start) / span)

    def within(self, at: int) -> float:
        return min(self.right, max(self.left, self.x(at)))


def draw_trace(trace: Trace, view: TraceView, *, alone: bool = True) -> TracePicture:
    """`alone`: the picture brings its own style, for a file."""
    lanes = [span for span in trace.spans_between(view.start, view.stop) if span.others]
    lanes = lanes[:6]
    row = 34 if len(trace.sites) <= 16 else 20 if len(trace.sites) <= 40 else 11
    top = _TOP + _LANE * len(lanes) + 12
    longest = max((len(site) for site in trace.sites), default=1)
    left = min(130.0, 22 + _LETTER * longest)
    rows = {site: float(top + row * i) for i, site in enumerate(trace.sites)}
    height = top + row * max(1, len(rows)) + _BOTTOM
    canvas = _Canvas(view, rows, left, float(view.width - _RIGHT))
    found = _wanted(trace, view)
    sample = _sampled(found, view)
    marks = _few(trace.marks_between(view.start, view.stop))
    groups = {group: i for i, group in enumerate(_groups(trace))}
    body = [
        tag("rect", class_="st-paper", width=view.width, height=height),
        *_axis(trace, canvas, height),
        *_lanes(canvas, lanes),
        *_lives(trace, canvas, row),
        tag(
            "clipPath",
            tag(
                "rect",
                x=canvas.left - 6,
                y=0,
                width=canvas.right - canvas.left + 12,
                height=height,
            ),
            id="st-clip",
        ),
        tag(
            "g",
            *(part for arrow in sample for part in _arrow(canvas, arrow)),
            *(_mark(canvas, mark, groups) for mark in marks),
            clip_path="url(#st-clip)",
        ),
    ]
    follows = "st-follows" if view.follow else "st-plain"
    told = f"{trace.title}: {_time(view.start - trace.start)} to {_time(view.stop - trace.start)}"
    if len(sample) < len(found):
        note = f"{len(sample):,} of {len(found):,} arrows are drawn"
        told += f"; {note}"
        if alone:
            body.append(words(note, canvas.right, 12, class_="st-note", text_anchor="end"))
    svg = drawing(
        view.width, height, tag("g", *body, class_=follows), label=told,
        style=STANDALONE if alone else "",
    )  # fmt: skip
    return TracePicture(svg, len(sample), len(found), canvas.left, canvas.right)


def _wanted(trace: Trace, view: TraceView) -> list[TraceArrow]:
    return [
        arrow
        for arrow in trace.arrows_between(view.start, view.stop)
        if arrow.kind in view.kinds and (view.quiet or arrow.speaks())
    ]


def _sampled(found: Sequence[TraceArrow], view: TraceView) -> list[TraceArrow]:
    """An even choice; arrows of the message that is followed are always in it."""
    if len(found) <= view.most:
        return list(found)
    step = len(found) / view.most
    chosen = {int(i * step) for i in range(view.most)}
    return [
        arrow
        for i, arrow in enumerate(found)
        if i in chosen or (view.follow and view.follow in arrow.messages())
    ]


def _few(marks: Sequence[Mark]) -> list[Mark]:
    if len(marks) <= MOST_MARKS:
        return list(marks)
    step = len(marks) / MOST_MARKS
    chosen = {int(i * step) for i in range(MOST_MARKS)}
    plain = (made.SEND, made.DELIVER)
    return [mark for i, mark in enumerate(marks) if i in chosen or mark.kind not in plain]


def _groups(trace: Trace) -> list[str]:
    return sorted({group for shape in trace.epochs for group in shape.groups})


def _axis(trace: Trace, canvas: _Canvas, height: float) -> Iterator[str]:
    view = canvas.view
    step = _step(view.stop - view.start, (canvas.right - canvas.left) / 90)
    first = -(-(view.start - trace.start) // step) * step + trace.start
    for at in range(first, view.stop + 1, step):
        x = canvas.x(at)
        yield tag("path", class_="st-grid", d=f"M{x:.1f} {_TOP - 8}V{height - 4:.1f}")
        anchor = "end" if x > canvas.right - 24 else "middle"
        yield words(_time(at - trace.start), x, 14, class_="st-time", text_anchor=anchor)


def _step(span: int, labels: float) -> int:
    """1, 2 or 5 times a power of ten."""
    step, factors = 1, (2, 5, 10)
    power = 1
    while span / step > max(2, labels):
        step = next(f * power for f in factors if f * power > step)
        if step >= 10 * power:
            power *= 10
    return step


def _time(nanoseconds: int) -> str:
    size, unit = next((one for one in _UNITS if abs(nanoseconds) >= one[0]), (1_000_000, "ms"))
    return f"{nanoseconds / size:.6g} {unit}"


def _lanes(canvas: _Canvas, lanes: Sequence[Span]) -> Iterator[str]:
    """Faults between sites stand above the lines."""
    for i, span in enumerate(lanes):
        x1, x2, y = canvas.within(span.start), canvas.within(span.stop), _TOP + _LANE * i
        told = f"{span.kind}: {', '.join(span.sites)} | {', '.join(span.others)}"
        room = max(4, int((canvas.right - canvas.left) / 6))
        shown = told if len(told) <= room else f"{told[: room - 1]}…"
        at = min(max(x1 + 4, canvas.left), max(canvas.left, canvas.right - 6.0 * len(shown)))
        yield tag(
            "rect", title(told), class_="st-lane", x=x1, y=y, width=max(2.0, x2 - x1), height=13,
        )  # fmt: skip
        yield words(shown, at, y + 10, class_="st-lane-words")


def _lives(trace: Trace, canvas: _Canvas, row: float) -> Iterator[str]:
    most = int((canvas.left - 14) / _LETTER)
    for site, y in canvas.rows.items():
        name = site if len(site) <= most else f"{site[: most - 1]}…"
        yield tag("path", class_="st-life", d=f"M{canvas.left:.1f} {y:.1f}H{canvas.right:.1f}")
        if row >= 11:
            yield tag("g", title(site), words(name, 8, y + 4, class_="st-label"), data_site=site)
    view = canvas.view
    for span in trace.spans_between(view.start, view.stop):
        if span.others or span.kind not in _SITE_STATES:
            continue
        x1, x2 = canvas.within(span.start), canvas.within(span.stop)
        for site in span.sites:
            y = canvas.rows[site]
            yield tag(
                "rect", title(f"{site}: {span.kind}"), class_=f"st-span st-{span.kind}", x=x1,
                y=y - row * 0.32, width=max(1.0, x2 - x1), height=row * 0.64,
            )  # fmt: skip


def _arrow(canvas: _Canvas, arrow: TraceArrow) -> Iterator[str]:
    x1, y1, y2 = canvas.x(arrow.sent), canvas.rows[arrow.source], canvas.rows[arrow.peer]
    lost = arrow.arrives < 0
    x2 = x1 + 14 if lost else canvas.x(arrow.arrives)
    if lost:
        y2 = y1 + (y2 - y1) * 0.4
    about = arrow.messages()
    follow = canvas.view.follow
    followed = " followed" if follow and follow in about else ""
    kind = f"{arrow.kind}{' lost' if lost else ''}{followed}"
    told = f"{arrow.source} → {arrow.peer}: {arrow.words() or type(arrow.frame).__name__}"
    named = message_key(about[0]) if about else None
    yield tag(
        "path", title(told + (" (lost)" if lost else "")), class_=f"st-arrow {kind}",
        d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", data_message=named,
    )  # fmt: skip
    if lost:
        cross = f"M{x2 - 3:.1f} {y2 - 3:.1f}l6 6m0 -6l-6 6"
        yield tag("path", class_=f"st-cross{followed}", d=cross)
    elif x2 < canvas.right + 1:
        yield tag("path", class_=f"st-head {kind}", d=_head(x1, y1, x2, y2))


def _head(x1: float, y1: float, x2: float, y2: float) -> str:
    length = max(1e-6, ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5)
    ux, uy = (x2 - x1) / length, (y2 - y1) / length
    bx, by = x2 - 6 * ux, y2 - 6 * uy
    return (
        f"M{x2:.1f} {y2:.1f}L{bx - 2.5 * uy:.1f} {by + 2.5 * ux:.1f}"
        f"L{bx + 2.5 * uy:.1f} {by - 2.5 * ux:.1f}z"
    )


def _mark(canvas: _Canvas, mark: Mark, groups: dict[str, int]) -> str:
    x, y = canvas.x(mark.at), canvas.rows[mark.site]
    told = title(f"{mark.site}: {mark.words()}")
    named = message_key(mark.message) if mark.message else None
    followed = " followed" if mark.message and mark.message == canvas.view.follow else ""
    if mark.kind == made.DELIVER and mark.message:
        colour = groups.get(mark.message.group, 0) % len(PALETTE)
        style = f"st-deliver st-group-{colour}{followed}"
        return tag("circle", told, class_=style, cx=x, cy=y, r=3.6, data_message=named)
    if mark.kind == made.SEND:
        return tag("circle", told, class_=f"st-send{followed}", cx=x, cy=y, r=3.0,
                   data_message=named)  # fmt: skip
    if mark.kind in (made.CLOSE, "open"):
        return tag("path", told, class_=f"st-{mark.kind}", d=f"M{x:.1f} {y - 10:.1f}v20")
    if mark.kind == "crash":
        return tag(
            "path", told, class_="st-crash", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
        )
    if mark.kind == "restart":
        return tag("path", told, class_="st-restart", d=f"M{x - 5:.1f} {y + 5:.1f}l5 -10l5 10z")
    return tag("path", told, class_="st-other", d=f"M{x:.1f} {y - 5:.1f}l4 5l-4 5l-4 -5z")


def message_key(message: MessageId) -> str:
    """As it stands in addresses. Names hold no slash."""
    return "/".join(map(str, message))


def parse_message(text: str) -> MessageId | None:
    parts = text.split("/")
    if len(parts) != 4 or not (parts[1].isdecimal() and parts[3].isdecimal()):
        return None
    return MessageId(parts[0], int(parts[1]), parts[2], int(parts[3]))
