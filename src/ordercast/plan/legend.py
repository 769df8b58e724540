"""The legend of a picture: swatches with their meaning, in as many columns as fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ordercast.plan.captions import SMALL, text_width
from ordercast.plan.colours import INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Swatch = tuple[str, str, str]  # kind of swatch, its colour, its meaning

_LINE = 0.20
_SWATCH = 0.30
_GAP = 0.30
_ABOVE = 0.35


class Legend:
    """Entries of kind `break` begin a new block with columns of its own."""

    def __init__(self, entries: Sequence[Swatch], width: float) -> None:
        self.blocks: list[tuple[float, list[list[Swatch]]]] = []
        block: list[Swatch] = []
        for entry in (*entries, ("break", "", "")):
            if entry[0] != "break":
                block.append(entry)
            elif block:
                self.blocks.append(_columns(block, width))
                block = []

    @property
    def height(self) -> float:
        return _ABOVE + sum(_LINE * (len(columns[0]) + 0.5) for _, columns in self.blocks)

    def draw(self, axes: "Axes", top: float) -> None:
        y = top + _ABOVE
        for column_width, columns in self.blocks:
            for i, column in enumerate(columns):
                for j, entry in enumerate(column):
                    _draw_entry(axes, entry, i * column_width, y + j * _LINE)
            y += _LINE * (len(columns[0]) + 0.5)


def _columns(block: Sequence[Swatch], width: float) -> tuple[float, list[list[Swatch]]]:
    column_width = max(text_width(text, SMALL) for _, _, text in block) + _SWATCH + _GAP
    fit = max(1, min(len(block), int((width + _GAP) / column_width)))
    rows = -(-len(block) // fit)
    return column_width, [list(block[i : i + rows]) for i in range(0, len(block), rows)]


def _draw_entry(axes: "Axes", entry: Swatch, x: float, y: float) -> None:
    from matplotlib.patches import Polygon, Rectangle

    kind, colour, text = entry
    box = (x, y - 0.055), 0.20, 0.11
    if kind in ("primary", "coloured"):
        axes.add_patch(Rectangle(*box, facecolor=colour, edgecolor=INK, lw=1.0))
    elif kind == "site":
        axes.add_patch(Rectangle(*box, facecolor="white", edgecolor=colour, lw=1.0))
    elif kind == "extra":
        dashes = (0, (3, 1.6))
        axes.add_patch(Rectangle(*box, facecolor="white", edgecolor=colour, lw=1.4, ls=dashes))
    elif kind == "stub":
        tip = [(x + 0.04, y - 0.035), (x + 0.16, y - 0.035), (x + 0.10, y + 0.035)]
        axes.add_patch(Polygon(tip, facecolor="#9AA5B1", lw=0))
    elif kind == "stripes":
        for i, shade in enumerate(PALETTE[:4]):
            axes.add_patch(Rectangle((x + i * 0.05, y - 0.03), 0.05, 0.06, facecolor=shade, lw=0))
    elif kind == "stripe":
        axes.add_patch(Rectangle((x, y - 0.03), 0.20, 0.06, facecolor=colour, lw=0))
    axes.text(x + _SWATCH, y, text, size=SMALL, color=INK, va="center_baseline")
