"""Runs: if a history has several, each run is judged by itself, or only those that are chosen."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest


def split_runs(history: History) -> list[tuple[str | None, History]]:
    """Each run by itself, in the order of their names.

    A `groups` or `epochs` table that names no run at all, in a history that does, holds for all.
    """
    named = named_runs(history)
    if not named:
        return [(None, history)]
    parts: dict[str | None, History] = defaultdict(lambda: History(meta=history.meta))
    for name in ("sent", "deliveries", "events"):
        _split(history, name, parts)
    for run in sorted(named):
        parts[run]  # a run may have nothing but groups and epochs
    for name in ("groups", "epochs"):
        rows = getattr(history, name)
        if all(row.run is None for row in rows):
            for part in parts.values():
                setattr(part, name, rows)
        else:
            _split(history, name, parts)
    return sorted(parts.items(), key=lambda item: (item[0] is not None, item[0] or ""))


def _split(history: History, table: str, parts: dict[str | None, History]) -> None:
    for row in getattr(history, table):
        getattr(parts[row.run], table).append(row)


def named_runs(history: History) -> set[str]:
    return {row.run for rows in history.tables().values() for row in rows if row.run is not None}


def choose_runs(history: History, runs: Sequence[str]) -> History:
    """Only these runs of every table. A `groups` or `epochs` table that names no run holds for all,
    so it stays."""
    chosen = History(meta=history.meta)
    for name, rows in history.tables().items():
        for_all = name in ("groups", "epochs") and all(row.run is None for row in rows)
        setattr(chosen, name, rows if for_all else [row for row in rows if row.run in runs])
    return chosen


def require_runs(runs: Sequence[str], known: Collection[str | None]) -> None:
    """`known`: those that any table names."""
    for run in runs:
        if run not in known:
            names = sorted(name for name in known if name is not None)
            raise ConfigError(f"run {run!r}: the history has no such run{nearest(run, names)}")
