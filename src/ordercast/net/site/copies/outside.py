"""What a site that is no member of a group knows about the group's clients: it asks members
(docs/requests.md, "Through a site that is no member").
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.streams.client_marks import (
    ClientMarks,
    client_marks,
    epoch_of,
    was_delivered,
)
from ordercast.model.errors import Error, NotInMajority, UnknownGroup
from ordercast.model.features import OUTSIDE
from ordercast.model.groups import Group, Site
from ordercast.net.site.copies.questions import Questions, member_to_ask
from ordercast.wire.client_marks import (
    Answered,
    Asked,
    ClientMarksFrame,
    ClientMarksTold,
    ClientMarksWanted,
    ListMarksTold,
    ListMarksWanted,
)

BEHIND_S = 0.05  # after this time a member in an earlier epoch is asked again


class OutsideMarks:
    """State: for each group the last answer, and the sites of the lists that clients send to.
    `on_mark` is called when a group gets its first mark."""

    def __init__(self, core: Member, send: Callable[[Site, ClientMarksFrame], None]) -> None:
        self._core = core
        self._send = send
        self.questions: Questions[Group, ClientMarks] = Questions(self._put, self._gone)
        self._told: dict[Group, ClientMarks] = {}
        self.lists: dict[Group, tuple[Site, ...]] = {}
        self.on_mark: list[Callable[[], None]] = []

    def close(self, why: str) -> None:
        self.questions.close(why)

    @property
    def is_open(self) -> bool:
        """Whether all sites know these questions."""
        return OUTSIDE in self._core.layout.features

    def told(self, group: Group) -> ClientMarks | None:
        """The last answer."""
        return self._told.get(group)

    def members(self, group: Group) -> tuple[Site, ...]:
        """The members of a group, or of a list that is known here because clients have sent to it
        through this site or the log has messages to it."""
        if (found := self._core.layout.groups.get(group) or self.lists.get(group)) is not None:
            return found
        for engine in self._core.engines.values():
            if listed := engine.retention.implicit.get(group):
                self.lists[group] = listed
                return listed
        return ()

    def tell(self) -> None:
        """A group has a mark that clients do not know yet."""
        for tell in self.on_mark:
            tell()

    def here(self, group: Group, listed: tuple[Site, ...] = ()) -> ClientMarks | None:
        """What this site knows itself. None: it has no log of the group."""
        core, listed = self._core, listed or self.lists.get(group, ())
        return client_marks(core.name, core.layout, core.engines, group, listed)

    def _is_gone(self, group: Group) -> bool:
        """Whether no member can answer any more: the group was removed, or no domain has all sites
        of the list."""
        layout = self._core.layout
        if group not in self.lists:
            return group not in layout.groups
        try:
            layout.taking(self._core.name, group, self.lists[group])
        except NotInMajority:
            return False
        except Error:
            return True
        return False

    # --- asking -----------------------------------------------------------------------------------

    async def ask(self, group: Group) -> ClientMarks:
        """What this site knows itself; without a log of the group, the answer of a member. Raises
        UnknownGroup if the group is removed before a member has answered."""
        if (known := self.here(group)) is not None:
            return known
        return await self.questions.ask(group)

    def refresh(self, group: Group) -> None:
        """Ask, unless a question is open; `told` has the answer when it comes."""
        if self.is_open and self.here(group) is None:
            self.questions.begin(group)

    async def delivered(self, group: Group, stamp: int, was_told: Callable[[], bool]) -> bool:
        """Whether a request whose copy is stable is delivered. False: it has expired, or its group
        is gone. `was_told`: the end of an epoch has said that it is delivered."""
        while not was_told():
            if self._is_gone(group):
                return False
            # The copy is stable in this epoch, or before.
            epoch = epoch_of(self._core.layout, group, self.lists.get(group, ()))
            with suppress(UnknownGroup):  # it is gone now
                found = was_delivered(await self.ask(group), epoch, stamp)
                if found is not None:
                    return found
                await asyncio.sleep(BEHIND_S)
        return True

    def _put(self, group: Group, question: int) -> None:
        """Send the question to a member."""
        asked = member_to_ask(self._core, self.members(group), question)
        if asked is not None:
            listed = self.lists.get(group)
            wanted: Asked = ClientMarksWanted(group, question)
            if listed is not None:
                wanted = ListMarksWanted(group, question, listed)
            self._send(asked, wanted)

    def _gone(self, group: Group) -> str:
        return f"there is no group {group!r} any more" if self._is_gone(group) else ""

    # --- frames -----------------------------------------------------------------------------------

    def take(self, peer: Site, frame: ClientMarksFrame) -> None:
        if isinstance(frame, ClientMarksWanted | ListMarksWanted):
            self._answer(peer, frame)
        elif peer in self.members(frame.group):
            self._heard(frame)

    def _answer(self, peer: Site, frame: Asked) -> None:
        listed = frame.members if isinstance(frame, ListMarksWanted) else ()
        known = self.here(frame.group, listed)
        if known is not None and self.is_open:
            told = (frame.group, frame.question, known.epoch, known.mark, known.horizon)
            self._send(peer, (ListMarksTold if listed else ClientMarksTold)(*told))

    def _heard(self, frame: Answered) -> None:
        told = ClientMarks(frame.epoch, frame.mark, frame.horizon)
        before = self._told.get(frame.group)
        if self.questions.answered(frame.group, frame.question, told):
            self._told[frame.group] = told
            if told.mark and (before is None or not before.mark):
                self.tell()
