"""Judges the deliveries of a cluster while it runs, in bounded memory.

Each sender numbers its messages to each group, 1, 2, …, and a payload says which message it is. Of
every site's stream the judge keeps the last number of each sender and group, the numbers that are
missing and not yet explained, and for a while the positions of recent messages. It finds messages
that are lost, doubled, or in another order than elsewhere:

* at a site the numbers of a sender and group only grow: nothing is doubled, and the order is the
  sender's;
* a number is missing only if it was refused, or the site joined the group after it;
* any two sites have their common messages in the same order. The judge meets a common message when
  the second of the two sites delivers it. If both have one order, it meets common messages in this
  order, so the positions at both sites only grow.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping

Message = tuple[str, str, int]  # sender, group, number
MOST_WRONG = 20


class RunningJudge:
    """`lasting`: the members of each group that never leave it."""

    def __init__(self, lasting: Mapping[str, Iterable[str]], keep_s: float = 60.0) -> None:
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()
        self._lasting = {group: frozenset(members) for group, members in lasting.items()}
        self._keep_s = keep_s
        self._last: dict[tuple[str, str, str], int] = {}  # of site, sender and group
        self._fresh: set[tuple[str, str, str]] = set()  # its next number may leap: site joined
        self._stable: dict[tuple[str, str], int] = {}  # of sender and group: the last
        self._missing: dict[Message, set[str]] = {}  # whoever passed over it
        self._refused: set[Message] = set()
        self._positions: dict[Message, dict[str, int]] = {}  # of recent messages
        self._met: dict[tuple[str, str], tuple[int, int]] = {}  # of two sites: the last common one
        self._ages: deque[tuple[float, Message]] = deque()

    # --- what happens -----------------------------------------------------------------------------

    def joined(self, site: str, groups: Iterable[str], senders: Iterable[str]) -> None:
        names = list(senders)
        self._fresh |= {(site, sender, group) for group in groups for sender in names}

    def delivered(self, site: str, position: int, message: Message, now: float) -> None:
        sender, group, number = message
        self.counts["deliveries"] += 1
        key = site, sender, group
        last = self._last.get(key, 0)
        if number <= last:
            self._say(f"{site} has {message} at {position} behind number {last}")
            return
        self._last[key] = number
        if key in self._fresh:
            self._fresh.discard(key)
        else:
            for passed in range(last + 1, number):
                self._passed_over(site, (sender, group, passed))
        self._meet(site, position, message, now)

    def stable(self, message: Message) -> None:
        """The sender was told that it is stable."""
        self.counts["stable"] += 1
        self._stable[message[:2]] = message[2]
        if message in self._missing:
            self._say(f"{message} is stable and not at {', '.join(sorted(self._missing[message]))}")

    def refused(self, message: Message) -> None:
        """The sender was told that it is not sent."""
        self.counts["refused"] += 1
        self._refused.add(message)
        self._missing.pop(message, None)
        if message in self._positions:
            self._say(f"{message} was refused and is at {', '.join(self._positions[message])}")

    def forget(self, now: float) -> None:
        """Drop old messages: call it now and then."""
        while self._ages and self._ages[0][0] < now - self._keep_s:
            _, message = self._ages.popleft()
            sender, group, _ = message
            late = self._lasting.get(group, frozenset()) - self._positions[message].keys()
            if any(self._last.get((site, sender, group), 0) < message[2] for site in late):
                self._ages.append((now, message))  # somebody is behind: it is still needed
                continue
            del self._positions[message]

    def end(self) -> None:
        """All is quiet: whatever is stable is at every lasting member."""
        for message, sites in self._missing.items():
            self._say(f"{message} is not at {', '.join(sorted(sites))}")
        for (sender, group), number in self._stable.items():
            for site in sorted(self._lasting.get(group, ())):
                if (have := self._last.get((site, sender, group), 0)) < number:
                    self._say(f"{site} has {group} of {sender} up to {have}, stable is {number}")

    @property
    def kept(self) -> int:
        """Messages that it holds now."""
        return len(self._positions) + len(self._missing) + len(self._refused)

    # --- the rules --------------------------------------------------------------------------------

    def _passed_over(self, site: str, message: Message) -> None:
        if message in self._refused:
            return
        self._missing.setdefault(message, set()).add(site)
        if message[2] <= self._stable.get(message[:2], 0):
            self._say(f"{message} is stable and not at {site}")

    def _meet(self, site: str, position: int, message: Message, now: float) -> None:
        found = self._positions.get(message)
        if found is None:
            found = self._positions[message] = {}
            self._ages.append((now, message))
            if message in self._refused:
                self._say(f"{message} was refused and is at {site}")
        for other, place in found.items():
            pair = (site, other) if site < other else (other, site)
            both = (position, place) if site < other else (place, position)
            before = self._met.get(pair, (0, 0))
            self.counts["common messages compared"] += 1
            if both[0] <= before[0] or both[1] <= before[1]:
                self._say(f"{pair} differ in order: {message} at {both}, another at {before}")
            self._met[pair] = both
        found[site] = position

    def _say(self, what: str) -> None:
        self.counts["wrong"] += 1
        if len(self.wrong) < MOST_WRONG:
            self.wrong.append(what)
