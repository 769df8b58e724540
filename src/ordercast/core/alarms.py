"""When the links of a site want to be called: one timer for all of them."""

import heapq
from collections.abc import Iterator, Mapping

from ordercast.core.link import Link
from ordercast.model.groups import Site
from ordercast.model.options import NEVER


class Alarms:
    def __init__(self, links: Mapping[Site, Link]) -> None:
        self._links = links
        self._heap: list[tuple[int, Site]] = []

    def arm(self, link: Link) -> None:
        """The link may want to be called earlier than it did before."""
        deadline = link.ack_at
        if link.resend_at < deadline:
            deadline = link.resend_at
        if link.repair_at < deadline:
            deadline = link.repair_at
        if link.linger_at < deadline:
            deadline = link.linger_at
        if deadline < link.armed:
            link.armed = deadline
            heapq.heappush(self._heap, (deadline, link.peer))

    def due(self, now: int) -> Iterator[Link]:
        """Those that wanted to be called by now; they are no longer armed."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, peer = heapq.heappop(heap)
            link = self._links[peer]
            if link.armed == at:
                link.armed = NEVER
                yield link

    def next(self, at: int) -> int:
        """The earliest of them, or `at` if that is earlier."""
        heap = self._heap
        while heap:
            first, peer = heap[0]
            if self._links[peer].armed == first:
                return min(first, at)
            heapq.heappop(heap)
        return at
