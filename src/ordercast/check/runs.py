"""Runs: many runs in one history are judged each by itself."""

from collections import defaultdict

from ordercast.history.rows import EpochRow, GroupRow, History


def split_runs(history: History) -> list[tuple[str | None, History]]:
    """Each run by itself, in the order of their names.

    A `groups` or `epochs` table that names no run at all, in a history that does, holds for all.
    """
    named = {row.run for rows in history.tables().values() for row in rows if row.run is not None}
    if not named:
        return [(None, history)]
    parts: dict[str | None, History] = defaultdict(lambda: History(meta=history.meta))
    for sent in history.sent:
        parts[sent.run].sent.append(sent)
    for delivered in history.deliveries:
        parts[delivered.run].deliveries.append(delivered)
    for event in history.events:
        parts[event.run].events.append(event)
    for name in sorted(named):
        parts[name]  # a run may have nothing but groups and epochs
    _split_groups(history.groups, parts)
    _split_epochs(history.epochs, parts)
    return sorted(parts.items(), key=lambda item: (item[0] is not None, item[0] or ""))


def _split_groups(groups: list[GroupRow], parts: dict[str | None, History]) -> None:
    if all(row.run is None for row in groups):
        for part in parts.values():
            part.groups = groups
    else:
        for row in groups:
            parts[row.run].groups.append(row)


def _split_epochs(epochs: list[EpochRow], parts: dict[str | None, History]) -> None:
    if all(row.run is None for row in epochs):
        for part in parts.values():
            part.epochs = epochs
    else:
        for row in epochs:
            parts[row.run].epochs.append(row)
