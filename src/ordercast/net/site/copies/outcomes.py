"""The outcome of messages of producers, and of messages with ids, that were sent through a site
which is no member of their group: the site asks members (docs/producers.md and docs/ids.md,
"Through a site that is no member").
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.streams.client_marks import epoch_of
from ordercast.core.epochs.streams.copy_marks import CopyMarks, copy_marks
from ordercast.model.errors import UnknownGroup
from ordercast.model.features import OUTCOMES
from ordercast.model.groups import Group, Site
from ordercast.net.site.copies.outside import BEHIND_S
from ordercast.net.site.copies.questions import Questions, member_to_ask
from ordercast.wire.copies import CopyFrame, CopyTold, CopyWanted

Name: TypeAlias = tuple[Group, bytes]
"""A group, and the name under which a producer's messages or a message with an id travel. The empty
name: all ids of the group."""


class Outcomes:
    def __init__(self, core: Member, send: Callable[[Site, CopyFrame], None]) -> None:
        self._core = core
        self._send = send
        self.questions: Questions[Name, CopyMarks] = Questions(self._put, self._gone)

    def close(self, why: str) -> None:
        self.questions.close(why)

    @property
    def is_open(self) -> bool:
        """Whether all sites know these questions."""
        return OUTCOMES in self._core.layout.features

    def settled_here(self, group: Group) -> int | None:
        """Up to which number ids are settled. None: this site has no log of the group."""
        known = self._here((group, b""))
        return None if known is None else known.settled

    async def settled(self, group: Group) -> int:
        """The same, as a member knows it. Raises UnknownGroup if the group is removed before a
        member has answered."""
        return (await self.questions.ask((group, b""))).settled

    async def delivered(
        self,
        name: Name,
        found: Callable[[CopyMarks, int], bool | None],
        is_over: Callable[[], bool],
        was_told: Callable[[], bool],
    ) -> bool:
        """Whether a message whose copy is stable is delivered. False: it is not, as far as is
        known. `found` is called with an answer, and the group's epoch before the question: it tells
        what follows. `is_over`: no member knows the producer or the ids any more. `was_told`: the
        end of an epoch has said that it is delivered."""
        while not was_told():
            if is_over():
                return False
            epoch = epoch_of(self._core.layout, name[0])  # in it the copy is stable, or before
            with suppress(UnknownGroup):
                kept = found(self._here(name) or await self.questions.ask(name), epoch)
                if kept is not None:
                    return kept
                await asyncio.sleep(BEHIND_S)
        return True

    def _here(self, name: Name) -> CopyMarks | None:
        """What this site knows itself. None: it has no log of the group."""
        core = self._core
        return copy_marks(core.name, core.layout, core.engines, *name)

    def _put(self, name: Name, question: int) -> None:
        group, client = name
        members = self._core.layout.groups.get(group, ())
        if (asked := member_to_ask(self._core, members, question)) is not None:
            self._send(asked, CopyWanted(group, question, client))

    def _gone(self, name: Name) -> str:
        group = name[0]
        if group in self._core.layout.groups:
            return ""
        return f"there is no group {group!r} any more"

    # --- frames -----------------------------------------------------------------------------------

    def take(self, peer: Site, frame: CopyFrame) -> None:
        if isinstance(frame, CopyWanted):
            known = self._here((frame.group, frame.client))
            if known is not None and self.is_open:
                told = (known.epoch, known.number, known.settled)
                self._send(peer, CopyTold(frame.group, frame.question, frame.client, *told))
        elif peer in self._core.layout.groups.get(frame.group, ()):
            answer = CopyMarks(frame.epoch, frame.number, frame.settled)
            self.questions.answered((frame.group, frame.client), frame.question, answer)
