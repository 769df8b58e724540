"""The rollbacks of a site, as a query meets them: deliveries that were taken back."""

from collections.abc import Mapping
from typing import NamedTuple

from ordercast.model.errors import Error
from ordercast.model.groups import Site
from ordercast.pipeline.streams.offsets import Offset, Offsets


class Rollbacks(NamedTuple):
    """By attempt: the attempt that began, and the last position that stayed. Deliveries of lower
    attempts above it are annulled."""

    found: tuple[Offset, ...] = ()

    def annul(self, offset: Offset) -> bool:
        return any(
            each.attempt > offset.attempt and each.position < offset.position for each in self.found
        )

    def attempt_at(self, position: int) -> int:
        """The attempt of the delivery that stands at a position."""
        return max((each.attempt for each in self.found if each.position < position), default=1)

    def limit(self, attempt: int) -> int | None:
        """The last position that stands of the deliveries in this attempt. None: all stand."""
        return min((each.position for each in self.found if each.attempt > attempt), default=None)

    def until(self, attempt: int) -> "Rollbacks":
        return Rollbacks(tuple(each for each in self.found if each.attempt <= attempt))

    def told(self, start: Offset, end: Offset) -> tuple[Offset, ...]:
        """The rollbacks up to the end's attempt that take back what a query at `start` has read,
        one after the other."""
        at, told = start.position, []
        for each in self.until(end.attempt).found:
            if each.attempt > start.attempt and each.position < at:
                told.append(each)
                at = each.position
        return tuple(told)


Told = Mapping[Site, tuple[Offset, ...]]


def told_between(rollbacks: Mapping[Site, Rollbacks], start: Offsets, end: Offsets) -> Told:
    """What a batch tells of rollbacks, by site. Raises Error if that is not known."""
    found = {}
    for site, begin in start.items():
        own = rollbacks.get(site, Rollbacks())
        if begin.position and own.found and own.found[0].attempt > begin.attempt + 1:
            raise Error(
                f"site {site}: rolled back too often since attempt {begin.attempt}: only those from"
                f" attempt {own.found[0].attempt} on are known; begin a query with a new checkpoint"
            )
        if site in end:
            found[site] = own.told(begin, end[site])
    return {site: told for site, told in found.items() if told}


def gone_back(start: Offsets, told: Told) -> Offsets:
    """Where reading goes on behind the rollbacks."""
    return {
        site: told[site][-1] if site in told else offset for site, offset in sorted(start.items())
    }
