"""The source, as Spark calls it: readers of a batch and of a stream over a feed.

Below Spark 4.2 a source in Python is not told where a batch starts when its end is asked for: the
reader then keeps the limit by itself, from the end that it has told last, or where a new query
begins. docs/streams.md says when neither is known.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest
from ordercast.pipeline.streams.feed import SiteFeed
from ordercast.pipeline.streams.histories import HistoryFeed, HistoryPart, read_history_span
from ordercast.pipeline.streams.nodes import Door, NodesFeed, read_span
from ordercast.pipeline.streams.offsets import (
    BEGINNING,
    Offset,
    Offsets,
    PositionRange,
    as_json,
    limited,
    offsets_from,
    spans,
)
from ordercast.pipeline.streams.options import EARLIEST, LATEST, SourceOptions
from ordercast.pipeline.streams.rollbacks import Told, gone_back, told_between
from ordercast.pipeline.streams.stores import StoresFeed, read_stores_span

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxRows,
    )
    from pyspark.sql.streaming.datasource import (
        SupportsTriggerAvailableNow as SupportsTriggerAvailableNow,
    )

    ADMISSION = True
except ImportError:  # Spark 4.0 and 4.1
    ADMISSION = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark has no such thing yet."""


@dataclass
class SitePartition(InputPartition):
    """What one task reads, and where it finds that."""

    span: PositionRange
    place: Door | HistoryPart | None = None


def feed_of(options: SourceOptions, *, named: bool) -> SiteFeed:
    if options.nodes is not None:
        return NodesFeed(options, named=named)
    return HistoryFeed(options) if options.history is not None else StoresFeed(options)


def partitions_of(
    feed: SiteFeed, options: SourceOptions, start: Offsets, end: Offsets
) -> list[SitePartition]:
    told = _told(feed, options, start, end)
    found = spans(gone_back(start, told), end, options.most_in_partition)
    found = _with_rollbacks(found, start, end, told)
    if isinstance(feed, HistoryFeed):
        return [SitePartition(span, feed.part(span)) for span in found]
    doors = feed.doors() if isinstance(feed, NodesFeed) and found else {}
    return [SitePartition(span, doors.get(span.site)) for span in found]


def _told(feed: SiteFeed, options: SourceOptions, start: Offsets, end: Offsets) -> Told:
    return told_between(feed.rollbacks(), start, end) if options.rollbacks else {}


def _with_rollbacks(
    found: list[PositionRange], start: Offsets, end: Offsets, told: Told
) -> list[PositionRange]:
    """The first range of a site tells its rollbacks, even if it has no positions yet."""
    left, made = dict(told), []
    for span in found:
        own = left.pop(span.site, ())
        made.append(span._replace(told=own, read=start[span.site].position) if own else span)
    for site, own in left.items():
        at, read = own[-1].position, start[site].position
        made.append(PositionRange(site, at, at, attempt=end[site].attempt, told=own, read=read))
    return made


def read_partition(
    options: SourceOptions, partition: SitePartition, *, named: bool
) -> Iterator[Any]:
    """The Arrow batches of a partition; in a task."""
    place, span = partition.place, partition.span
    if isinstance(place, Door):
        return read_span(options, place, span, named=named)
    if isinstance(place, HistoryPart):
        return read_history_span(options, place, span)
    return read_stores_span(options, span)


def starting_at(feed: SiteFeed, options: SourceOptions, first: Offsets) -> Offsets:
    return _chosen(feed, options.starting, first, "startingOffsets")


def ending_at(feed: SiteFeed, options: SourceOptions, first: Offsets) -> Offsets:
    return _chosen(feed, options.ending, first, "endingOffsets")


def _chosen(feed: SiteFeed, wanted: str | Offsets, first: Offsets, option: str) -> Offsets:
    """Offsets as an option names them. `first`: where JSON names no offset for a site, or 0. In a
    query 0 says that nothing was gone when it began."""
    if wanted == EARLIEST:
        return first
    if wanted == LATEST:
        return feed.latest({})
    assert isinstance(wanted, dict)
    for site in wanted:
        if site not in first:
            raise ConfigError(f"{option}: {site!r} is none of the sites{nearest(site, first)}")
    named = {site: offset for site, offset in wanted.items() if offset.position}
    return {site: named.get(site, offset) for site, offset in first.items()}


