"""Where the Cluster page gets its overviews from: a running cluster, or a simulated run that is
played again and again at its own speed.

A sampler asks its feed while somebody looks, once a second at most, and gives every page the last
overview. What happens between two samples is seen only as a mean: the page says so.
"""

import asyncio
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from ordercast.model.errors import Error
from ordercast.model.groups import Group, Site
from ordercast.net.client.destinations import Destination
from ordercast.net.client.overview import (
    EpochOverview,
    EpochPassage,
    GroupOverview,
    LinkOverview,
    Overview,
    QueueFill,
    SiteOverview,
    overview,
)
from ordercast.net.client.statuses import ask_all
from ordercast.sim.trace import trace as made
from ordercast.sim.trace.trace import Trace
from ordercast.web.forest_picture import ForestShape, extra_sites_of
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import Data
from ordercast.wire.items import total_weight

EVERY_S = 1.0
KEPT = 300  # samples, for the charts of a page that is opened later


class NotYet(Error):
    """There is no overview yet: what there will be is being made."""


class OverviewFeed(Protocol):
    note: str
    """How the overviews come about, in a line for people."""

    async def look(self) -> Overview: ...


class ClusterFeed:
    """State: the overview before, for the rates."""

    note = "Every site is asked once a second. A rate is the mean between two samples."

    def __init__(self, place: Destination) -> None:
        self._place = place
        self._before: Overview | None = None

    async def look(self) -> Overview:
        statuses = await ask_all(self._place)
        self._before = overview(self._place.name, statuses, time.monotonic(), self._before)
        return self._before


