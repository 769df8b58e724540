"""A site's seat in the rounds of its domain: it carries the messages of its part to other sites.

Messages on their way to a site that crashed are sent again when the site has started anew, so the
round goes on. Only a restart of the first site ends a round: its new rounds have numbers above
those of all its earlier starts.

In the structured protocols START and INFO travel down the tree, and a site sends them to its
children only. In the others a multicast is one message to each site.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias

from ordercast.core.stability.arrays import LogArray, LogCounts, Traced, changes_between
from ordercast.core.stability.protocols import Manner
from ordercast.core.stability.rounds import (
    AckMessage,
    InfoMessage,
    RoundHost,
    RoundMessage,
    RoundPaths,
    StartMessage,
)
from ordercast.model.groups import Group, Site
from ordercast.model.limits import VECTOR_ENTRIES
from ordercast.wire.frames import Item
from ordercast.wire.stability import RoundAck, RoundInfo, RoundItem, RoundStart

Kind: TypeAlias = type[Any]
"""The type of an item on the wire: `RoundStart`, `RoundAck` or `RoundInfo`."""

Entries: TypeAlias = tuple[tuple[Group, int, int, int, Site], ...]

_OF_ONE_START = 1 << 32  # the most rounds that the first site begins in one start


def difference(new: LogArray, old: LogArray) -> LogArray:
    """The entries that a peer with the array `old` must be told. An entry in which only the name
    differs is left out: those members are equally far."""
    nothing = (-1, -1, -1)
    changes = changes_between(old, new)
    groups = new if changes is None else changes
    return {g: new[g] for g in groups if new[g][:3] != old.get(g, nothing)[:3]}


class Differences:
    """Messages of rounds as items of a link, with arrays as differences.

    The last message of each kind to each peer is remembered; of the next array only the changed
    entries are sent. The lane CONTROL hands items over once and in order, until either side starts
    anew. Then both forget what they had from each other, and the sender sends its last messages
    again, with whole arrays. Older messages are not needed: a later round replaces them.
    """

    def __init__(self) -> None:
        self._sent: dict[Site, dict[Kind, tuple[int, RoundMessage[LogArray]]]] = {}
        self._heard: dict[Site, dict[Kind, tuple[int, LogArray]]] = {}
        # The last difference that was sent: as a rule the next peer needs the same one.
        self._last: tuple[LogArray | None, LogArray, Entries] = (None, {}, ())

    def told(self, peer: Site, message: RoundMessage[LogArray]) -> list[RoundItem]:
        """The items that tell the peer the message."""
        sent = self._sent.setdefault(peer, {})
        if isinstance(message, StartMessage):
            sent[RoundStart] = (0, message)
            return [RoundStart(message.round)]
        kind: Kind = RoundAck if isinstance(message, AckMessage) else RoundInfo
        array, old = message.array, None
        base, before = sent.get(kind, (0, None))
        if before is not None and not isinstance(before, StartMessage):
            old = before.array
            if changes_between(old, array) is None and not old.keys() <= array.keys():
                base, old = 0, None  # a difference cannot take entries away
        if self._last[0] is not old or self._last[1] is not array:
            entries = array if old is None else difference(array, old)
            self._last = (old, array, tuple([(g, *entry) for g, entry in entries.items()]))
        counts = self._last[2]
        items: list[RoundItem] = []
        while len(counts) > VECTOR_ENTRIES:
            items.append(kind(message.round, base, True, counts[:VECTOR_ENTRIES]))
            counts = counts[VECTOR_ENTRIES:]
            base += 1
        sent[kind] = (base + 1, message)
        items.append(kind(message.round, base, False, counts))
        return items

    def taken(self, peer: Site, item: RoundItem) -> RoundMessage[LogArray] | None:
        """The message that this item completes. None: more items follow, or it is of no use."""
        if isinstance(item, RoundStart):
            return StartMessage(item.round)
        if not isinstance(item, (RoundAck, RoundInfo)):
            return None
        heard = self._heard.setdefault(peer, {})
        number, before = heard.get(type(item), (0, {}))
        if item.base not in (0, number):
            return None  # a difference to an array that this site does not have
        changes: LogArray = {entry[0]: entry[1:] for entry in item.counts}
        array = Traced(before, before, changes) if item.base else Traced(changes)
        array.update(changes)
        heard[type(item)] = (item.base + 1, array)
        if item.more:
            return None
        return (
            AckMessage(item.round, array)
            if isinstance(item, RoundAck)
            else InfoMessage(item.round, array)
        )

    def again(self, peer: Site) -> list[RoundMessage[LogArray]]:
        """Either side has started anew: the messages that must be sent again."""
        self._heard.pop(peer, None)
        return [message for _, message in self._sent.pop(peer, {}).values()]


class Seat(RoundHost[Site, LogArray]):
    def __init__(
        self,
        site: Site,
        paths: RoundPaths[Site],
        manner: Manner,
        send: Callable[[Site, Item], None],
        logs: LogArray,
        ended: Callable[[LogArray], None],
        boot: int,
    ) -> None:
        """`logs` holds this site's counts, and changes with them: `touched` gets the groups.
        `ended` is called with the array of each round that has ended."""
        self.site = site
        self.paths = paths
        self._speakers = manner.speakers(paths, site)
        self._down_the_tree = manner.structured
        self._send = send
        self._logs = logs
        self.answer: LogArray = {}  # the counts when they were last asked for,
        self.touched: dict[Group, None] = {}  # and the groups whose counts have changed since
        self._ended = ended
        self._differences = Differences()
        self._here: deque[RoundMessage[LogArray]] = deque()  # messages of this site to itself
        self._passed_on: dict[type, int] = {}  # per kind, START or INFO: the last round
        self.neighbours = dict.fromkeys(manner.neighbours(paths, site))
        self.above: Site | None = None  # the next site towards the first one
        if site != paths.first:
            self.above = paths.parent[site] if manner.structured else paths.first
        self.below: dict[Site, None] = {}  # the sites for which this site is `above`
        if manner.structured:
            self.below = dict.fromkeys(paths.children[site])
        elif self.above is None:
            self.below = dict.fromkeys(other for other in paths.ring if other != site)
        self.part = manner.part(site, paths, LogCounts(), self)
        self._earlier = 0 if self.above is not None else boot * _OF_ONE_START
        self.part.round = self.part.told = self._earlier

    @property
    def round(self) -> int:
        """The newest round that this site has heard of since it started."""
        newest = max(self.part.round, self.part.told)
        return newest if newest > self._earlier else 0

    @property
    def under_way(self) -> bool:
        """Whether this site is in a round whose end it does not know."""
        return self.part.round > self.part.told

    def begin(self) -> None:
        self.part.begin()
        self._hear()

    def receive(self, peer: Site, item: RoundItem) -> None:
        message = self._differences.taken(peer, item) if peer in self.neighbours else None
        if message is None or peer not in self._speakers[type(message)]:
            return
        if self._down_the_tree and not isinstance(message, AckMessage):
            self._pass_on(message)
        self.part.receive(peer, message)
        if self._here:
            self._hear()

    def restarted(self, peer: Site) -> None:
        for message in self._differences.again(peer):
            self.send(peer, message)

    def _pass_on(self, message: RoundMessage[LogArray]) -> None:
        if message.round > self._passed_on.get(type(message), 0):
            self._passed_on[type(message)] = message.round
            for child in self.paths.children[self.site]:
                self.send(child, message)

    def _hear(self) -> None:
        """Take this site's messages to itself, after the message that caused them."""
        while self._here:
            self.part.receive(self.site, self._here.popleft())

    # --- what the part asks for -------------------------------------------------------------------

    def received(self) -> LogArray:
        self.answer = Traced(self._logs, self.answer, self.touched)
        self.touched.clear()
        return self.answer

    def send(self, peer: Site, message: RoundMessage[LogArray]) -> None:
        if peer == self.site:  # a circle of one
            self._here.append(message)
            return
        for item in self._differences.told(peer, message):
            self._send(peer, item)

    def multicast(self, message: RoundMessage[LogArray]) -> None:
        if self._down_the_tree:
            self._pass_on(message)
        else:
            for peer in self.paths.ring:
                if peer != self.site:
                    self.send(peer, message)
        self._here.append(message)

    def stable(self, array: LogArray) -> None:
        self._ended(array)
