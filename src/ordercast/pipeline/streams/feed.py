"""What the source reads: daemons that run, a history, or stores. Each is a feed."""

from collections.abc import Mapping
from typing import Protocol

from ordercast.model.errors import Error
from ordercast.model.groups import Site
from ordercast.pipeline.streams.offsets import Offset, Offsets
from ordercast.pipeline.streams.rollbacks import Rollbacks


class DataLoss(Error):
    """What the query must read next is gone, or was taken back."""


def lost(site: Site, first: int, last: int, why: str) -> DataLoss:
    """The error for positions that are gone. `last` 0: it is not known how many."""
    what = f"positions {first} to {last}" if last else f"positions from {first} on"
    return DataLoss(
        f"site {site}: {what} cannot be read: {why}; with failOnDataLoss=false the query goes on"
        " behind them"
    )


class SiteFeed(Protocol):
    """Deliveries of some sites, by position. Without rollbacks it gives only deliveries that can
    never be taken back."""

    def first(self) -> Offsets:
        """For each site the place behind which the first readable delivery is."""

    def unread(self) -> Offsets | None:
        """The first places, if the query has surely read nothing yet. None: nobody knows."""

    def latest(self, start: Offsets) -> Offsets:
        """How far each site can be read. `start`: how far the query has read. A site is never below
        that, unless its positions began anew. Raises DataLoss."""

    def rollbacks(self) -> Mapping[Site, Rollbacks]:
        """The rollbacks of each site: at least those that the last end of `latest` includes."""

    def confirm(self, offsets: Mapping[Site, Offset]) -> None:
        """The query will not read up to there again."""

    def close(self) -> None: ...
