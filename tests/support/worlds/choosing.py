"""Senders with ids of their own in a world of members: as producers they move and repeat, through
members of the group alone. Each message carries the mark that its sender knew first; in some runs a
sender asks for a new mark on each connection, and groups remember enough ids for that.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from ordercast.core import ids
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import DOUBTED, Stream
from ordercast.core.producers import ProducerMarks
from ordercast.model.epochs import ID_WINDOW, AddProducer, RemoveProducer
from ordercast.model.errors import Error, NotInMajority
from ordercast.model.messages import MARK_BITS, by_id
from ordercast.model.options import SECOND
from support.judges.epoch_judge import who_may_have_lost
from support.worlds.epochs import World
from support.worlds.producing import Producer, Sent, producing, stored_producing
from support.worlds.stored_members import StoredMembers

FEW, MANY = 12, 100_000  # ids that a group remembers


class Chooser(Producer):
    """It sends to one group, because no site need be a member of two. `_since`: the mark of each
    message when it was first handed over."""

    window = ID_WINDOW

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups[seed % len(groups) :][:1])
        self.expired: list[Sent] = []
        self.restamps = self.remembered() == MANY
        self.forgets = not self.restamps
        self._since: dict[Sent, int] = {}

    def _connect(self) -> None:
        super()._connect()
        if self.restamps:
            self._since = {}

    def _look(self) -> None:
        world = self.world
        for sent in list(self.open):
            at = self._given.get(sent, ("", "", 0))
            stages = world.stages.get(at, ())
            if sent in self._given and world.payloads.get(at) != self.body(sent):
                self.open.remove(sent)  # it was refused, and its number is used again
                self.refused.append(sent)
                continue
            if "stable" in stages and REFUSED not in stages and DOUBTED in stages:
                self.doubt(sent, at[0])
        super()._look()

    def doubt(self, sent: Sent, site: str) -> None:
        """The copy that this site has sent is stable, and it does not know more."""
        members = self.world.members
        lasts = members[site].layout.lasts if site in members else {}
        if not self.was_told(sent, lasts):
            self._expire(sent)

    def may_be_late(self, sent: Sent) -> bool:
        """A site that does not know the group refuses it, though another one may have it. What only
        lost stores had is not known any more, and an old copy of it is new."""
        gone = any(site in self.world.lost for site in who_may_have_lost(self.world, sent[0]))
        return gone or sent in self.refused

    def remembered(self) -> int:
        """What a group remembers."""
        return ids.REMEMBERED

    def was_told(self, sent: Sent, lasts: Mapping[Stream, int]) -> bool:
        """Whether the end of an epoch has told that it is delivered."""
        mark = ids.id_mark(by_id(self.name, str(sent[1])))
        return any(origin == mark for origin, _, _ in lasts)

    def mark(self, marks: ProducerMarks, group: str) -> int:
        """How far what is settled goes."""
        return marks.settled.get(group, 0)

    def request(self, sent: Sent, since: int) -> tuple[bytes, int]:
        return by_id(self.name, str(sent[1])), since

    def takes(self, site: str, group: str) -> bool:
        """Whether the site takes messages for the group."""
        layout = self.world.members[site].layout
        return site in self.members(layout, group) and layout.home(site) is not None

    def members(self, layout: Layout, group: str) -> tuple[str, ...]:
        return self.lists.get(group) or layout.groups.get(group, ())

    def is_gone(self, site: str, group: str) -> bool:
        """Whether no epoch will take messages for the group, as the site knows."""
        layout = self.world.members[site].layout
        if group not in self.lists:
            return group not in layout.groups
        try:
            layout.taking(site, group, layout.listed(self.lists[group]))
        except NotInMajority:
            return False
        except Error:
            return site in layout.roster
        return False

    def settled(self, site: str, group: str) -> int | None:
        """How far what is settled goes there; None: it is not known now."""
        member = self.world.members[site]
        home = member.layout.home(site)
        assert home is not None
        return self.mark(member.engines[home.epoch].marks, group)

    def _expire(self, sent: Sent) -> None:
        self.open.remove(sent)
        self.expired.append(sent)
        if sent in self._left:
            self._left.remove(sent)

    def _hand_over(self) -> None:
        world = self.world
        while self._left and self._at is not None:
            site, boot = self._at
            if site not in world.members or world.boots[site] != boot:
                return
            sent = self._left[0]
            member, group = world.members[site], sent[0]
            layout = member.layout
            ticket = layout.producers.get((self.window, group))
            if self.is_gone(site, group):
                self._left.pop(0)
                self.open.remove(sent)
                self.refused.append(sent)
                continue
            if not self.takes(site, group):
                self._at = None  # it goes to another site
                return
            if ticket is None:
                name = f"{self.name} {group} {site} {world.now // (SECOND // 4)}"
                world.ask(site, name, AddProducer(self.window, group))
                return
            if self.forgets and world.now < 4 * SECOND and self.draw.random() < 0.01:
                name = f"{self.name} forgets {group} {world.now}"
                world.ask(site, name, RemoveProducer(self.window, group))
                return
            settled = self.settled(site, group)
            if settled is None:
                return
            mark = max(settled, ticket << MARK_BITS)
            since = self._since.setdefault(sent, mark)
            if since >> MARK_BITS < ticket:
                self._expire(sent)
                continue
            if since > mark + self.remembered():
                if world.losses() and world.now >= world.calm_at:  # what it counts is lost
                    self._left.pop(0)
                    self.open.remove(sent)
                    self.refused.append(sent)
                    continue
                self._at = None  # the site is far behind
                return
            request = self.request(sent, since)
            given = self._submit(site, group, request, self.body(sent))
            if given is None:
                return
            self._left.pop(0)
            self._given[sent] = given
            self.copies += 1


def choosing(seed: int, kind: str = "", most: int = 0) -> tuple[World, list[Chooser]]:
    """As `producing`. `most`: so many ids are remembered."""
    with patch.object(ids, "REMEMBERED", most or (MANY if seed % 3 == 0 else FEW)):
        world, senders = producing(seed, kind, Chooser)
    return world, [one for one in senders if isinstance(one, Chooser)]


def stored_choosing(seed: int, folder: Path) -> tuple[StoredMembers, list[Chooser]]:
    """As `stored_producing`."""
    with patch.object(ids, "REMEMBERED", FEW):
        world, senders = stored_producing(seed, folder, Chooser)
    return world, [one for one in senders if isinstance(one, Chooser)]
