"""For a daemon with this folder on its path: every commit of its store takes 20 ms longer, as on a
disk that is slow to write."""

import sqlite3
import time
from typing import Any

COMMIT_S = 0.02
_connect = sqlite3.connect


class _Slow(sqlite3.Connection):
    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            time.sleep(COMMIT_S)
        return super().execute(sql, *given)


def _slowly(*given: Any, **named: Any) -> Any:
    return _connect(*given, **{"factory": _Slow, **named})


sqlite3.connect = _slowly
