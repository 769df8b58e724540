"""Putting the panels of all trees on one page: in rows, like words in a paragraph."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ordercast.model.groups import Site
from ordercast.plan.tree_layout import Box, Edge, Panel, TreeLayout

PANEL_GAP = 0.55
_ASPECT = 1.5  # width to height that a page aims at
_WIDEST = 22.0


@dataclass(frozen=True, slots=True)
class Page:
    width: float
    height: float
    boxes: Sequence[Box]
    links: Sequence[Edge]


def lay_out(
    roots: Sequence[Site],
    children: Mapping[Site, Sequence[Site]],
    widths: Mapping[Site, float],
    notes: Mapping[Site, float],
) -> Page:
    """All trees on one page; see `TreeLayout` for the arguments."""
    panels = [
        panel for root in roots for panel in TreeLayout(root, children, widths, notes).panels()
    ]
    area = sum((p.width + PANEL_GAP) * (p.height + PANEL_GAP) for p in panels)
    broadest = max(panel.width for panel in panels)
    ideal = math.sqrt(area * _ASPECT)
    limits = [max(broadest, min(_WIDEST, ideal * stretch)) for stretch in (0.8, 1.0, 1.2, 1.5, 2.0)]
    pages = [_rows(panels, limit) for limit in limits]
    return min(pages, key=_ungainliness)


def _ungainliness(page: Page) -> float:
    return abs(math.log(page.width / page.height / _ASPECT)) + math.log(page.width * page.height)


def _rows(panels: Sequence[Panel], limit: float) -> Page:
    boxes: list[Box] = []
    links: list[Edge] = []
    x = y = row_height = width = 0.0
    for panel in panels:
        if x > 0 and x + panel.width > limit + 1e-9:
            x, y, row_height = 0.0, y + row_height + PANEL_GAP, 0.0
        boxes += [box.moved(x, y) for box in panel.boxes]
        links += [link.moved(x, y) for link in panel.links]
        width = max(width, x + panel.width)
        x += panel.width + PANEL_GAP
        row_height = max(row_height, panel.height)
    return Page(width, y + row_height, boxes, links)
