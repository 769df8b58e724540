"""Requests of clients that their groups recognise, through whichever member they are repeated
(docs/requests.md).

A client stamps a request with the mark of the group's clients, which its daemon has told. A member
of the group has it from the log; another site asks a member. For all other requests the daemon
itself knows what it has taken, and nothing leaves it before it is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from ordercast.core.batches import Extras
from ordercast.core.epochs.member import Member
from ordercast.core.producers import ProducerMarks, marks_in
from ordercast.model.epochs import CLIENT_WINDOW
from ordercast.model.errors import Error, Expired
from ordercast.model.features import REPEATS
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group
from ordercast.model.limits import CLIENTS, LARGEST_NUMBER
from ordercast.model.messages import MARK_BITS, Requests, once
from ordercast.net.site.copies.doubts import Doubts
from ordercast.net.site.copies.outside import OutsideMarks
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.sender import SiteSender

_log = logging.getLogger("ordercast.net.repeats")

TicketGiver = Callable[[str, Group, str], Awaitable[int]]
"""Of whom, at which group, and the feature that it needs (`ProducerSender.ticket`)."""


AGAIN_S = 10.0  # after this time a window that was not given is asked for again


class RepeatSender:
    """`_asked` has the groups whose window was asked for, and not in vain long ago."""

    def __init__(
        self,
        core: Member,
        sender: SiteSender,
        ticket: TicketGiver,
        doubts: Doubts,
        outside: OutsideMarks,
    ) -> None:
        self._core = core
        self._sender = sender
        self._ticket = ticket
        self._doubts = doubts
        self._outside = outside
        self._asked: dict[Group, asyncio.Task[None]] = {}

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()

    def marks(self) -> dict[Group, int]:
        """The groups that remember clients, each with its mark, also while this site is absent: it
        will take requests when it is back. Members of other groups are asked, and what they told
        last counts. A group is left out while many more clients send there than it remembers."""
        layout, found = self._core.layout, {}
        if REPEATS in layout.features:
            for (name, group), ticket in layout.producers.items():
                if name != CLIENT_WINDOW:
                    continue
                if self._is_member(group):
                    marks = self._marks(group) or self._told(group)
                    if not marks.is_crowded(group):
                        found[group] = max(marks.heard.get(group, 0), ticket << MARK_BITS)
                else:
                    self._outside.refresh(group)
                    told = self._outside.told(group)
                    if told is not None and told.mark >> MARK_BITS == ticket:
                        found[group] = told.mark
        return found

    def _is_member(self, group: Group) -> bool:
        return self._core.name in self._core.layout.groups.get(group, ())

    def _marks(self, group: Group) -> ProducerMarks | None:
        """What this site knows of the clients of a group; None: it has no log of the group."""
        core = self._core
        home = core.layout.home(core.name)
        engine = None if home is None else core.engines.get(home.epoch)
        if engine is None or core.name not in engine.structure.groups.get(group, ()):
            return None
        return engine.marks

    def begin(self, group: Group) -> None:
        """Clients send to the group: let it remember them from now on, if it can."""
        layout = self._core.layout
        known = self._is_member(group) or (self._outside.is_open and group in layout.groups)
        if (
            known
            and group not in self._asked
            and REPEATS in layout.features
            and (CLIENT_WINDOW, group) not in layout.producers
        ):
            self._asked[group] = asyncio.create_task(self._begin(group))

    async def _begin(self, group: Group) -> None:
        try:
            await self._ticket(CLIENT_WINDOW, group, REPEATS)
        except Error as error:  # then the daemon alone knows what it has taken
            _log.info("group %s does not remember clients: %s", group, error)
            await asyncio.sleep(AGAIN_S)
            del self._asked[group]

    async def send(
        self,
        name: tuple[bytes, int, int],
        group: Group,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """`name`: the client, its number and its stamp; `subject`: whom it speaks for. Raises as
        `multicast_many`; Expired if the window was removed since; Error if this site cannot
        tell."""
        client, number, stamp = name
        await self._sender.ready()
        ticket = self._core.layout.producers.get((CLIENT_WINDOW, group), 0)
        if stamp >> MARK_BITS < ticket:
            raise expired(group)
        mark = await self._mark(group, ticket, stamp)
        if stamp > mark + CLIENTS or number >> MARK_BITS:
            raise Error(
                f"the stamp {stamp} is far above the mark {mark} of group {group!r} here: this site"
                " is behind, or the number is not one that a daemon has told"
            )
        request = once(client, number, stamp)
        receipt = await self._sender.send_batch(group, batch, extras, request, subject)
        requests = Requests(request[0], ((request[1], len(batch)),))
        was_told = partial(self._was_told, group, requests)
        ask = partial(self._outside.delivered, group, stamp, was_told)
        return self._doubts.follow(
            receipt, was_told, lambda: self._error(group), ask if self._outside.is_open else None
        )

    async def _mark(self, group: Group, ticket: int, stamp: int) -> int:
        """The mark of the group, as it is known here. Raises Error if it is not."""
        marks, mark = self._marks(group), ticket << MARK_BITS
        if ticket and marks is not None:
            return max(marks.heard.get(group, 0), mark)
        if not ticket or self._is_member(group) or not self._outside.is_open:
            raise Error(f"site {self._core.name!r} does not know the clients of group {group!r}")
        told = self._outside.told(group)
        if told is None or stamp > told.mark + CLIENTS:
            told = await self._outside.ask(group)
        # A group that is crowded tells no mark, but takes what was stamped before.
        return max(mark, told.mark or (0 if told.horizon == LARGEST_NUMBER else told.horizon))

    def _error(self, group: Group) -> Expired:
        if group in self._core.layout.groups:
            return expired(group)
        return Expired(
            f"group {group!r} was removed before a member could tell what became of a request: it"
            " is not delivered from now on, and perhaps it was before"
        )

    def _told(self, group: Group) -> ProducerMarks:
        """What the ends of epochs have told: all that a site knows which is in none."""
        return ProducerMarks(marks_in(self._core.layout.lasts, [group]))

    def _was_told(self, group: Group, requests: Requests) -> bool:
        """Whether the end of an epoch has told that the request is delivered."""
        window = self._told(group).client_windows.get(group)
        return window is not None and window.knows(requests)


def expired(group: Group) -> Expired:
    return Expired(
        f"a request came too late for group {group!r}, which remembers its last {CLIENTS:,}"
        " clients: it is not delivered from now on, and perhaps it was before"
    )
