"""A site's report to the manager: how far it has folded the records, and the epochs that it has
closed.

A report of very many streams goes in parts. It is long, so it is sent when it is asked for, and not
at every beat.
"""

from collections.abc import Iterable
from typing import Protocol

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.streams.parts import closed_in_parts
from ordercast.model.epochs import Counts, Included
from ordercast.model.features import lacking
from ordercast.model.groups import Site
from ordercast.model.limits import PART
from ordercast.model.options import MILLISECOND
from ordercast.wire.epochs import Fed, SiteFrame

_AGAIN = 1_000 * MILLISECOND  # before a report in parts is repeated


class _Flush(Protocol):
    def news(self) -> tuple[int, bool, int, Counts, tuple[Site, ...], tuple[Site, ...], int]: ...


class _Hearing(Protocol):
    def report(self) -> tuple[Site, ...]: ...


class _Member(Protocol):
    """The member that reports."""

    name: Site
    now: int
    layout: Layout
    engines: dict[int, Engine]
    manager_at: Site | None
    detoured: tuple[Site, ...]
    features: tuple[str, ...]

    @property
    def flush(self) -> _Flush: ...
    @property
    def hearing(self) -> _Hearing: ...
    def say(self, peer: Site, frame: SiteFrame) -> None: ...


class ClosingReports:
    """State: the changes whose closing was reported; when a report in parts may be repeated."""

    def __init__(self, member: _Member) -> None:
        self._member = member
        self._told: dict[str, None] = {}
        self._due: dict[str, int] = {}

    def tell(self, peer: Site, wanted: Iterable[str] = ()) -> None:
        """`wanted`: the changes on which the peer has no report."""
        member, told, streams = self._member, list[tuple[str, Included]](), 0
        asked = tuple(wanted)
        for change, closing in member.layout.closing.items():
            again = change in asked and member.now >= self._due.get(change, 0)
            if not self.has_closed(change) or (change in self._due and not again):
                continue
            included = self.closed(change)
            streams += len(included)
            if streams <= PART:
                told.append((change, included))
            elif again:
                self._due[change] = member.now + _AGAIN
                for part in closed_in_parts(closing.number, included):
                    member.say(peer, part)
        silent = member.hearing.report()
        news = lacking(member.features, member.layout.features)
        fed = Fed(
            member.layout.count, tuple(told), *member.flush.news(), silent, member.detoured, news
        )
        member.say(peer, fed)

    def tell_manager(self, wanted: Iterable[str] = ()) -> None:
        if self._member.manager_at is not None:
            self.tell(self._member.manager_at, wanted)

    def look(self) -> None:
        """Tell the manager as soon as a Close has passed; it asks again if this is lost."""
        closing = self._member.layout.closing
        for change in closing:
            if change not in self._told and self.has_closed(change):
                self._told[change] = None
                self.tell_manager((change,))
        self._told = {change: None for change in self._told if change in closing}
        self._due = {change: at for change, at in self._due.items() if change in closing}

    def has_closed(self, change: str) -> bool:
        """Whether every Close of the change that comes here has passed."""
        return all(engine.epoch_state.closed for engine in self._engines(change))

    def closed(self, change: str) -> Included:
        """The report of this site for a change that it has closed for."""
        engines = self._engines(change)
        placed = tuple(e for engine in engines for e in engine.ordering.placed_here() if e[1])
        return (*placed, *(mark for engine in engines for mark in engine.own_marks()))

    def _engines(self, change: str) -> list[Engine]:
        member = self._member
        domains = member.layout.domains
        epochs = member.layout.closing[change].epochs
        return [member.engines[epoch] for epoch in epochs if member.name in domains[epoch].sites]
