"""A run on one time line: frames with their times of leaving and coming, and the events at each
site.

A trace is made from a simulated run with its log of frames, or from any history: then an arrow goes
from where a message was sent to where it was delivered. Times are nanoseconds.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ordercast.model.groups import Group, Site
from ordercast.model.messages import MessageId
from ordercast.sim.trace.words import (
    carried_messages,
    frame_words,
    has_items,
    message_words,
)

DATA, CONTROL, VOTING, DELIVERY = "data", "control", "voting", "delivery"
SEND, DELIVER, CLOSE = "send", "deliver", "close"  # beside the kinds of a history's events
DOWN, PAUSED, EXCLUDED, CLOSING = "down", "paused", "excluded", "closing"


class TraceArrow(NamedTuple):
    """A frame; or, in a trace of a history, a message to one member. `arrives` is negative if it
    never came."""

    sent: int
    source: Site
    peer: Site
    arrives: int
    kind: str
    frame: Any = None
    message: MessageId | None = None

    def words(self) -> str:
        return message_words(self.message) if self.message else frame_words(self.frame)

    def speaks(self) -> bool:
        """Whether it has words: quicker than finding them."""
        return self.message is not None or has_items(self.frame) or bool(frame_words(self.frame))

    def messages(self) -> list[MessageId]:
        return [self.message] if self.message else list(carried_messages(self.frame))


class Mark(NamedTuple):
    """Something that happened at a site. `position` and `attempt` are those of a delivery, or where
    the site stood."""

    at: int
    site: Site
    kind: str
    epoch: int = 0
    message: MessageId | None = None
    position: int = 0
    attempt: int = 0

    def words(self) -> str:
        if self.kind == DELIVER and self.message:
            return f"{self.position}: {message_words(self.message)}"
        if self.kind == SEND and self.message:
            return f"sends {message_words(self.message)}"
        return f"{self.kind} of epoch {self.epoch}" if self.kind in (CLOSE, "open") else self.kind


class Span(NamedTuple):
    """A state that lasts: of sites, or between `sites` and `others`."""

    start: int
    stop: int
    kind: str
    sites: tuple[Site, ...]
    others: tuple[Site, ...] = ()


class EpochShape(NamedTuple):
    """An epoch as of its first opening. `parent` is empty where no forest is known."""

    epoch: int
    at: int
    protocol: str
    reason: str
    groups: Mapping[Group, tuple[Site, ...]]
    parent: Mapping[Site, Site | None]
    primary: Mapping[Group, Site]


class SiteState(NamedTuple):
    """A site as of some time. `coming`: arrows on their way to it."""

    site: Site
    state: str
    epoch: int
    position: int
    last: MessageId | None
    sent: int
    coming: int


@dataclass
class Trace:
    """Arrows are sorted by `sent`, marks by `at`."""

    title: str
    clock: str
    start: int
    end: int
    sites: tuple[Site, ...]
    arrows: list[TraceArrow]
    marks: list[Mark]
    spans: list[Span]
    epochs: list[EpochShape]
    command: str = ""
    notes: list[str] = field(default_factory=list)
    violations: Sequence[Mapping[str, Any]] = ()

    def arrows_between(self, start: int, stop: int) -> list[TraceArrow]:
        """All that are on their way at some time of the window."""
        first = bisect_left(self._sent, start - self._longest)
        last = bisect_right(self._sent, stop)
        return [a for a in self.arrows[first:last] if max(a.sent, a.arrives) >= start]

    def marks_between(self, start: int, stop: int) -> list[Mark]:
        return self.marks[bisect_left(self._at, start) : bisect_right(self._at, stop)]

    def spans_between(self, start: int, stop: int) -> list[Span]:
        return [span for span in self.spans if span.start <= stop and span.stop >= start]

    def neighbours(self, at: int) -> tuple[int | None, int | None]:
        """The times of the events just before and just after this one."""
        times, last = self._times, len(self._times)
        before, after = bisect_left(times, at), bisect_right(times, at)
        return (times[before - 1] if before else None, times[after] if after < last else None)

    def states(self, at: int) -> list[SiteState]:
        coming: dict[Site, int] = {}
        for arrow in self.arrows_between(at, at):
            if arrow.sent <= at < arrow.arrives:
                coming[arrow.peer] = coming.get(arrow.peer, 0) + 1
        inside: dict[Site, str] = {}
        for span in self.spans_between(at, at):
            if not span.others and span.start <= at < span.stop:
                for site in span.sites:
                    inside[site] = DOWN if DOWN in (span.kind, inside.get(site)) else span.kind
        return [self._state(site, at, inside.get(site, "up"), coming) for site in self.sites]

    def _state(self, site: Site, at: int, state: str, coming: Mapping[Site, int]) -> SiteState:
        times, marks = self._by_site[site]
        stands: Mark | None = None
        delivered: Mark | None = None
        for i in range(bisect_right(times, at) - 1, -1, -1):
            mark = marks[i]
            if mark.kind in (SEND, CLOSE):
                continue
            stands = stands or mark
            if mark.kind == DELIVER and mark.position <= stands.position:
                delivered = mark
                break
        return SiteState(
            site,
            state,
            stands.epoch if stands else 0,
            stands.position if stands else 0,
            delivered.message if delivered else None,
            bisect_right(self._sends[site], at),
            coming.get(site, 0),
        )

    def epochs_at(self, at: int) -> list[EpochShape]:
        """The open ones: those whose sites are in no later epoch that has begun."""
        found: list[EpochShape] = []
        taken: set[Site] = set()
        for shape in sorted(self.epochs, key=lambda each: -each.epoch):
            if shape.at <= at and not taken & shape.parent.keys():
                found.append(shape)
                taken |= shape.parent.keys()
        return found[::-1]

    def journey(self, message: MessageId) -> tuple[list[Mark], list[TraceArrow]]:
        """All that concerns one message, in the order of time."""
        return [self.marks[i] for i in self._marked.get(message, ())], [
            self.arrows[i] for i in self._carrying.get(message, ())
        ]

    def known(self, message: MessageId) -> bool:
        return message in self._marked

    # --- indexes, made when they are needed -------------------------------------------------------

    @cached_property
    def _sent(self) -> list[int]:
        return [arrow.sent for arrow in self.arrows]

    @cached_property
    def _at(self) -> list[int]:
        return [mark.at for mark in self.marks]

    @cached_property
    def _longest(self) -> int:
        return max((arrow.arrives - arrow.sent for arrow in self.arrows), default=0)

    @cached_property
    def _times(self) -> list[int]:
        seen = {mark.at for mark in self.marks}
        for arrow in self.arrows:
            if arrow.kind != VOTING:
                seen.add(arrow.sent)
                seen.add(max(arrow.sent, arrow.arrives))
        return sorted(at for at in seen if self.start <= at <= self.end)

    @cached_property
    def _by_site(self) -> dict[Site, tuple[list[int], list[Mark]]]:
        found: dict[Site, tuple[list[int], list[Mark]]] = {site: ([], []) for site in self.sites}
        for mark in self.marks:
            times, marks = found[mark.site]
            times.append(mark.at)
            marks.append(mark)
        return found

    @cached_property
    def _sends(self) -> dict[Site, list[int]]:
        return {
            site: [mark.at for mark in marks if mark.kind == SEND]
            for site, (_, marks) in self._by_site.items()
        }

    @cached_property
    def _marked(self) -> dict[MessageId, list[int]]:
        found: dict[MessageId, list[int]] = {}
        for i, mark in enumerate(self.marks):
            if mark.message is not None:
                found.setdefault(mark.message, []).append(i)
        return found

    @cached_property
    def _carrying(self) -> dict[MessageId, list[int]]:
        found: dict[MessageId, list[int]] = {}
        for i, arrow in enumerate(self.arrows):
            if arrow.kind != VOTING:
                for message in arrow.messages():
                    found.setdefault(message, []).append(i)
        return found
