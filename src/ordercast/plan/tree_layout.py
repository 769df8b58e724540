"""Where the sites of a tree go on paper: a tidy tree, wrapped where it would sprawl.

Subtrees move together until their outlines touch (Reingold and Tilford's idea), a site stands over
the middle of its children. Lengths are inches, y grows downwards. To keep a picture readable,
- leaves stand on both sides of their siblings that have children, so a long branch goes straight
  down, and many leaves are stacked in columns instead of standing in one long row;
- a subtree that would make the tree too wide or too deep gets a panel of its own, and a stub with
  its name stays in its place.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import TypeAlias

from ordercast.model.groups import Site

BOX_HEIGHT = 0.28
ROW = 0.41  # from row to row; a child is two rows below its parent, a stack uses every row
NARROW_ROW = 0.31  # in panels of straight branches, where edges are steep
GAP = 0.16  # between boxes side by side
SPINE = 0.10  # from a stack's spine to its boxes
FLAT_LEAVES = 5  # leaves of one parent: up to here they stand side by side
PANEL_WIDTH = 13.0
PANEL_LEVELS = 12
_NARROW, _MANY_LEVELS = 2.5, 6

Outline: TypeAlias = list[tuple[float, float]]  # of each row: left and right, from the top's middle


@dataclass(frozen=True, slots=True)
class Box:
    """A site on the page; a stub stands for one whose subtree has its own panel."""

    site: Site
    x: float  # of its middle
    y: float  # of its top
    width: float
    stub: bool = False

    def moved(self, dx: float, dy: float) -> "Box":
        return replace(self, x=self.x + dx, y=self.y + dy)


@dataclass(frozen=True, slots=True)
class Edge:
    """From a parent down to a child; a stacked child is reached along the spine at its left."""

    parent: Site
    child: Site
    points: tuple[tuple[float, float], ...]
    stacked: bool = False

    def moved(self, dx: float, dy: float) -> "Edge":
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(slots=True)
class Panel:
    root: Site
    width: float
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    links: list[Edge] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    """What hangs below a site side by side: one child, or a column of stacked leaves."""

    sites: tuple[Site, ...]
    outline: Outline
    inner: bool = False  # a child with a subtree
    x: float = 0.0  # of its middle, from the middle of the parent


@dataclass(frozen=True, slots=True)
class _Shape:
    """A site with everything below it in its panel."""

    outline: Outline
    parts: Sequence[_Part]
    levels: int

    @property
    def width(self) -> float:
        return max(right for _, right in self.outline) - min(left for left, _ in self.outline)


class TreeLayout:
    """One tree. `widths`: of each site's box; `notes`: room that some need at its right."""

    def __init__(
        self,
        root: Site,
        children: Mapping[Site, Sequence[Site]],
        widths: Mapping[Site, float],
        notes: Mapping[Site, float],
    ) -> None:
        self.root = root
        self.children = children
        self.widths = widths
        self.notes = notes
        self.cut: dict[Site, None] = {}  # roots of panels of their own
        self.shapes: dict[Site, _Shape] = {}
        self._shape_all()

    def panels(self) -> list[Panel]:
        """The tree's panels, the root's first, then as their stubs come."""
        tops = [self.root, *(site for site in self._preorder() if site in self.cut)]
        return [self._panel(top) for top in tops]

    def _preorder(self) -> list[Site]:
        order, stack = [], [self.root]
        while stack:
            order.append(site := stack.pop())
            stack.extend(reversed(self.children.get(site, ())))
        return order

    def _shape_all(self) -> None:
        order = self._preorder()
        depth = {self.root: 1}
        for site in order:
            for child in self.children.get(site, ()):
                depth[child] = depth[site] + 1
        # Panels of even length, each but the last ending in a stub.
        hops = max(depth.values()) - 1
        limit = 1 + math.ceil(hops / max(1, math.ceil(hops / (PANEL_LEVELS - 1))))
        for site in reversed(order):
            for child in self._inner(site):
                if self.shapes[child].levels >= limit:
                    self.cut[child] = None
            shape = self._shape(site)
            while shape.width > PANEL_WIDTH and (inner := self._inner(site)):
                self.cut[max(inner, key=lambda child: (self.shapes[child].width, child))] = None
                shape = self._shape(site)
            self.shapes[site] = shape

    def _inner(self, site: Site) -> list[Site]:
        """Children with a subtree in this panel; the others are leaves or stubs."""
        return [
            child
            for child in self.children.get(site, ())
            if self.children.get(child) and child not in self.cut
        ]

    def _shape(self, site: Site) -> _Shape:
        half = self.widths[site] / 2
        top = [(-half, half + self.notes.get(site, 0.0))]
        parts = self._parts(site)
        if not parts:
            return _Shape(top, (), 1)
        parts = _side_by_side(parts)
        ends = [part for part in parts if part.inner] or parts
        middle = (ends[0].x + ends[-1].x) / 2
        parts = [_moved(part, -middle) for part in parts]
        edges = (min(-half, parts[0].x), max(half, parts[-1].x))
        below = _union([_shifted(part.outline, part.x) for part in parts])
        levels = 1 + max(self.shapes[p.sites[0]].levels if p.inner else 1 for p in parts)
        return _Shape([*top, edges, *below], parts, levels)

    def _parts(self, site: Site) -> list[_Part]:
        inner = self._inner(site)
        leaves = [child for child in self.children.get(site, ()) if child not in inner]
        columns = self._columns(leaves)
        before = len(columns) // 2 if inner else 0
        middle = [_Part((child,), self.shapes[child].outline, inner=True) for child in inner]
        return [*columns[:before], *middle, *columns[before:]]

    def _columns(self, leaves: Sequence[Site]) -> list[_Part]:
        """One leaf each when there are few, else about as many columns as rows."""
        count = len(leaves)
        if not count:
            return []
        columns = count if count <= FLAT_LEAVES else max(2, round(math.sqrt(count)))
        ends = [count * i // columns for i in range(columns + 1)]
        parts = []
        for first, last in pairwise(ends):
            sites = tuple(leaves[first:last])
            half = max(self.widths[leaf] for leaf in sites) / 2
            spine = SPINE if len(sites) > 1 else 0.0
            parts.append(_Part(sites, [(-half - spine, half)] * len(sites)))
        return parts

    def _panel(self, top: Site) -> Panel:
        shape = self.shapes[top]
        panel = Panel(top, shape.width)
        x, y = {top: -min(left for left, _ in shape.outline)}, {top: 0.0}
        placed = [top]
        stacks = any(len(part.sites) > 1 for part in self._all_parts(top))
        slender = shape.width < _NARROW and shape.levels > _MANY_LEVELS
        row = NARROW_ROW if slender and not stacks else ROW
        for site in placed:  # grows while it is read: parents come before their children
            panel.boxes.append(Box(site, x[site], y[site], self.widths[site]))
            foot, below = (x[site], y[site] + BOX_HEIGHT), y[site] + 2 * row
            for part in self.shapes[site].parts:
                middle = x[site] + part.x
                if part.inner:
                    (child,) = part.sites
                    x[child], y[child] = middle, below
                    panel.links.append(Edge(site, child, (foot, (middle, below))))
                    placed.append(child)
                else:
                    self._place_leaves(panel, site, part, foot, (middle, below))
        panel.height = max(box.y for box in panel.boxes) + BOX_HEIGHT
        return panel

    def _all_parts(self, top: Site) -> list[_Part]:
        found = list(self.shapes[top].parts)
        for part in found:
            if part.inner:
                found.extend(self.shapes[part.sites[0]].parts)
        return found

    def _place_leaves(
        self,
        panel: Panel,
        parent: Site,
        part: _Part,
        foot: tuple[float, float],
        head: tuple[float, float],
    ) -> None:
        middle, top = head
        left = middle - max(self.widths[leaf] for leaf in part.sites) / 2
        bus = (foot[1] + top) / 2
        turns: tuple[tuple[float, float], ...]
        for leaf in part.sites:
            x = middle
            if len(part.sites) == 1:
                panel.links.append(Edge(parent, leaf, (foot, head)))
            else:
                x = left + self.widths[leaf] / 2
                spine, side = left - SPINE, top + BOX_HEIGHT / 2
                turns = ((spine, side), (left, side))
                if leaf == part.sites[-1]:  # the spine is drawn once, down to the last leaf
                    turns = (foot, (foot[0], bus), (spine, bus), *turns)
                panel.links.append(Edge(parent, leaf, turns, stacked=True))
            panel.boxes.append(Box(leaf, x, top, self.widths[leaf], leaf in self.cut))
            top += ROW


def _side_by_side(parts: Sequence[_Part]) -> list[_Part]:
    """Each part as far left as the outlines of those before it allow."""
    placed: list[_Part] = []
    right: list[float] = []  # of each row, how far the parts placed reach
    for part in parts:
        reach = zip(right, part.outline, strict=False)
        x = max((edge - left + GAP for edge, (left, _) in reach), default=0.0)
        placed.append(_moved(part, x))
        ends = [x + end for _, end in part.outline]
        rows = zip_longest(right, ends, fillvalue=-math.inf)
        right = [max(old, new) for old, new in rows]
    return placed


def _moved(part: _Part, dx: float) -> _Part:
    return _Part(part.sites, part.outline, part.inner, part.x + dx)


def _shifted(outline: Outline, dx: float) -> Outline:
    return [(left + dx, right + dx) for left, right in outline]


def _union(outlines: Sequence[Outline]) -> Outline:
    rows = zip_longest(*outlines)
    return [
        (min(r[0] for r in row if r is not None), max(r[1] for r in row if r is not None))
        for row in rows
    ]
