"""Ordinary clients in a world of members: they number and stamp what they send, move and repeat,
and now and then begin anew without memory, as another client. They send through any site: one that
is no member of the group asks a member.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from ordercast.core import clients
from ordercast.core.clients import ClientWindow
from ordercast.core.epochs.layout import Layout, components
from ordercast.core.epochs.streams.client_marks import (
    ClientMarks,
    client_marks,
    engine_of,
    epoch_of,
    was_delivered,
)
from ordercast.core.outbox import Stream
from ordercast.core.producers import ProducerMarks, marks_in
from ordercast.model.epochs import CLIENT_WINDOW
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.messages import Requests, once
from support.worlds.choosing import Chooser
from support.worlds.epochs import World
from support.worlds.producing import Sent, producing, stored_producing
from support.worlds.stored_members import StoredMembers

FEW, MANY = 2, 1_000  # clients that a group remembers


class Repeater(Chooser):
    """`_life`: one more after each loss of memory, by message. `_asked`: by message whose copy is
    stable, the epoch of its group at the site when it asked, and the answer, which is under way.
    `_told`: by group, the last answer."""

    window = CLIENT_WINDOW

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups)
        self.forgets, self.restamps = seed % 2 == 0, False
        self.lives = 0
        self.outside = 0  # copies that went through sites that are no members
        self._life: dict[Sent, int] = {}
        self._asked: dict[Sent, tuple[int, ClientMarks] | None] = {}
        self._told: dict[str, ClientMarks] = {}

    def _connect(self) -> None:
        """Rather to a site that is no member of its group, if there is one."""
        super()._connect()
        self._asked = {}
        members, (group,) = self.world.members, self.groups
        others = [
            s for s in sorted(members) if s not in (self.members(members[s].layout, group) or (s,))
        ]
        if others and self.draw.random() < 0.4:
            site = self.draw.choice(others)
            self._at = site, self.world.boots[site]

    def turn(self, until: int) -> None:
        if self.world.now < self.world.calm_at and self.draw.random() < 0.02:
            self.lives += 1
            self.refused += self.open  # nobody knows of it any more
            self.open, self._left, self._given, self._at = [], [], {}, None
        super().turn(until)

    def remembered(self) -> int:
        return clients.REMEMBERED

    def was_told(self, sent: Sent, lasts: Mapping[Stream, int]) -> bool:
        window = ProducerMarks(marks_in(lasts, [sent[0]])).client_windows.get(sent[0])
        client, number = self.request(sent, self._since[sent])
        return isinstance(window, ClientWindow) and window.knows(Requests(client, ((number, 1),)))

    def takes(self, site: str, group: str) -> bool:
        layout = self.world.members[site].layout
        return site not in self.members(layout, group) or super().takes(site, group)

    def settled(self, site: str, group: str) -> int | None:
        """Another site than a member knows what it was told, now or some time ago."""
        member = self.world.members[site]
        if site in self.members(member.layout, group):
            listed = self.lists.get(group, ())
            if engine_of(site, member.layout, member.engines, group, listed) is None:
                return None
            return super().settled(site, group)
        if group not in self._told or self.draw.random() < 0.5:
            told = self._ask(site, group)
            if told is None:
                return None
            self._told[group] = told
        self.outside += 1
        told = self._told[group]
        return told.mark or (0 if told.horizon == LARGEST_NUMBER else told.horizon)

    def _ask(self, site: str, group: str) -> ClientMarks | None:
        """What some member answers, here first; the network may be cut, or not."""
        members = self.world.members
        layout, listed = members[site].layout, self.lists.get(group, ())
        known = [each for each in self.members(layout, group) if each in members]
        if not known:
            return None
        one = members[site if site in known else self.draw.choice(known)]
        found = client_marks(one.name, one.layout, one.engines, group, listed)
        if found is None and one is members[site]:
            one = members[self.draw.choice(known)]
            found = client_marks(one.name, one.layout, one.engines, group, listed)
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
        if self.is_gone(site, group):
            self._asked.pop(sent, None)
            self._expire(sent)
            return
        found = None
        if (answer := self._asked.get(sent)) is not None:
            found = was_delivered(answer[1], answer[0], self._since[sent])
        if found is None:
            told = self._ask(site, group)
            self._asked[sent] = None if told is None else (self._epoch(layout, group), told)
            return
        del self._asked[sent]
        if not found:
            self._expire(sent)

    def _epoch(self, layout: Layout, group: str) -> int:
        return epoch_of(layout, group, self.lists.get(group, ()))

    def mark(self, marks: ProducerMarks, group: str) -> int:
        return marks.heard.get(group, 0)

    def request(self, sent: Sent, since: int) -> tuple[bytes, int]:
        life = self._life.setdefault(sent, self.lives)
        return once(f"{self.name} {life}".encode(), sent[1], since)


class ListRepeater(Repeater):
    """It sends to listed sites, in the place of a group."""

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups)
        self._choose()

    def _choose(self) -> None:
        """Some sites of one domain, as it is at the beginning."""
        groups = self.world.first.groups
        near = self.draw.choice(components(groups))
        sites = sorted({site for name in near for site in groups[name]})
        some = tuple(sorted(self.draw.sample(sites, self.draw.randint(1, len(sites)))))
        self.groups = [implicit_group(some)]
        self.lists[self.groups[0]] = self.world.listed[self.groups[0]] = some


def repeating(
    seed: int, kind: str = "", most: int = 0, make: type[Repeater] = Repeater
) -> tuple[World, list[Repeater]]:
    """As `producing`. `most`: so many clients are remembered."""
    with patch.object(clients, "REMEMBERED", most or (MANY if seed % 3 == 0 else FEW)):
        world, senders = producing(seed, kind, make)
    return world, [one for one in senders if isinstance(one, Repeater)]


def stored_repeating(seed: int, folder: Path) -> tuple[StoredMembers, list[Repeater]]:
    """As `stored_producing`."""
    with patch.object(clients, "REMEMBERED", FEW):
        world, senders = stored_producing(seed, folder, Repeater)
    return world, [one for one in senders if isinstance(one, Repeater)]
