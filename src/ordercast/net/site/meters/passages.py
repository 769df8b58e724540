"""Epochs as they pass: when each opened here, why, and how long the epochs before it took to close.

An operator asks for this after a bad night. It is kept in memory, for the last epochs only.
"""

from collections import deque
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Flushing, Layout
from ordercast.net.site.layout_view import edit_told

MOST_PASSAGES = 64


class Passage(msgspec.Struct, frozen=True):
    """An epoch that opened while this process ran. `pause_ms`: the time since this site heard that
    the epochs before it close. None: it heard of both at once."""

    epoch: int
    after: tuple[int, ...]
    at_ns: int  # by the clock of the site
    pause_ms: float | None
    reason: str
    protocol: str
    sites: tuple[str, ...]


class Passages:
    """State: the last epochs that opened, and when and why each open one began to close."""

    def __init__(self, layout: Layout) -> None:
        self._last: deque[Passage] = deque(maxlen=MOST_PASSAGES)
        self._closing: dict[int, tuple[int, str]] = {}  # by epoch: when, why
        self._seen = layout.last_epoch

    def follow(self, layout: Layout, now: int, at_ns: int) -> None:
        """`now`: of the monotonic clock; `at_ns`: of the clock on the wall."""
        if layout.last_epoch > self._seen:
            for epoch in sorted(number for number in layout.domains if number > self._seen):
                self._opened(layout, epoch, now, at_ns)
            self._seen = layout.last_epoch
        closing: dict[int, tuple[int, str]] = {}
        for name, change in layout.closing.items():
            reason = "; ".join(map(edit_told, change.edits)) or name
            for epoch in change.epochs:
                closing[epoch] = (self._since(epoch, now), reason)
        flush = layout.flushing
        if flush is not None:
            reason = _flush_told(flush, layout)
            for epoch in flush.epochs:
                closing[epoch] = (self._since(epoch, now), reason)
        self._closing = closing

    def _since(self, epoch: int, now: int) -> int:
        return self._closing[epoch][0] if epoch in self._closing else now

    def _opened(self, layout: Layout, epoch: int, now: int, at_ns: int) -> None:
        domain = layout.domains[epoch]
        before = [self._closing[old] for old in domain.after if old in self._closing]
        # A domain without a domain before it opens with the change that closes others.
        before = before or list(self._closing.values())
        since = min((when for when, _ in before), default=None)
        reasons = dict.fromkeys(why for _, why in before)
        self._last.append(
            Passage(
                epoch,
                domain.after,
                at_ns,
                None if since is None else round((now - since) / 1e6, 3),
                "; ".join(reasons),
                domain.protocol,
                tuple(domain.sites),
            )
        )

    def told(self) -> list[dict[str, Any]]:
        return [msgspec.to_builtins(passage) for passage in self._last]


def _flush_told(flush: Flushing, layout: Layout) -> str:
    """Why epochs are flushed."""
    gone = [site for site in sorted(flush.absent) if site not in layout.absent]
    back = [site for site in flush.members if site in layout.absent]
    lost = dict.fromkeys(flush.fresh, " without its store")
    told = [f"{site} is excluded" for site in gone]
    told += [f"{site} returns{lost.get(site, '')}" for site in back]
    return "; ".join(told) or "a flush that no site left or joined"
