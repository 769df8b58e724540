"""A violation as a picture, from its witness: what each site delivered, in which order.

A row is a site, a box a delivery with its position; lines join the same message from row to row. An
order that two sites see differently is a crossing. With the history at hand the neighbours of each
delivery are shown too.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ordercast.history.rows import History
from ordercast.model.groups import Site
from ordercast.model.messages import MessageId
from ordercast.plan.colours import PALETTE
from ordercast.plan.svg import drawing, tag, title, words
from ordercast.sim.trace.words import message_words

_TOP, _ROW, _LEFT, _COLUMN, _BOX = 58, 70, 110, 158, 30
_LONGEST = 20

STYLE = """\
.wi-paper{fill:var(--paper,#fff)}
.wi-words,.wi-site,.wi-at{fill:var(--ink,#1b2733);font:12.5px system-ui,sans-serif}
.wi-site{font-weight:600}
.wi-at,.wi-note{fill:var(--quiet,#5c6b7a);font:11px system-ui,sans-serif}
.wi-at{paint-order:stroke;stroke:var(--paper,#fff);stroke-width:4px}
.wi-told{fill:var(--bad,#b83227);font:600 14px system-ui,sans-serif}
.wi-life{stroke:var(--life,#aab8c8);stroke-width:1.5}
.wi-box{fill:var(--paper,#fff);stroke:var(--life,#aab8c8);stroke-width:1.3}
.wi-about{stroke:var(--ink,#1b2733);stroke-width:1.6}
.wi-missing{stroke:var(--bad,#b83227);stroke-dasharray:5 4;stroke-width:1.6}
.wi-join{fill:none;stroke-width:2.2;opacity:.85}
""" + "".join(
    f".wi-join-{i}{{stroke:{colour}}}.wi-tint-{i}{{fill:{colour};opacity:.18}}"
    for i, colour in enumerate(PALETTE[:6])
)
STANDALONE = STYLE + (
    "@media (prefers-color-scheme:dark){svg{--paper:#141b22;--ink:#dde6ee;--quiet:#8fa0b0;"
    "--life:#4b5a69;--bad:#ee857a}}"
)


class Chip(NamedTuple):
    """A delivery in a row. `position` 0: none is known. `missing`: it should be here and is not."""

    site: Site
    position: int
    message: MessageId | None
    missing: bool = False
    note: str = ""


def draw_witness(
    check: str, witness: Mapping[str, Any], history: History | None = None, *, alone: bool = True
) -> str:
    """`alone`: the picture brings its own style, for a file."""
    chips = list(_chips(check, witness))
    about = list(dict.fromkeys(chip.message for chip in chips if chip.message))
    if history is not None:
        chips = _with_neighbours(chips, history, witness.get("run"))
    rows: dict[Site, list[Chip]] = {}
    for chip in chips:
        rows.setdefault(chip.site, []).append(chip)
    for site in rows:
        rows[site].sort(key=lambda chip: (chip.position, chip.missing))
    most = max((len(row) for row in rows.values()), default=1)
    told = explain(check, witness)
    width = max(_LEFT + _COLUMN * most + 20, 8 * len(told) + 30)
    height = _TOP + _ROW * max(1, len(rows))
    places = {
        (chip.site, chip.position, chip.message): (_LEFT + _COLUMN * i, _TOP + _ROW * n)
        for n, row in enumerate(rows.values())
        for i, chip in enumerate(row)
    }
    body = [
        tag("rect", class_="wi-paper", width=width, height=height),
        words(told, 10, 22, class_="wi-told"),
        *_lives(rows, width),
        *_joins(rows, places, about),
        *(part for key, chip in _keyed(rows) for part in _box(chip, places[key], about)),
    ]
    return drawing(width, height, *body, label=told, style=STANDALONE if alone else "")


def explain(check: str, witness: Mapping[str, Any]) -> str:
    """The violation in a sentence."""
    run = f"run {witness['run']}: " if witness.get("run") is not None else ""
    named = [message_words(MessageId(*each)) for each in witness.get("messages", ())]
    one = message_words(MessageId(*witness["message"])) if "message" in witness else ""
    site = witness.get("site", "")
    match check:
        case "pairwise_order":
            told = f"{' and '.join(witness['sites'])} deliver the same two messages in two orders"
        case "acyclic_order":
            told = f"{len(named):,} messages come before each other in a ring"
        case "causal_order":
            told = f"{site} delivers {named[-1]} too early: another message happened before it"
        case "resent":
            told = "One request of a client became two messages"
        case "fifo":
            told = f"{site} delivers {one} after a later message of the same origin and group"
        case "integrity":
            reasons = witness.get("reasons") or ["it is in two epochs"]
            told = f"{site}{': ' if site else ''}{one}: {', '.join(reasons)}"
        case "agreement":
            told = f"{witness['member']} lacks {one}, which {witness['delivered']['site']} has"
        case "lost":
            told = f"{one} was accepted, and no member has it"
        case "positions":
            told = f"{site}: {witness.get('fault', '')}, at position {witness.get('position')}"
        case _:
            told = check.replace("_", " ")
    return f"{run}{told}"


def _chips(check: str, witness: Mapping[str, Any]) -> Iterator[Chip]:
    messages = [MessageId(*each) for each in witness.get("messages", ())]
    one = MessageId(*witness["message"]) if "message" in witness else None
    positions: Any = witness.get("positions")
    site = witness.get("site", "")
    if check == "acyclic_order":
        following = [*messages[1:], messages[0]]
        for n, at in enumerate(witness["sites"]):
            for message, position in zip((messages[n], following[n]), positions[n], strict=True):
                yield Chip(at, position, message)
    elif isinstance(positions, Mapping):
        for at, found in positions.items():
            for message, position in zip(messages, found, strict=True):
                yield Chip(at, position, message)
    elif positions is not None:
        for message, position in zip(messages, positions, strict=True):
            yield Chip(site, position, message)
    elif check == "agreement":
        found = witness["delivered"]
        yield Chip(found["site"], found["position"], one)
        yield Chip(witness["member"], 0, one, missing=True, note=str(witness.get("because", "")))
    elif check == "lost" and one is not None:
        yield Chip(one.origin, 0, one, note="accepted")
        yield Chip(witness["member"], 0, one, missing=True, note="never delivered")
    elif check == "positions":
        at = witness["position"]
        twice = "twice" in str(witness.get("fault", ""))
        yield Chip(site, at if twice else at - 1, None, missing=not twice,
                   note=str(witness.get("fault", "")))  # fmt: skip
        yield Chip(site, at, None)
    elif one is not None:
        if "after" in witness:
            after = witness["after"]
            yield Chip(site, after["position"], MessageId(*after["message"]))
        yield Chip(site or one.origin, witness.get("position", 0), one)


def _with_neighbours(chips: list[Chip], history: History, run: str | None) -> list[Chip]:
    """And what each site delivered just before and after."""
    wanted = {(c.site, c.position + d) for c in chips if c.position for d in (-1, 1)}
    here = {(chip.site, chip.position) for chip in chips}
    found = list(chips)
    for row in history.deliveries:
        key = (row.site, row.position)
        if row.run == run and key in wanted and key not in here:
            here.add(key)
            found.append(Chip(row.site, row.position, row.id))
    return found


def _keyed(
    rows: Mapping[Site, Sequence[Chip]],
) -> Iterator[tuple[tuple[Site, int, MessageId | None], Chip]]:
    for row in rows.values():
        for chip in row:
            yield (chip.site, chip.position, chip.message), chip


def _lives(rows: Mapping[Site, Sequence[Chip]], width: float) -> Iterator[str]:
    for n, site in enumerate(rows):
        y = _TOP + _ROW * n + _BOX / 2
        shown = site if len(site) <= 13 else f"{site[:12]}…"
        yield tag("path", class_="wi-life", d=f"M{_LEFT - 8} {y}H{width - 8}")
        yield tag("g", title(site), words(shown, 10, y + 4, class_="wi-site"))


def _joins(
    rows: Mapping[Site, Sequence[Chip]],
    places: Mapping[tuple[Site, int, MessageId | None], tuple[float, float]],
    about: Sequence[MessageId],
) -> Iterator[str]:
    """The same message in one row and the next that has it."""
    for number, message in enumerate(about):
        spots = [places[key] for key, chip in _keyed(rows) if chip.message == message]
        middle = (_COLUMN - 22) / 2
        for (x1, y1), (x2, y2) in pairwise(spots):
            if y1 != y2:
                d = (
                    f"M{x1 + middle} {y1 + _BOX}C{x1 + middle} {y1 + _BOX + 20}"
                    f" {x2 + middle} {y2 - 20} {x2 + middle} {y2}"
                )
                yield tag("path", class_=f"wi-join wi-join-{number % 6}", d=d)


def _box(chip: Chip, at: tuple[float, float], about: Sequence[MessageId]) -> Iterator[str]:
    x, y = at
    wide = _COLUMN - 22
    kind = "wi-missing" if chip.missing else "wi-about" if chip.message in about else ""
    text = message_words(chip.message) if chip.message else ""
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    position = f"position {chip.position}" if chip.position else ""
    parts = [
        title(" ".join(each for each in (chip.site, position, text, chip.note) if each)),
        tag("rect", class_=f"wi-box {kind}".strip(), x=x, y=y, width=wide, height=_BOX, rx=6),
    ]
    if chip.message is not None and chip.message in about and not chip.missing:
        tint = f"wi-tint-{list(about).index(chip.message) % 6}"
        parts.append(tag("rect", class_=tint, x=x, y=y, width=wide, height=_BOX, rx=6))
    label = "missing" if chip.missing and not shown else shown
    parts.append(words(label, x + wide / 2, y + 19, class_="wi-words", text_anchor="middle"))
    below = chip.note or position
    parts.append(words(below, x + wide / 2, y - 4, class_="wi-at", text_anchor="middle"))
    yield tag("g", *parts, data_site=chip.site)