class TraceFeed:
    """State: when the playing began. Counts go on from one round to the next."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._begun = time.monotonic()
        self._length = max(1, trace.end - trace.start)
        self._by_link = _by_link(trace)
        self._by_group = _by_group(trace)
        self._rounds = {state.site: state.position for state in trace.states(trace.end)}
        self._at = _delivered(trace)
        self.note = (
            f"A simulated feed: {self._length / 1e9:.1f} s of virtual time, played again and again"
            " at their own speed, sampled once a second. A rate is the mean of the last second."
        )

    async def look(self) -> Overview:
        at_s = time.monotonic()
        return await asyncio.to_thread(self.at, at_s, int((at_s - self._begun) * 1e9))

    def at(self, at_s: float, elapsed: int) -> Overview:
        rounds, within = divmod(elapsed, self._length)
        trace, now = self._trace, self._trace.start + within
        shapes = trace.epochs_at(now)
        shape = ForestShape(
            {site: above for each in shapes for site, above in each.parent.items()},
            {group: members for each in shapes for group, members in each.groups.items()},
            {group: site for each in shapes for group, site in each.primary.items()},
        )
        return Overview(
            cluster=trace.title,
            at_s=at_s,
            sites=self._sites(now, rounds),
            groups=self._group_overviews(shape, now, rounds),
            epochs=tuple(
                EpochOverview(
                    each.epoch, each.protocol, "", _root(each.parent), tuple(each.parent),
                    dict(each.parent), tuple(each.groups), (), "",
                )
                for each in shapes
            ),
            passages=tuple(
                EpochPassage(
                    each.epoch, (), each.at, _pause_ms(trace, each.epoch), each.reason,
                    each.protocol, tuple(each.parent),
                )
                for each in trace.epochs
                if each.at <= now
            ),
            links=tuple(self._links(shape.parent, now, rounds)),
            changes=(),
            manager=None,
            voters=(),
            excluded=tuple(
                site
                for span in trace.spans_between(now, now)
                if span.kind == made.EXCLUDED
                for site in span.sites
            ),
            apart=(),
            flushing=False,
        )  # fmt: skip

    def _sites(self, now: int, rounds: int) -> dict[Site, SiteOverview]:
        found = {}
        for state in self._trace.states(now):
            down = state.state == made.DOWN
            position = rounds * self._rounds[state.site] + state.position
            found[state.site] = SiteOverview(
                state.site,
                "down" if down else "up" if state.state == "up" else "unwell",
                () if state.state == "up" else (f"{state.state} in the simulation",),
                known=not down,
                epoch=state.epoch,
                position=position,
                rate=self._rate(self._at[state.site], now, rounds),
                queued=state.coming,
                window=QueueFill("window", 0, 1),
                uptime_s=(now - self._trace.start) / 1e9,
            )
        return found

    def _group_overviews(
        self, shape: ForestShape, now: int, rounds: int
    ) -> dict[Group, GroupOverview]:
        extra: dict[Group, list[Site]] = {}
        for site, groups in extra_sites_of(shape).items():
            for group in groups:
                extra.setdefault(group, []).append(site)
        return {
            group: GroupOverview(
                group,
                tuple(members),
                shape.primary.get(group, ""),
                tuple(extra.get(group, ())),
                sent=rounds * len(self._by_group.get(group, ()))
                + bisect_right(self._by_group.get(group, []), now),
                sent_rate=self._rate(self._by_group.get(group, []), now, rounds),
            )
            for group, members in sorted(shape.groups.items())
        }

    def _links(
        self, parent: Mapping[Site, Site | None], now: int, rounds: int
    ) -> list[LinkOverview]:
        found = []
        for site, above in parent.items():
            if above is None:
                continue
            times, sizes = self._by_link.get((above, site), ([], [0]))
            sent = sizes[bisect_right(times, now)]
            rate = self._since(times, sizes, now, rounds)
            found.append(
                LinkOverview(
                    above, site, "connected", 0.0, None, "", 1, 0, 0, 0,
                    rounds * sizes[-1] + sent, None, rate, "",
                )
            )  # fmt: skip
        return found

    def _rate(self, times: list[int], now: int, rounds: int) -> float:
        return self._since(times, list(range(len(times) + 1)), now, rounds)

    def _since(self, times: list[int], sums: list[int], now: int, rounds: int) -> float:
        """Per second, over the last second; it may reach back into the round before."""
        span = 1_000_000_000 if rounds else min(1_000_000_000, max(1, now - self._trace.start))
        whole, part = divmod(span, self._length)
        start = now - part
        total = whole * sums[-1] + sums[bisect_right(times, now)]
        if start >= self._trace.start:
            total -= sums[bisect_right(times, start)]
        else:
            total += sums[-1] - sums[bisect_right(times, start + self._length)]
        return total / (span / 1e9)


def _delivered(trace: Trace) -> dict[Site, list[int]]:
    found: dict[Site, list[int]] = {site: [] for site in trace.sites}
    for mark in trace.marks:
        if mark.kind == made.DELIVER:
            found[mark.site].append(mark.at)
    return found


def _by_group(trace: Trace) -> dict[Group, list[int]]:
    found: dict[Group, list[int]] = {}
    for mark in trace.marks:
        if mark.kind == made.SEND and mark.message:
            found.setdefault(mark.message.group, []).append(mark.at)
    return found


def _by_link(trace: Trace) -> dict[tuple[Site, Site], tuple[list[int], list[int]]]:
    """Of each link: when frames left, and the bytes before each of them, about."""
    found: dict[tuple[Site, Site], tuple[list[int], list[int]]] = {}
    for arrow in trace.arrows:
        if arrow.kind in (made.DATA, made.CONTROL):
            times, sums = found.setdefault((arrow.source, arrow.peer), ([], [0]))
            times.append(arrow.sent)
            sums.append(sums[-1] + _size(arrow.frame))
    return found


def _size(frame: Any) -> int:
    if isinstance(frame, InEpoch) and isinstance(frame.frame, Data):
        return total_weight(frame.frame.items)
    return 32


def _root(parent: Mapping[Site, Site | None]) -> Site:
    return next((site for site, above in parent.items() if above is None), "")


def _pause_ms(trace: Trace, epoch: int) -> float | None:
    """The longest time from a Close to the opening of the epoch."""
    opened = {
        mark.site: mark.at for mark in trace.marks if (mark.kind, mark.epoch) == ("open", epoch)
    }
    pauses = [
        (span.stop - span.start) / 1e6
        for span in trace.spans
        if span.kind == made.CLOSING and opened.get(span.sites[0]) == span.stop
    ]
    return round(max(pauses), 3) if pauses else None


class Sampler:
    """State: the last sample, the last rates, and the pages that wait for the next sample."""

    def __init__(self, feed: OverviewFeed, every_s: float = EVERY_S) -> None:
        self.feed = feed
        self.every_s = every_s
        self.last: Overview | None = None
        self.took_s = 0.0
        self.trouble = ""
        self.rates: deque[tuple[float, float | None, int, int]] = deque(maxlen=KEPT)
        self._number = 0
        self._news = asyncio.Condition()
        self._watchers = 0
        self._wanted = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled. It asks no site while no page is open."""
        while True:
            await self._wanted.wait()
            begun = time.monotonic()
            try:
                self.last = await self.feed.look()
                self.trouble = ""
                self._note(self.last)
            except (Error, OSError) as error:
                self.trouble = str(error)
            self.took_s = time.monotonic() - begun
            async with self._news:
                self._number += 1
                self._news.notify_all()
            # A cluster that is slow to answer is asked less often.
            await asyncio.sleep(max(self.every_s - self.took_s, self.took_s, 0.05))

    def _note(self, view: Overview) -> None:
        sites = view.sites.values()
        lag = max((site.lag for site in sites), default=0)
        unstable = max((site.unstable for site in sites), default=0)
        self.rates.append((time.time(), view.rate, lag, unstable))

    async def samples(self) -> AsyncIterator[Overview | None]:
        """Every new sample, and the last one at once. A reader that is slow misses some."""
        self._watchers += 1
        self._wanted.set()
        seen = -1
        try:
            while True:
                async with self._news:
                    if self._number == 0 or seen == self._number:
                        await self._news.wait()
                    seen = self._number
                yield self.last
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._wanted.clear()

    async def once(self) -> Overview:
        """The last sample; a new one if there is none, or nobody looks."""
        if self.last is None or not self._watchers:
            self.last = await self.feed.look()
        return self.last
