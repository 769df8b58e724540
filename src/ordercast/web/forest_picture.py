"""A forest as a picture that a page can keep up to date: every site and edge has its name.

Dark boxes order groups (primaries), dashed ones pass on what they are not in (extra sites). Below
a box, or beside it, there is room for the rate of the edge above it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import extra_groups
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.plan.colours import PALETTE
from ordercast.plan.pages import lay_out
from ordercast.plan.svg import drawing, tag, title, words
from ordercast.plan.tree_layout import BOX_HEIGHT, Box, Edge

_INCH = 92.0  # pixels
_LETTER = 7.3
_MARGIN = 10.0
_RATE = 0.6  # inches, for the rate of an edge
_LONGEST = 18
_STRIPE = 4.0
_MANY = 12  # groups with a colour each

STYLE = """\
.fo-box rect.fo-body{fill:var(--paper,#fff);stroke:var(--ink,#1b2733);stroke-width:1.2}
.fo-box text{fill:var(--ink,#1b2733);font:12px system-ui,sans-serif}
.fo-box.fo-primary rect.fo-body{fill:var(--strong,#22313f)}
.fo-box.fo-primary text{fill:var(--on-strong,#fff)}
.fo-extra{fill:none;stroke:var(--warn,#b9770e);stroke-dasharray:4 3;stroke-width:1.3}
.fo-edge{stroke:var(--life,#aab8c8);fill:none;stroke-width:1.5}
.fo-rate{fill:var(--quiet,#5c6b7a);font:10.5px system-ui,sans-serif}
.fo-stub{fill:var(--quiet,#5c6b7a)}
"""


class ForestShape(NamedTuple):
    """The contents of a picture: who forwards to whom, the members of each group, and the site that
    orders it."""

    parent: Mapping[Site, Site | None]
    groups: Mapping[Group, Sequence[Site]]
    primary: Mapping[Group, Site]


def draw_forest(shape: ForestShape, *, rates: bool = False, alone: bool = False) -> str:
    """`rates`: leave room for them. `alone`: the picture brings its own style, for a file."""
    children: dict[Site, list[Site]] = {}
    for site in sorted(shape.parent):
        above = shape.parent[site]
        if above is not None:
            children.setdefault(above, []).append(site)
    roots = [site for site in sorted(shape.parent) if shape.parent[site] is None]
    roots.sort(key=lambda site: -len(children.get(site, ())))
    least = _RATE if rates else 0.42
    widths = {site: max(least, (_LETTER * len(_short(site)) + 16) / _INCH) for site in shape.parent}
    notes = dict.fromkeys(children, _RATE) if rates else {}
    page = lay_out(roots, children, widths, notes)
    drawn = _Drawn(shape)
    body = [
        *(drawn.edge(link) for link in page.links),
        *(part for box in page.boxes for part in drawn.box(box, rates)),
    ]
    width, height = (each * _INCH + 2 * _MARGIN for each in (page.width, page.height))
    height += 16.0 if rates else 0.0
    return drawing(
        width, height, tag("g", *body, transform=f"translate({_MARGIN} {_MARGIN})"),
        label="The propagation forest", style=STYLE + _colours() if alone else "",
    )  # fmt: skip


def extra_sites_of(shape: ForestShape) -> dict[Site, list[Group]]:
    """The groups that each site passes on without being a member."""
    if not shape.primary:
        return {}
    known = {group: tuple(shape.groups[group]) for group in shape.primary if group in shape.groups}
    table = GroupTable.of(known, sites=sorted(shape.parent))
    primary = {group: shape.primary[group] for group in known}
    return extra_groups(Forest("", dict(shape.parent), primary), table)


def _colours() -> str:
    return "".join(f".st-group-{i}{{fill:{colour}}}\n" for i, colour in enumerate(PALETTE))


def _short(site: Site) -> str:
    return site if len(site) <= _LONGEST else f"{site[:8]}…{site[-8:]}"


class _Drawn:
    def __init__(self, shape: ForestShape) -> None:
        self.shape = shape
        names = sorted(shape.groups)
        self.colours = {group: i % len(PALETTE) for i, group in enumerate(names)}
        self.orders: dict[Site, list[Group]] = {}
        for group in sorted(shape.primary):
            self.orders.setdefault(shape.primary[group], []).append(group)
        self.within: dict[Site, list[Group]] = {}
        for group in names:
            for site in shape.groups[group]:
                self.within.setdefault(site, []).append(group)
        self.extra = extra_sites_of(shape)
        self.above = {above: None for above in shape.parent.values() if above is not None}

    def edge(self, link: Edge) -> str:
        points = "L".join(f"{x * _INCH:.1f} {y * _INCH:.1f}" for x, y in link.points)
        return tag(
            "path", class_="fo-edge", d=f"M{points}", data_parent=link.parent, data_child=link.child
        )

    def box(self, box: Box, rates: bool) -> Iterator[str]:
        site = box.site
        x, y, width = (box.x - box.width / 2) * _INCH, box.y * _INCH, box.width * _INCH
        height = BOX_HEIGHT * _INCH
        kind = "fo-box fo-primary" if site in self.orders else "fo-box"
        parts = [
            title(self._told(site)),
            tag("rect", class_="fo-body", x=x, y=y, width=width, height=height, rx=5),
            *self._stripe(site, x, y + height - _STRIPE, width),
            words(_short(site), x + width / 2, y + height / 2 + 3, text_anchor="middle"),
        ]
        if site in self.extra:
            parts.append(tag("rect", class_="fo-extra", x=x - 4, y=y - 4, width=width + 8,
                             height=height + 8, rx=7))  # fmt: skip
        if box.stub:
            tip = f"M{x + width / 2 - 5:.1f} {y + height + 3:.1f}h10l-5 6z"
            parts.append(tag("path", class_="fo-stub", d=tip))
        yield tag("g", *parts, class_=kind, data_site=site, tabindex=0, role="button")
        if rates and self.shape.parent[site] is not None and not box.stub:
            inner = site in self.above  # an edge begins below it: the rate stands at its side
            beside = x + width + (9 if site in self.extra else 5)
            at = (beside, y + height / 2 + 4) if inner else (x + width / 2, y + height + 14)
            anchor = "start" if inner else "middle"
            yield words("", *at, class_="fo-rate", text_anchor=anchor, data_rate=site)

    def _stripe(self, site: Site, x: float, y: float, width: float) -> Iterator[str]:
        groups = self.within.get(site, [])[:_MANY]
        piece = (width - 8) / max(1, len(groups))
        for i, group in enumerate(groups):
            style = f"st-group-{self.colours[group]}"
            yield tag("rect", class_=style, x=x + 4 + i * piece, y=y, width=piece, height=_STRIPE)

    def _told(self, site: Site) -> str:
        told = [site]
        if site in self.orders:
            told.append(f"orders {', '.join(self.orders[site])}")
        if site in self.within:
            told.append(f"in {', '.join(self.within[site])}")
        if site in self.extra:
            told.append(f"extra for {', '.join(self.extra[site])}")
        return "; ".join(told)
