"""Which peers a site finds silent: it knocks, and counts the knocks that go unanswered.

A site knocks at a peer that the manager names, and at one that has not acknowledged a frame for
long. Otherwise nobody knocks. An answer shows that both directions of the link work. Sites report
what they find, and the manager judges by these reports (the argument is in docs/epochs.md).
"""

from collections.abc import Iterable
from typing import Protocol

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.core.link import Link
from ordercast.model.groups import Site
from ordercast.model.options import NEVER, Options
from ordercast.wire.epochs import Knock, SiteFrame

_LEAST = 3  # fewer knocks without an answer may be chance


class _Member(Protocol):
    """The member that knocks."""

    name: Site
    now: int
    options: Options
    layout: Layout
    engines: dict[int, Engine]
    manager_at: Site | None

    def say(self, peer: Site, frame: SiteFrame) -> None: ...


class Hearing:
    """State: for each peer that is knocked at, the knocks without an answer and the time of the
    next; when each peer last answered."""

    def __init__(self, member: _Member, beat: int) -> None:
        self._member = member
        self._beat = beat
        self._patience = member.options.timing.suspect // 2
        self._enough = max(_LEAST, self._patience // beat)  # knocks in half of `suspect`
        self._knocks: dict[Site, tuple[int, int]] = {}
        self._answered: dict[Site, int] = {}
        self.alarm_at = NEVER

    def doubt(self, peers: Iterable[Site]) -> None:
        """The manager wants to know whether these peers answer."""
        for peer in peers:
            if peer in self._member.layout.roster and peer != self._member.name:
                count, at = self._knocks.get(peer, (0, self._member.now))
                soon = self._member.now + self._beat
                self._knocks[peer] = (count, min(at, soon))

    def report(self) -> tuple[Site, ...]:
        """The silent peers, for the manager. First look for peers that owe an answer."""
        member = self._member
        for engine in member.engines.values():
            if engine.epoch_state.works:
                self._look(engine.links)
        return tuple(peer for peer, (count, _) in self._knocks.items() if count >= self._enough)

    def _look(self, links: dict[Site, Link]) -> None:
        """Knock at peers that have not acknowledged a frame for long. Not at the manager: it is
        heard anyway."""
        now, patience = self._member.now, self._patience
        for peer, link in links.items():
            if peer in self._knocks or peer == self._member.manager_at:
                continue
            owes = any(out.owed_since(now - patience) for out in link.outgoing)
            if owes and now - self._answered.get(peer, -NEVER) > patience:
                self._knocks[peer] = (0, now)

    def receive(self, peer: Site, frame: Knock) -> bool:
        """Answer a knock, or take an answer. Returns whether a silent peer is heard again."""
        if not frame.back:
            self._member.say(peer, Knock(back=True))
            return False
        if peer in self._member.layout.roster:
            self._answered[peer] = self._member.now
        return self._knocks.pop(peer, (0, 0))[0] >= self._enough

    def work(self, now: int) -> bool:
        """Knock where it is time. Knocks are counted, not time: so a pause of this process makes
        nobody silent. Returns whether a peer has become silent."""
        if not self._knocks:
            self.alarm_at = NEVER
            return False
        fallen = False
        roster = self._member.layout.roster
        self._knocks = {peer: one for peer, one in self._knocks.items() if peer in roster}
        self._answered = {peer: at for peer, at in self._answered.items() if peer in roster}
        for peer, (count, at) in self._knocks.items():
            if at <= now:
                fallen = fallen or count + 1 == self._enough
                count = min(count + 1, self._enough)
                wait = self._beat if count < self._enough else max(self._beat, self._patience)
                self._knocks[peer] = (count, now + wait)
                self._member.say(peer, Knock(back=False))
        self.alarm_at = min((at for _, at in self._knocks.values()), default=NEVER)
        return fallen
