"""Pictures on paper: matplotlib behind the extra `plot`, and files that are whole or absent.

The same picture gives the same bytes: fixed style, no date, fixed identifiers in SVG.
"""

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import ConfigError, reason
from ordercast.whole_files import drafted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".svg", ".png", ".pdf")
_NOTHING_SAID = {  # the fields that would name a date or a release
    ".svg": ("Creator", "Date", "Format", "Type"),
    ".png": ("Software",),
    ".pdf": ("Creator", "Producer", "CreationDate"),
}

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    # The second has the same widths, for readers of an SVG who lack the first.
    "font.sans-serif": ["DejaVu Sans", "Verdana"],
    "font.size": 9.0,
    "svg.fonttype": "none",  # text stays text: it can be searched and selected
    "svg.hashsalt": "ordercast",
    "pdf.fonttype": 42,  # letters as letters in a PDF, too
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def require_drawable(path: str, option: str = "--draw") -> None:
    """Say what stands in the way of a drawing before any work is done."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(
            f"{option} {path}: the name must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    if not can_draw():
        raise ConfigError(
            f"{option} {path}: drawing needs the extra 'plot' (pip install 'ordercast[plot]')"
        )
    folder = Path(path).parent
    if not folder.is_dir():
        raise ConfigError(f"{option} {path}: there is no directory {str(folder)!r}")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"{option} {path}: the directory {str(folder)!r} is not writable")


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our look, whatever the user's matplotlibrc says."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def save(figure: "Figure", path: str, pixels_per_inch: int = 110) -> None:
    """Nobody finds half a picture."""
    target = Path(path)
    ending = target.suffix.lower()
    draft = target.with_name(f".ordercast-{os.getpid()}{ending}")
    metadata = dict.fromkeys(_NOTHING_SAID[ending])
    try:
        with drafted(target, draft=draft):  # its ending says the format
            figure.savefig(draft, dpi=pixels_per_inch, metadata=metadata)
    except OSError as error:
        raise ConfigError(f"{path}: {reason(error)}") from None
