"""Runs: if a history has several, each run is judged by itself."""

from collections import defaultdict

from ordercast.history.rows import History


def split_runs(history: History) -> list[tuple[str | None, History]]:
    """Each run by itself, in the order of their names.

    A `groups` or `epochs` table that names no run at all, in a history that does, holds for all.
    """
    named = {row.run for rows in history.tables().values() for row in rows if row.run is not None}
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
