"""A site's seat in the rounds of its domain: it carries the messages of its part to other sites.

What was on its way to a site that crashed is said again when it is seen to have started anew, so
the round goes on. Only the first site's own restart ends one: its rounds have numbers above those
of every earlier start.

In the structured protocols START and INFO travel down the tree, and nobody sends more than it has
children; otherwise a multicast is a message to each site.
"""

from collections import deque
from collections.abc import Callable

from ordercast.core.stability.arrays import LogArray, LogCounts
from ordercast.core.stability.differences import Differences
from ordercast.core.stability.manners import Manner
from ordercast.core.stability.rounds import Ack, Environment, Layout, Message
from ordercast.model.groups import Site
from ordercast.wire.frames import Item
from ordercast.wire.stability import RoundItem

_OF_ONE_START = 1 << 32  # rounds


class Seat(Environment[Site, LogArray]):
    def __init__(
        self,
        site: Site,
        layout: Layout[Site],
        manner: Manner,
        send: Callable[[Site, Item], None],
        logs: Callable[[], LogArray],
        ended: Callable[[LogArray], None],
        boot: int,
    ) -> None:
        """`logs`: how far this site's go now. `ended`: a round has, with this."""
        self.site = site
        self.layout = layout
        self._manner = manner
        self._down_the_tree = manner.structured
        self._send = send
        self._logs = logs
        self._ended = ended
        self._differences = Differences()
        self._here: deque[Message[LogArray]] = deque()  # sent to this site itself
        self._passed_on: dict[type, int] = {}  # of START and INFO: the last round
        self.neighbours = dict.fromkeys(manner.neighbours(layout, site))
        self.above: Site | None = None  # towards the first
        if site != layout.first:
            self.above = layout.parent[site] if manner.structured else layout.first
        self.below: dict[Site, None] = {}  # those for whom this site is that
        if manner.structured:
            self.below = dict.fromkeys(layout.children[site])
        elif self.above is None:
            self.below = dict.fromkeys(other for other in layout.ring if other != site)
        self.part = manner.part(site, layout, LogCounts(), self)
        self._earlier = 0 if self.above is not None else boot * _OF_ONE_START
        self.part.round = self.part.told = self._earlier

    @property
    def round(self) -> int:
        """The newest that this site has heard of since it started."""
        newest = max(self.part.round, self.part.told)
        return newest if newest > self._earlier else 0

    @property
    def under_way(self) -> bool:
        """Whether its end is not known here."""
        return self.part.round > self.part.told

    def begin(self) -> None:
        self.part.begin()
        self._hear()

    def receive(self, peer: Site, item: RoundItem) -> None:
        message = self._differences.taken(peer, item) if peer in self.neighbours else None
        if message is None or not self._manner.speaks(self.layout, self.site, peer, message):
            return
        if self._down_the_tree and not isinstance(message, Ack):
            self._pass_on(message)
        self.part.receive(peer, message)
        self._hear()

    def restarted(self, peer: Site) -> None:
        for message in self._differences.again(peer):
            self.send(peer, message)

    def _pass_on(self, message: Message[LogArray]) -> None:
        if message.round > self._passed_on.get(type(message), 0):
            self._passed_on[type(message)] = message.round
            for child in self.layout.children[self.site]:
                self.send(child, message)

    def _hear(self) -> None:
        """What this site sends to itself it hears after what led to it."""
        while self._here:
            self.part.receive(self.site, self._here.popleft())

    # --- what the part asks -----------------------------------------------------------------------

    def received(self) -> LogArray:
        return self._logs()

    def send(self, peer: Site, message: Message[LogArray]) -> None:
        if peer == self.site:  # a circle of one
            self._here.append(message)
            return
        for item in self._differences.told(peer, message):
            self._send(peer, item)

    def multicast(self, message: Message[LogArray]) -> None:
        if self._down_the_tree:
            self._pass_on(message)
        else:
            for peer in self.layout.ring:
                if peer != self.site:
                    self.send(peer, message)
        self._here.append(message)

    def stable(self, array: LogArray) -> None:
        self._ended(array)
