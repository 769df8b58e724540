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
    """`last` 0: it is not known how many."""
    what = f"positions {first} to {last}" if last else f"positions from {first} on"
    return DataLoss(
        f"site {site}: {what} cannot be read: {why}; with failOnDataLoss=false the query goes on"
        " behind them"
    )


class SiteFeed(Protocol):
    """Deliveries of some sites, by position. It gives only those that can never be taken back,
    unless rollbacks are told."""

    def first(self) -> Offsets:
        """Behind this the first delivery of each site is that can be read."""

    def latest(self, start: Offsets) -> Offsets:
        """How far each site can be read. `start`: how far the query is; a site is never below it,
        unless its positions began anew. Raises DataLoss."""

    def rollbacks(self) -> Mapping[Site, Rollbacks]:
        """Of each site; at least those that an end of `latest` counts."""

    def confirm(self, offsets: Mapping[Site, Offset]) -> None:
        """The query will not read up to there again."""

    def close(self) -> None: ...
