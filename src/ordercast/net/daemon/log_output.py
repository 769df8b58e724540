"""Where a daemon's log goes, and in which form: standard error, as text or as JSON.

Standard error may be one of three things. `DIR/SITE.log`, which 'cluster up --detach' opens: then
the daemon rotates it. The journal of systemd: then lines carry their priority, and no time, which
the journal has. Anything else: then a line is a line.
"""

import json
import logging
import os
import stat
import sys
import time
from pathlib import Path
from typing import Final

from ordercast.model.groups import Site
from ordercast.net.cluster.directory import append_own

LOG_BYTES: Final = 16 << 20  # of a log, when it is rotated
OLD_LOGS: Final = 4  # SITE.log.1, the youngest, to SITE.log.4

_STDERR = 2
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}  # of syslog


def log_to_stderr(site: Site, form: str, level: str, path: Path) -> None:
    """Write what ordercast logs, from this level on. `path`: the site's log, if there is one."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if _is_stderr(path):
        handler = RotatedLog(path)
    if form == "json":
        handler.setFormatter(JsonLines(site))
    elif _is_journal():
        handler.setFormatter(JournalLines(f"{site} %(levelname)s %(message)s"))
    else:
        handler.setFormatter(TextLines(f"%(asctime)s {site} %(levelname)s %(message)s"))
    logger = logging.getLogger("ordercast")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logging.getLogger("asyncio").addHandler(handler)


class TextLines(logging.Formatter):
    """Times are UTC with milliseconds; what a peer says cannot break a line."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.exc_info:
            return text
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class JournalLines(TextLines):
    """Lines with the priority that systemd reads, on each line of a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_PRIORITIES.get(record.levelname, 5)}>"
        return "\n".join(prefix + line for line in super().format(record).splitlines())


class JsonLines(TextLines):
    """One object per line: `at`, `site`, `level`, `logger`, `message`, and `error`, a traceback."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "at": self.formatTime(record),
            "site": self._site,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


class RotatedLog(logging.Handler):
    """Standard error, while it is the site's log: beyond `LOG_BYTES` it becomes SITE.log.1, and
    standard error a new file, so that also a crash of the interpreter is written there."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(_STDERR, f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))
            if os.fstat(_STDERR).st_size > LOG_BYTES and _is_stderr(self._path):
                self._rotate()
        except OSError:
            self.handleError(record)

    def _rotate(self) -> None:
        for number in range(OLD_LOGS - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = append_own(self._path)
        os.dup2(descriptor, _STDERR)
        os.close(descriptor)


def _is_stderr(path: Path) -> bool:
    try:
        ours, its = os.fstat(_STDERR), path.stat()
    except OSError:
        return False
    return stat.S_ISREG(its.st_mode) and (ours.st_dev, ours.st_ino) == (its.st_dev, its.st_ino)


def _is_journal() -> bool:
    """Whether standard error is the stream that systemd names in the environment."""
    try:
        found = os.fstat(_STDERR)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
