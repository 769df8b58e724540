"""Words on a picture: how wide they are, how they are shortened, the two lines of the title."""

from functools import lru_cache
from typing import TYPE_CHECKING

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import Metrics
from ordercast.model.groups import GroupTable

if TYPE_CHECKING:
    from matplotlib.textpath import TextToPath

NAME, SMALL, TITLE = 9.0, 7.5, 12.0  # font sizes
_LONGEST_NAME = 22


@lru_cache(maxsize=1)
def _text_to_path() -> "TextToPath":
    from matplotlib.textpath import TextToPath

    return TextToPath()


def text_width(text: str, size: float) -> float:
    """In inches, in the font of `canvas.style`."""
    from matplotlib.font_manager import FontProperties

    font = FontProperties(size=size)
    points, _, _ = _text_to_path().get_text_width_height_descent(text, font, ismath=False)
    return float(points) / 72.0


def short(name: str) -> str:
    """A long name without its middle: the ends are what tells names apart."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:10]}…{name[-11:]}"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def headline(forest: Forest, table: GroupTable, metrics: Metrics) -> tuple[str, str]:
    """What is drawn, and its measures."""
    busiest = sorted(table.sites)[metrics.load.index(metrics.load_max)]
    return (
        f"{forest.builder}: {count(len(table.groups), 'group')}, {count(len(table.sites), 'site')}",
        f"depth {metrics.depth_mean:.2f} on average, {metrics.depth_max:,} at most; "
        f"extra sites {metrics.extra_mean:.2f} per group; "
        f"highest load {metrics.load_max:,} at {short(busiest)}",
    )
