"""Ordinary clients in a world of members: they number and stamp what they send, move and repeat,
and now and then begin anew without memory, as another client. They send through any site: one that
is no member of the group asks a member.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from ordercast.core import clients
from ordercast.core.clients import ClientWindow
from ordercast.core.epochs.layout import components
from ordercast.core.epochs.streams.client_marks import (
    ClientMarks,
    client_marks,
    was_delivered,
)
from ordercast.core.outbox import Stream
from ordercast.core.producers import ProducerMarks, marks_in
from ordercast.model.epochs import CLIENT_WINDOW
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.messages import Requests, once
from support.worlds.asking import Asker
from support.worlds.epochs import World
from support.worlds.producing import Sent, producing, stored_producing
from support.worlds.stored_members import StoredMembers

FEW, MANY = 2, 1_000  # clients that a group remembers


class Repeater(Asker):
    """`_life`: one more after each loss of memory, by message."""

    window = CLIENT_WINDOW

    def __init__(self, world: World, name: str, seed: int, groups: Sequence[str]) -> None:
        super().__init__(world, name, seed, groups)
        self.forgets, self.restamps = seed % 2 == 0, False
        self.lives = 0
        self._life: dict[Sent, int] = {}

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

    def answer(self, site: str, group: str, sent: Sent | None) -> ClientMarks | None:  # noqa: ARG002
        one, listed = self.world.members[site], self.lists.get(group, ())
        return client_marks(one.name, one.layout, one.engines, group, listed)

    def follows(self, told: ClientMarks, epoch: int, sent: Sent) -> bool | None:
        return was_delivered(told, epoch, self._since[sent])

    def mark_in(self, told: ClientMarks) -> int:
        return told.mark or (0 if told.horizon == LARGEST_NUMBER else told.horizon)

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
