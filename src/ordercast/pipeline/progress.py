"""Progress of Spark jobs on standard error: what is being done, and how many tasks of it.

Library functions log what they do. The last message is shown on one line of the terminal, with the
counts of the session's status tracker; the line is wiped at the end. Other code prints within
`above_progress` meanwhile, so that the line and the text do not mix.
"""

import logging
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ordercast.model.time_left import time_left

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

LOGGER = logging.getLogger("ordercast.pipeline")
_EVERY_S = 0.3
_QUIET_S = 1.0  # a bar that only flashes helps nobody
_LINE_S = 10.0  # between two lines where there is no terminal
_BAR = 24
_COUNTED = re.compile(r"([\d,]+) of ([\d,]+)\b")  # a message that has its own count
_TERMINAL = threading.Lock()


class _LastWord(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = "working"

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()


@contextmanager
def saying(text: str) -> Iterator[None]:
    """Show the text, and after a while for how long, until the block is done: on the line of
    progress, or, where there is no terminal, on a line now and then."""
    at_terminal = sys.stderr.isatty()
    done = threading.Event()

    def count() -> None:
        begun, every = time.monotonic(), 1.0 if at_terminal else _LINE_S
        while not done.wait(every):
            show(f"{text}: {time.monotonic() - begun:.0f} s")

    def show(shown: str) -> None:
        if at_terminal:
            _write(shown)
        else:
            print(shown, file=sys.stderr, flush=True)

    show(text)
    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield
    finally:
        done.set()
        counting.join()
        if at_terminal:
            _write("")


@contextmanager
def above_progress() -> Iterator[None]:
    """Print what stays: the line of progress is wiped, and comes again below it."""
    with _TERMINAL:
        if sys.stderr.isatty():
            _put("")
        yield


@contextmanager
def show_progress(session: "SparkSession") -> Iterator[None]:
    word = _LastWord()
    level = LOGGER.level
    LOGGER.addHandler(word)
    LOGGER.setLevel(logging.INFO)
    done = threading.Event()
    watcher = threading.Thread(target=_watch, args=(session, word, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        LOGGER.setLevel(level)
        LOGGER.removeHandler(word)


def _watch(session: "SparkSession", word: _LastWord, done: threading.Event) -> None:
    try:
        tracker = session.sparkContext.statusTracker()
    except Exception:  # Spark Connect has no such thing: the words must do
        tracker = None
    pace = _Pace()
    shown = done.wait(_QUIET_S)
    while not done.wait(_EVERY_S):
        finished, total = _tasks(tracker) if tracker is not None else (0, 0)
        text = word.text + pace.left(word.text, time.monotonic())
        _write(line(text, finished, total, shutil.get_terminal_size().columns))
        shown = True
    if shown:
        _write("")


def _tasks(tracker: "StatusTracker") -> tuple[int, int]:
    """How many tasks of the running jobs are done, and how many there are."""
    finished = total = 0
    for job in tracker.getActiveJobsIds():
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            counts = tracker.getStageInfo(stage)
            if counts is not None:
                finished += counts.numCompletedTasks
                total += counts.numTasks
    return finished, total


class _Pace:
    """How fast a count of `3 of 12` grows. State: what is counted, and where and when it began."""

    def __init__(self) -> None:
        self._what = ""
        self._first = 0
        self._since = 0.0

    def left(self, text: str, now: float) -> str:
        counted = _COUNTED.search(text)
        if counted is None:
            return ""
        done, total = (int(number.replace(",", "")) for number in counted.groups())
        what = text[: counted.start()] + text[counted.end() :]
        if what != self._what:
            self._what, self._first, self._since = what, done, now
        return time_left(now - self._since, done - self._first, total - self._first)


def line(text: str, finished: int, total: int, width: int) -> str:
    """`text [####....] 3/12`, cut to the width of the terminal. The bar of a text with a count of
    its own, as `192 of 480 runs`, shows that count."""
    counted = _COUNTED.search(text)
    tasks = f" {finished}/{total}"
    if counted is not None:
        finished, total = (int(number.replace(",", "")) for number in counted.groups())
        tasks = ""
    if not total:
        return text[: width - 1]
    filled = _BAR * finished // total
    bar = f" [{'#' * filled}{'.' * (_BAR - filled)}]{tasks}"
    return (text[: max(width - 1 - len(bar), 0)] + bar)[: width - 1]


def _write(text: str) -> None:
    with _TERMINAL:
        _put(text)


def _put(text: str) -> None:
    sys.stderr.write(f"\r\x1b[K{text}")
    sys.stderr.flush()