class BatchReader(DataSourceReader):
    """`spark.read`: from the starting to the ending offsets."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Also where there is nothing to read: Spark takes an empty list for one partition."""
        feed = feed_of(self.options, named=False)
        try:
            first = feed.first()
            start = starting_at(feed, self.options, first)
            end = ending_at(feed, self.options, first)
            both = {site: end[site] for site in start if site in end}
            end = {site: to for site, to in both.items() if to.position > start[site].position}
            found: list[InputPartition] = []
            found += partitions_of(feed, self.options, start, end)
        finally:
            feed.close()
        return found or [SitePartition(PositionRange("", 0, 0))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SitePartition)
        if not partition.span.site:
            return iter(())
        return read_partition(self.options, partition, named=False)


class QueryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`. On the driver it lives as long as the query; a task has a copy. It
    confirms one batch late: Spark may repeat the last batch if its commit is lost."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._feed: SiteFeed | None = None
        self._begun: Offsets | None = None  # where a new query begins, if that is asked for late
        self._told: Offsets | None = None  # the end that was told last, where Spark has no limits
        self._seen: Offsets | None = None  # how far the sites were when they were last asked
        self._target: Offsets | None = None  # of a query that reads what is there, and ends
        self._done: Offsets | None = None  # the end of the last batch that is done

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_feed": None}

    @property
    def feed(self) -> SiteFeed:
        if self._feed is None:
            self._feed = feed_of(self.options, named=True)
        return self._feed

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self.options.require_own_reader()
        first = self.feed.first()  # also makes the reader, so that nothing is forgotten from now on
        begun = self._begun
        if begun is None and self.options.starting == LATEST:
            begun = self._told  # more may have come since that end was told
        self._told = begun or starting_at(self.feed, self.options, first)
        return as_json(self._told)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        most = self.options.most_positions
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        read = self._told if start is None else offsets_from(start, "offset")
        most = self.options.most_positions if limit is None else getattr(limit, "max_rows", None)
        begin = self._unread() if read is None and most is not None else read
        end = self._latest(read or {})
        if most is not None and begin is not None:
            told = _told(self.feed, self.options, begin, end)
            end = limited(self._with_joining(gone_back(begin, told), end), end, most)
        self._told = end
        return as_json(end)

    def _with_joining(self, begin: Offsets, end: Offsets) -> Offsets:
        """Where sites begin that are new to the query: a limit counts only what is kept."""
        if end.keys() <= begin.keys():
            return begin
        first = self.feed.first()
        return {**{site: first[site] for site in end if site in first}, **begin}

    def _unread(self) -> Offsets | None:
        """Where the query begins, if it is surely new: Spark asks for that after the first end."""
        first = self.feed.unread()
        if first is not None:
            self._begun = starting_at(self.feed, self.options, first)
        return self._begun

    def _latest(self, begin: Offsets) -> Offsets:
        """A site that has come since the target was told joins a later query."""
        self._seen = end = self.feed.latest(begin)
        target = self._target
        if target is None:
            return end
        return {
            site: self._until_target(begin.get(site, BEGINNING), target.get(site), to)
            for site, to in end.items()
            if site in begin or site in target
        }

    def _until_target(self, start: Offset, target: Offset | None, to: Offset) -> Offset:
        if target is None:
            target = start
        if to.position < start.position or to.position <= target.position:
            return to
        return max(target, start, key=lambda each: each.position)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self.feed.latest({})

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Asks nothing in the name of the query: that could hide that a site began anew."""
        return as_json(self.feed.latest({}) if self._seen is None else self._seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begin, to = offsets_from(start, "offset"), offsets_from(end, "offset")
        self._told = to
        found: list[InputPartition] = []
        found += partitions_of(self.feed, self.options, begin, to)
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SitePartition)
        return read_partition(self.options, partition, named=True)

    def commit(self, end: dict[str, Any]) -> None:
        before, self._done = self._done, offsets_from(end, "offset")
        if before is not None:
            self.feed.confirm(before)

    def stop(self) -> None:
        if self._feed is not None:
            self._feed.close()
            self._feed = None
