"""Messages with ids of the senders' own, sent through this site (docs/ids.md).

Only members of a group take such messages. They have the log, so they know which ids the group
remembers, and what became of a copy. Each member limits how many it has on their way, so that all
members together do not fill the group's window of ids: otherwise the group would forget an id that
is still on its way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ordercast.core.batches import Extras
from ordercast.core.epochs.member import Member
from ordercast.core.ids import id_mark
from ordercast.model.arguments import require_id
from ordercast.model.epochs import ID_WINDOW
from ordercast.model.errors import Error, Expired
from ordercast.model.features import IDS as FEATURE
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.limits import IDS
from ordercast.model.messages import MARK_BITS, by_id
from ordercast.net.site.copies.doubts import Doubts, require_member
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.sender import SiteSender

TicketGiver = Callable[[str, Group, str], Awaitable[int]]
"""Of whom, at which group, and the feature that it needs (`ProducerSender.ticket`)."""


class _Room:
    """How many messages with ids this site has on their way to a group. They enter one by one."""

    def __init__(self) -> None:
        self.most = 1
        self.in_turn = asyncio.Lock()
        self._under_way = 0
        self._left = asyncio.Event()

    async def enter(self) -> None:
        while self._under_way >= self.most:
            self._left.clear()
            await self._left.wait()
        self._under_way += 1

    def leave(self) -> None:
        self._under_way -= 1
        self._left.set()


class IdSender:
    def __init__(
        self, core: Member, sender: SiteSender, ticket: TicketGiver, doubts: Doubts
    ) -> None:
        self._core = core
        self._doubts = doubts
        self._sender = sender
        self._ticket = ticket
        self._rooms: dict[Group, _Room] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def mark(self, group: Group) -> int:
        """The mark of the group's ids now. The first call for a group opens its window. Raises
        UnknownGroup, ConfigError (this site is no member, or too many groups remember ids),
        NotInMajority, or Error (the site is closed)."""
        self._members(group)
        return self._mark(group, await self._ticket(ID_WINDOW, group, FEATURE))

    async def send(
        self,
        name: tuple[str, int | None],
        group: Group,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """`name`: the id, and the mark since when it may have been sent, if that is known;
        `subject`: whom a client speaks for. Raises as `mark` and `multicast_many`; Expired if the
        window was removed since the mark."""
        chosen, since = name
        require_id(group, chosen, since)
        client = by_id(str(subject or ClientSubject("site", self._core.name)), chosen)
        room = self._room(group)
        async with room.in_turn:  # none overtakes another one
            ticket = await self._ticket(ID_WINDOW, group, FEATURE)
            await room.enter()
            try:
                mark = self._mark(group, ticket)
                if since is not None:
                    if since >> MARK_BITS < ticket:
                        raise expired(chosen, group)
                    self._require_told(group, since, mark)
                request = (client, mark if since is None else since)
                receipt = await self._sender.send_batch(group, batch, extras, request, subject)
            except BaseException:
                room.leave()
                raise
        task = asyncio.create_task(self._follow(receipt, room))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        # If the end of an epoch has told the id, a message of this id is delivered.
        told = (id_mark(client), ticket, group)
        return self._doubts.follow(
            receipt, lambda: told in self._core.layout.lasts, lambda: expired(chosen, group)
        )

    async def _follow(self, receipt: Receipt, room: _Room) -> None:
        try:
            await receipt.stable()
        except Error:
            pass  # refused, or the site is closed
        finally:
            room.leave()

    def _members(self, group: Group) -> Sequence[Site]:
        """The members of a group that this site is a member of."""
        self._core.domain(group, ())  # raises if there is none
        return require_member(self._core, group, "an id")

    def _room(self, group: Group) -> _Room:
        members = self._members(group)
        room = self._rooms.get(group)
        if room is None:
            room = self._rooms[group] = _Room()
        room.most = max(1, IDS // (2 * len(members)))
        return room

    def _require_told(self, group: Group, since: int, mark: int) -> None:
        """Raise Error if a mark is far above what this site knows. A message keeps its mark in all
        copies, and the mark may come from a site that is further on. But the next number must be
        above the mark: one that no site has given would make the group forget all ids."""
        if since > mark + IDS:
            raise Error(
                f"since: {since} is far above the mark {mark} of group {group!r} here: this site is"
                " behind, or the number is not one that id_mark has told"
            )

    def _mark(self, group: Group, ticket: int) -> int:
        """A number up to which all ids are stable, as far as this site knows."""
        core = self._core
        home = core.layout.home(core.name)
        engine = None if home is None else core.engines.get(home.epoch)
        settled = 0 if engine is None else engine.marks.settled.get(group, 0)
        return max(settled, ticket << MARK_BITS)


def expired(chosen: str, group: Group) -> Expired:
    return Expired(
        f"id {chosen!r} came too late for group {group!r}, which remembers its last {IDS} ids:"
        " it is not delivered from now on, and perhaps it was before"
    )
