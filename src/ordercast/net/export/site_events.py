"""The events that a site's store holds, as rows of a history."""

import json
from collections.abc import Iterator

from ordercast.history.rows import (
    BASE,
    CRASH,
    EXCLUDED,
    OPEN,
    RESTART,
    RETURNED,
    ROLLBACK,
    Event,
)
from ordercast.model.groups import Site
from ordercast.net.export.epochs import EpochTable
from ordercast.net.export.marks import SiteMark
from ordercast.net.export.source import StoreSource
from ordercast.net.store.events import parse_opening

_JOIN = '{"reason":"join"}'


class StoreEvents:
    """The events that the history has not got, by its mark, which moves on.

    `epoch`, `attempt`: where the site is after all of them; `away`: the epoch that was closed
    without it, as far as it knows.
    """

    def __init__(self, epochs: EpochTable, source: StoreSource, mark: SiteMark) -> None:
        self.epoch = epochs.founded(source.site)
        self.attempt = 1
        self.away = 0
        self._came_later = not self.epoch or source.incarnation > 1
        self._source = source
        self._mark = mark
        self._opened = {one.epoch: at_ns for one, at_ns in source.opened()}
        self._rows = source.log.rows("n, kind, position, at_ns, detail", "events ORDER BY n")

    def bases(self, lacking: int) -> Iterator[Event]:
        """Where rows start: of a site that joined, and after a last position that is `lacking`."""
        site, opened = self._source.site, self._opened
        joined = self._came_later and opened and not any(kind == BASE for _, kind, *_ in self._rows)
        if joined and not self._mark.joined:
            self._mark.joined = True
            yield event_at(site, BASE, 0, min(opened), 0, _JOIN)
        if lacking:
            first = self._source.log.epoch_after(lacking) or max(opened, default=self.epoch)
            yield event_at(site, BASE, lacking, first, 0, '{"reason":"truncated"}')

    def rows(self) -> Iterator[Event]:
        was_away = False
        after = self._mark.event_row
        for n, kind, position, at_ns, detail in self._rows:
            made: list[Event] = []
            if kind == OPEN:
                one = parse_opening(position, detail)
                if one.epoch not in self._opened:
                    continue
                self.epoch = one.epoch
                if was_away and one.joined:  # for too long: it was handed the state
                    made.append(self._event(BASE, position, one.epoch, at_ns, _JOIN))
                was_away = False
                del self._opened[one.epoch]
                made.append(self._event(OPEN, position, one.epoch, at_ns))
            elif kind == ROLLBACK:
                self.attempt = json.loads(detail)["attempt"]
                made.append(self._event(kind, position, self.epoch, at_ns))
            elif kind in (EXCLUDED, RETURNED):
                closed = json.loads(detail)["epoch"]
                self.away = closed if kind == EXCLUDED else 0
                was_away = was_away or kind == EXCLUDED
                made.append(self._event(kind, position, closed, at_ns))
            elif kind in (CRASH, RESTART, BASE):
                made.append(self._event(kind, position, self.epoch, at_ns, detail))
            else:
                continue
            if n > after:
                self._mark.event_row = n
                yield from made

    def _event(self, kind: str, position: int, epoch: int, at_ns: int, detail: str = "{}") -> Event:
        return event_at(self._source.site, kind, position, epoch, at_ns, detail, self.attempt)


def event_at(
    site: Site, kind: str, position: int, epoch: int, at_ns: int, detail: str, attempt: int = 1
) -> Event:
    """Without a number."""
    attempt = attempt if position or kind == ROLLBACK else 0
    return Event(site, 0, kind, position, attempt, epoch, at_ns, detail)
