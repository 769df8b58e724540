"""Colours for a few words on a terminal, by rich where it is installed; plain text elsewhere."""

import os
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

GOOD_WORDS, WARNING_WORDS, BAD_WORDS = "green", "yellow", "bold red"


def coloured(text: str, style: str) -> str:
    """The text in a style of rich, for standard output. It stays as it is in a pipe or a file,
    where the user has asked for that (NO_COLOR), and without rich."""
    console = _console() if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else None
    if console is None or not console.color_system:
        return text
    with console.capture() as captured:
        console.out(text, style=style, highlight=False, end="")
    return captured.get()


def verdict_words(wrong: str = "") -> str:
    """`no violation`, or what is wrong."""
    return coloured(wrong, BAD_WORDS) if wrong else coloured("no violation", GOOD_WORDS)


@cache
def _console() -> "Console | None":
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=sys.stdout)
