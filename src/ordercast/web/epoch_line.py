"""Epochs as a time line: when each opened, why, and how long the change before it took."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ordercast.net.client.overview import EpochPassage
from ordercast.plan.svg import drawing, tag, title, words

_HEIGHT, _LINE, _MARGIN = 74, 46, 52
_APART = 64  # pixels between two labels
_VIRTUAL_NS = 10**15  # 1970, twelfth of January: no clock of today says less

STYLE = """\
.ep-line{stroke:var(--life,#aab8c8);stroke-width:2}
.ep-mark{fill:var(--accent,#2c6fb3);stroke:var(--paper,#fff);stroke-width:1.5}
.ep-pause{fill:var(--warn,#b9770e);opacity:.55}
.ep-words{fill:var(--ink,#1b2733);font:12px system-ui,sans-serif;font-weight:600}
.ep-time{fill:var(--quiet,#5c6b7a);font:11px system-ui,sans-serif}
"""


def draw_epochs(passages: Sequence[EpochPassage], width: int) -> str:
    """Time goes to the right. Marks that would lie on each other are moved apart, so distances are
    those of the clock only where there is room."""
    shown = list(passages)[-max(2, (width - 2 * _MARGIN) // _APART) :]
    begin, end = shown[0].at_ns, max(shown[-1].at_ns, shown[0].at_ns + 1)
    room = width - 2 * _MARGIN
    xs = _spread([_MARGIN + room * (p.at_ns - begin) / (end - begin) for p in shown], width)
    longest = max((p.pause_ms or 0.0 for p in shown), default=0.0) or 1.0
    body = [tag("path", class_="ep-line", d=f"M8 {_LINE}H{width - 8}")]
    for passage, x in zip(shown, xs, strict=True):
        body += _passage(passage, x, longest)
    return drawing(width, _HEIGHT, *body, label="Epochs and their pauses")


def _spread(xs: list[float], width: int) -> list[float]:
    """No two closer than a label is wide."""
    found: list[float] = []
    for x in xs:
        found.append(max(x, found[-1] + _APART) if found else x)
    limit = float(width - _MARGIN)
    for i in range(len(found) - 1, -1, -1):
        found[i] = min(found[i], limit)
        limit = found[i] - _APART
    return found


def _passage(passage: EpochPassage, x: float, longest: float) -> Iterator[str]:
    pause = "" if passage.pause_ms is None else f"{passage.pause_ms:,.0f} ms"
    told = f"epoch {passage.epoch}: {passage.reason or 'start'}; pause {pause or 'not known'}"
    parts = [title(told)]
    if passage.pause_ms:
        wide = 4 + 40 * passage.pause_ms / longest
        parts.append(
            tag("rect", class_="ep-pause", x=x - wide, y=_LINE - 5, width=wide, height=10, rx=2)
        )
    parts += [
        tag("circle", class_="ep-mark", cx=x, cy=_LINE, r=6.0),
        words(f"{passage.epoch}", x, _LINE - 14, class_="ep-words", text_anchor="middle"),
        words(pause, x, _LINE - 28, class_="ep-time", text_anchor="middle"),
        words(
            _time(passage.at_ns),
            x,
            _LINE + 22,
            class_="ep-time",
            text_anchor="middle",
            data_at=passage.at_ns,
        ),
    ]
    yield tag("g", *parts, data_epoch=passage.epoch)


def _time(at_ns: int) -> str:
    """In UTC; a page writes its own time there. A simulated run begins at 0."""
    if at_ns < _VIRTUAL_NS:
        return f"{at_ns / 1e6:,.0f} ms"
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%H:%M:%S}"
