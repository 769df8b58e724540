"""Stores as a feed: the files SITE.db of a folder, whether their sites run or not.

Only deliveries that can never be taken back are read. These are all deliveries at `safe`, and under
the policy `wait`; otherwise those that the store's checkpoint includes, because a restart goes back
to it. Where rollbacks are told, all deliveries are read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ordercast.model.errors import ConfigError, Forgotten
from ordercast.model.groups import Site
from ordercast.model.names import nearest
from ordercast.net.export.source import StoreSource, sources
from ordercast.net.store.checkpoint import released_by
from ordercast.net.store.reader import LogReader
from ordercast.pipeline.streams.columns import BATCH_ROWS, RowsOfBatches
from ordercast.pipeline.streams.feed import lost
from ordercast.pipeline.streams.offsets import Offset, Offsets, PositionRange
from ordercast.pipeline.streams.options import SourceOptions
from ordercast.pipeline.streams.rollbacks import Rollbacks


class _Extent(NamedTuple):
    """The first and the last position in a site's log, when the store was made, and how far it
    can be read."""

    first: int
    logged: int
    made: int
    end: Offset


class StoresFeed:
    def __init__(self, options: SourceOptions) -> None:
        assert options.store is not None
        self._folder = options.store
        self._options = options
        self._made: dict[Site, int] = {}

    def first(self) -> Offsets:
        looked, rollbacks = self._looked(), self.rollbacks()
        return {
            site: Offset(rollbacks[site].attempt_at(store.first - 1), store.first - 1)
            for site, store in looked.items()
        }

    def unread(self) -> None:
        """Reading files leaves nothing in them."""

    def latest(self, start: Offsets) -> Offsets:
        found = dict(start)
        for site, store in self._looked().items():
            begin, end = start.get(site), store.end
            back = begin is not None and self._options.rollbacks and end.attempt > begin.attempt
            if begin is None or back or end.position >= begin.position:
                found[site] = end
            if begin is None or back:
                continue
            if begin.position < store.first - 1 and self._options.fail_on_data_loss:
                raise lost(site, begin.position + 1, store.first - 1, "they are no longer kept")
            why = self._replaced(site, begin, store)
            if why is not None:
                if self._options.fail_on_data_loss:
                    raise lost(site, begin.position + 1, 0, why)
                self._made[site] = store.made
                found[site] = Offset(end.attempt, min(end.position, max(0, begin.position - 1)))
        return found

    def _replaced(self, site: Site, begin: Offset, store: "_Extent") -> str | None:
        """Why positions of the site began anew. None: they did not, as far as can be known."""
        if self._made.setdefault(site, store.made) != store.made:
            return "it is another store than the one that was read before"
        if store.logged < begin.position:  # whatever was delivered stays in the log
            return f"the log ends at {store.logged}: it is another store, or an older copy"
        return None

    def rollbacks(self) -> Mapping[Site, Rollbacks]:
        return {
            path.stem: _rollbacks_in(path)
            for path in self._folder.glob("*.db")
            if not self._options.sites or path.stem in self._options.sites
        }

    def confirm(self, offsets: Mapping[Site, Offset]) -> None:
        """Reading files needs no named reader in them."""

    def close(self) -> None: ...

    def _looked(self) -> dict[Site, "_Extent"]:
        found = sources(self._folder)
        try:
            known = {source.site: source for source in found}
            for site in self._options.sites:
                if site not in known:
                    hint = nearest(site, known)
                    raise ConfigError(f"sites: {self._folder} has no store of {site!r}{hint}")
            return {
                site: _Extent(
                    source.log.first_position(),
                    source.log.last_position(),
                    int(source.log.state["created_ns"]),
                    _end(source, self._options.rollbacks),
                )
                for site, source in sorted(known.items())
                if not self._options.sites or site in self._options.sites
            }
        finally:
            for source in found:
                source.close()


def _end(source: StoreSource, rollbacks: bool) -> Offset:
    """How far a store can be read. `rollbacks`: deliveries that may be taken back count too."""
    facts = source.facts or {}
    last = source.last_delivered(str(facts.get("deliver", "agreed")))
    if not rollbacks and facts.get("deliver") != "safe" and facts.get("on_failure") != "wait":
        anew = source.log.anew
        last = 0 if anew is None else min(last, released_by(anew))
    found = _rollbacks_in(source.path).found
    return Offset(found[-1].attempt if found else 1, last)


def _rollbacks_in(path: Path) -> Rollbacks:
    reader = LogReader(path)
    try:
        return Rollbacks(tuple(Offset(each.attempt, each.position) for each in reader.rollbacks()))
    finally:
        reader.close()


def read_stores_span(options: SourceOptions, span: PositionRange) -> Iterator[Any]:
    """The Arrow batches of a range; in a task."""
    assert options.store is not None
    rows = RowsOfBatches(span.site, options.headers)
    groups = None if options.groups is None else set(options.groups)
    rows.add_rollbacks(span)
    if span.anew:
        if options.fail_on_data_loss:
            raise lost(span.site, 1, 0, "positions began anew")
        rows.add_gap(1, 0)
    path = options.store / f"{span.site}.db"
    # What was taken back since the range was planned is gone; the next batch tells it.
    limit = _rollbacks_in(path).limit(span.attempt) if options.rollbacks else None
    last = span.last if limit is None else min(span.last, limit)
    reader, at = LogReader(path), span.after
    try:
        while at < last:
            try:
                batches = reader.read(at + 1, BATCH_ROWS)
            except Forgotten:
                first = min(reader.first(), last + 1)
                if not span.joins:
                    if options.fail_on_data_loss:
                        why = "they are no longer kept"
                        raise lost(span.site, at + 1, first - 1, why) from None
                    rows.add_gap(at + 1, first - 1)
                at = first - 1
                continue
            if not batches:
                raise lost(span.site, at + 1, last, "the store ends before them")
            for batch in batches:
                if groups is None or not groups.isdisjoint(batch.audience):
                    rows.add(batch, at, last)
            at = batches[-1].last
            yield from rows.full()
        yield from rows.rest()
    finally:
        reader.close()
