"""A terminal as a screen: text that is drawn again in place."""

import shutil
import sys

_OTHER, _BACK = "\x1b[?1049h", "\x1b[?1049l"  # the terminal's second screen, and back
_HOME, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """Use it with `with`: the last text stays on the terminal's own screen at the end."""

    def __init__(self) -> None:
        self._last = ""

    def __enter__(self) -> "Screen":
        sys.stdout.write(_OTHER)
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.write(_BACK)
        if self._last:
            print(self._last)
        sys.stdout.flush()

    def draw(self, text: str) -> None:
        self._last = text
        rows = shutil.get_terminal_size().lines
        lines = text.splitlines()[: rows - 1]
        sys.stdout.write(_HOME + "".join(f"{line}{_REST_OF_LINE}\r\n" for line in lines) + _REST)
        sys.stdout.flush()
