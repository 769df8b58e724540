"""Progress on standard error: one line in place on a terminal, lines with pauses elsewhere."""

import shutil
import sys
import time
from collections.abc import Callable

_IN_PLACE_S = 0.2  # between two changes of a line in place
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Use it with `with`: at the end nothing of it is left on a terminal.

    `pause_s`: between two lines where there is no terminal."""

    def __init__(self, pause_s: float) -> None:
        self._in_place = sys.stderr.isatty()
        self._pause_s = _IN_PLACE_S if self._in_place else pause_s
        self._told = time.monotonic()
        self._shown = False

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def tell(self, line: Callable[[], str]) -> None:
        """Show the line, unless one was shown a moment ago."""
        now = time.monotonic()
        if now - self._told >= self._pause_s:
            self._told = now
            self._show(line())

    def show(self, line: str) -> None:
        """Show the line now, where it can be taken away again."""
        if self._in_place:
            self._show(line)

    def note(self, line: str) -> None:
        """Show a line that stays. Another thread may do so, too: a line is one write."""
        self.clear()
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._shown = False

    def _show(self, line: str) -> None:
        if not self._in_place:
            print(line, file=sys.stderr, flush=True)
            return
        width = shutil.get_terminal_size().columns
        self._shown = True  # first: Ctrl-C may come as soon as the line is there
        sys.stderr.write(_CLEAR + line[: width - 1])
        sys.stderr.flush()
