"""Senders that go through any site in a world of members: one that is no member of the group asks a
member for marks, and what became of a copy that is stable."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from ordercast.core import ids
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.streams.client_marks import epoch_of
from ordercast.core.epochs.streams.copy_marks import (
    CopyMarks,
    copy_marks,
    was_kept,
    was_produced,
)
from ordercast.core.outbox import Stream
from ordercast.model.epochs import PRODUCERS
from ordercast.model.messages import MARK_BITS, generation_in, in_generation, producer_id
from support.judges.epoch_judge import who_may_have_lost
from support.worlds.choosing import FEW, MANY, Chooser
from support.worlds.epochs import World
from support.worlds.producing import Sent, producing


class Asker(Chooser):
    """`_asked`: by message whose copy is stable, the epoch of its group at the site when it asked,
    and the answer, which is under way. `_told`: by group, the last answer."""

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups)
        self.outside = 0  # copies that went through sites that are no members
        self._asked: dict[Sent, tuple[int, Any] | None] = {}
        self._told: dict[str, Any] = {}

    def answer(self, site: str, group: str, sent: Sent | None) -> Any:
        """What this site tells of a message, or of the group alone; None: it has no log of it."""
        raise NotImplementedError

    def follows(self, told: Any, epoch: int, sent: Sent) -> bool | None:
        """What the answer says of the message, if the group was in this epoch before."""
        raise NotImplementedError

    def mark_in(self, told: Any) -> int:
        raise NotImplementedError

    def is_over(self, layout: Layout, sent: Sent) -> bool:  # noqa: ARG002
        """Whether nobody knows any more what became of the message."""
        return False

    def _connect(self) -> None:
        """Rather to a site that is no member of its group, if there is one."""
        super()._connect()
        self._asked = {}
        members, group = self.world.members, self.groups[0]
        others = [
            s for s in sorted(members) if s not in (self.members(members[s].layout, group) or (s,))
        ]
        if others and self.draw.random() < 0.4:
            site = self.draw.choice(others)
            self._at = site, self.world.boots[site]

    def takes(self, site: str, group: str) -> bool:
        layout = self.world.members[site].layout
        return site not in self.members(layout, group) or super().takes(site, group)

    def settled(self, site: str, group: str) -> int | None:
        """Another site than a member knows what it was told, now or some time ago."""
        if site in self.members(self.world.members[site].layout, group):
            return None if self.answer(site, group, None) is None else super().settled(site, group)
        if group not in self._told or self.draw.random() < 0.5:
            told = self._ask(site, group)
            if told is None:
                return None
            self._told[group] = told
        self.outside += 1
        return self.mark_in(self._told[group])

    def _ask(self, site: str, group: str, sent: Sent | None = None) -> Any:
        """What some member answers, here first; the network may be cut, or not."""
        members = self.world.members
        known = [each for each in self.members(members[site].layout, group) if each in members]
        if not known:
            return None
        one = site if site in known else self.draw.choice(known)
        found = self.answer(one, group, sent)
        if found is None and one == site:
            found = self.answer(self.draw.choice(known), group, sent)
        return found

    def is_asking(self, sent: Sent) -> bool:
        return sent in self._asked

    def doubt(self, sent: Sent, site: str) -> None:
        members, group = self.world.members, sent[0]
        if site not in members:
            self._asked[sent] = None  # it is sent again, through another site
            return
        layout = members[site].layout
        if self.was_told(sent, layout.lasts):
            self._asked.pop(sent, None)
            return
        if self.is_gone(site, group) or self.is_over(layout, sent):
            self._asked.pop(sent, None)
            self._expire(sent)
            return
        found = None
        if (answer := self._asked.get(sent)) is not None:
            found = self.follows(answer[1], answer[0], sent)
        if found is None:
            told = self._ask(site, group, sent)
            epoch = epoch_of(layout, group, self.lists.get(group, ()))
            self._asked[sent] = None if told is None else (epoch, told)
            return
        del self._asked[sent]
        if not found:
            self._expire(sent)


class FarChooser(Asker):
    """It has ids of its own."""

    def answer(self, site: str, group: str, sent: Sent | None) -> CopyMarks | None:
        one = self.world.members[site]
        client = b"" if sent is None else self.request(sent, 0)[0]
        return copy_marks(one.name, one.layout, one.engines, group, client)

    def follows(self, told: Any, epoch: int, sent: Sent) -> bool | None:
        return was_kept(told, epoch, self._since[sent])

    def mark_in(self, told: CopyMarks) -> int:
        return told.settled

    def is_over(self, layout: Layout, sent: Sent) -> bool:
        ticket = layout.producers.get((self.window, sent[0]))
        return ticket != self._since[sent] >> MARK_BITS


class Successor(FarChooser):
    """A producer. Now and then its program begins anew, in a later generation. Two of them have one
    name, so each fences the other one."""

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups)
        self.name = self.window = "p"
        self.generation = int(name[1:])
        self.forgets = self.restamps = False
        self.fenced = 0
        self._of: dict[Sent, int] = {}

    def body(self, sent: Sent) -> bytes:
        generation = self._of.setdefault(sent, self.generation)
        return f"{self.name}.{generation} {sent[0]} {sent[1]}".encode()

    def turn(self, until: int) -> None:
        if self.world.now < self.world.calm_at and self.draw.random() < 0.02:
            self.generation += 2
            self.refused += self.open  # nobody knows of it any more
            self.open, self._left, self._given, self._at = [], [], {}, None
        for sent in self.open:
            self._of.setdefault(sent, self.generation)
        super().turn(until)

    def may_be_late(self, sent: Sent) -> bool:
        """What was given up is fenced when it comes."""
        return any(site in self.world.lost for site in who_may_have_lost(self.world, sent[0]))

    def settled(self, site: str, group: str) -> int | None:
        self.outside += site not in self.members(self.world.members[site].layout, group)
        return 0

    def request(self, sent: Sent, since: int) -> tuple[bytes, int]:
        self.body(sent)
        ticket = (since or self._since[sent]) >> MARK_BITS
        return producer_id(ticket), in_generation(self._of[sent], sent[1])

    def was_told(self, sent: Sent, lasts: Any) -> bool:
        number = self.request(sent, 0)[1]
        ticket = self._since[sent] >> MARK_BITS
        stream: Stream = (PRODUCERS, ticket, sent[0])
        mark = lasts.get(stream, 0)
        return mark >= number and generation_in(mark) == generation_in(number)

    def follows(self, told: Any, epoch: int, sent: Sent) -> bool | None:
        return was_produced(told, epoch, self.request(sent, 0)[1])

    def _expire(self, sent: Sent) -> None:
        super()._expire(sent)
        self.fenced += 1


def far_choosing(seed: int, kind: str = "", most: int = 0) -> tuple[World, list[FarChooser]]:
    """As `choosing`, through any site."""
    with patch.object(ids, "REMEMBERED", most or (MANY if seed % 3 == 0 else FEW)):
        world, senders = producing(seed, kind, FarChooser)
    return world, [one for one in senders if isinstance(one, FarChooser)]


def succeeding(seed: int, kind: str = "") -> tuple[World, list[Successor]]:
    """As `producing`, with producers that begin anew."""
    world, senders = producing(seed, kind, Successor)
    return world, [one for one in senders if isinstance(one, Successor)]
