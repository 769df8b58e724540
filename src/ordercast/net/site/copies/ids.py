"""Messages with ids of the senders' own, sent through this site (docs/ids.md).

A member of the group has its log, so it knows which ids the group remembers, and what became of a
copy. Another site asks a member. Each site limits the messages with ids that it has under way, so
that all sites together do not fill the group's window of ids: otherwise the group would forget an
id whose message is still under way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from ordercast.core.batches import Extras
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.streams.copy_marks import was_kept
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
from ordercast.net.site.copies.outcomes import Outcomes
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.sender import SiteSender

TicketGiver = Callable[[str, Group, str], Awaitable[int]]
"""Of whom, at which group, and the feature that it needs (`ProducerSender.ticket`)."""


FRESH_S = 0.05  # how long a member's answer is used for marks


class _Room:
    """How many messages with ids this site has on their way to a group. They enter one by one. If a
    member was asked for the mark: its answer, when it came, and for how many messages more it is
    used."""

    def __init__(self) -> None:
        self.most = 1
        self._told = (0.0, 0, 0)
        self.in_turn = asyncio.Lock()
        self._under_way = 0
        self._left = asyncio.Event()

    async def enter(self) -> None:
        while self._under_way >= self.most:
            self._left.clear()
            await self._left.wait()
        self._under_way += 1

    async def settled(self, ask: Callable[[], Awaitable[int]]) -> int:
        """What a member has told. The answer is asked for anew before many ids can have come
        since."""
        at, settled, uses = self._told
        now = asyncio.get_running_loop().time()
        if not uses or now - at > FRESH_S:
            at, settled, uses = now, await ask(), self.most
        self._told = at, settled, uses - 1
        return settled

    def leave(self) -> None:
        self._under_way -= 1
        self._left.set()


class IdSender:
    def __init__(
        self,
        core: Member,
        sender: SiteSender,
        ticket: TicketGiver,
        doubts: Doubts,
        outcomes: Outcomes,
    ) -> None:
        self._core = core
        self._outcomes = outcomes
        self._doubts = doubts
        self._sender = sender
        self._ticket = ticket
        self._rooms: dict[Group, _Room] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def mark(self, group: Group) -> int:
        """The mark of the group's ids now. The first call for a group opens its window. Raises
        UnknownGroup, ConfigError (this site is no member and cannot ask one, or too many groups
        remember ids), NotInMajority, or Error (the site is closed)."""
        require_id(group, "any id", None)
        self._members(group)
        ticket = await self._ticket(ID_WINDOW, group, FEATURE)
        return await self._mark(group, ticket, _Room())

    async def send(
        self,
        name: tuple[str, int | None],
        group: Group,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """`name`: the id, and the mark when it may have been sent first, if that is known;
        `subject`: the subject that a client speaks for. Raises as `mark` and `multicast_many`;
        Expired if the window was removed since the mark."""
        chosen, since = name
        require_id(group, chosen, since)
        client = by_id(str(subject or ClientSubject("site", self._core.name)), chosen)
        room = self._room(group)
        async with room.in_turn:  # none overtakes another one
            ticket = await self._ticket(ID_WINDOW, group, FEATURE)
            await room.enter()
            try:
                mark = await self._mark(group, ticket, room)
                if since is not None:
                    if since >> MARK_BITS < ticket:
                        raise expired(chosen, group)
                    self._require_told(group, since, mark)
                request = (client, mark if since is None else since)
                receipt = await self._sender.send_batch(group, batch, extras, request, subject)
            except BaseException:
                room.leave()
                raise
        followed = self._followed(receipt, ticket, request, chosen)
        task = asyncio.create_task(self._follow(followed, room))
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))
        return followed

    def _followed(
        self, receipt: Receipt, ticket: int, request: tuple[bytes, int], chosen: str
    ) -> Receipt:
        """The receipt that raises Expired if the message was not delivered."""
        (client, mark), group, outcomes = request, receipt.group, self._outcomes

        def was_told() -> bool:
            """If the end of an epoch has told the id, a message of this id is delivered."""
            return (id_mark(client), ticket, group) in self._core.layout.lasts

        ask = partial(
            outcomes.delivered,
            (group, client),
            lambda told, epoch: was_kept(told, epoch, mark),
            lambda: self._core.layout.producers.get((ID_WINDOW, group)) != ticket,
            was_told,
        )
        return self._doubts.follow(
            receipt, was_told, lambda: expired(chosen, group), ask if outcomes.is_open else None
        )

    async def _follow(self, receipt: Receipt, room: _Room) -> None:
        try:
            await receipt.stable()
        except Error:
            pass  # refused, expired, or the site is closed
        finally:
            room.leave()

    def _members(self, group: Group) -> Sequence[Site]:
        """The members of the group. Raises ConfigError if this site is no member and can ask
        none."""
        core = self._core
        core.domain(group, ())  # raises if there is none
        if self._outcomes.is_open:
            return core.layout.groups[group]
        return require_member(core, group, "an id")

    def _room(self, group: Group) -> _Room:
        """Members together have half of the window, other sites a quarter."""
        members, layout = self._members(group), self._core.layout
        room = self._rooms.get(group)
        if room is None:
            room = self._rooms[group] = _Room()
        is_member = self._core.name in members
        sharing = 2 * len(members) if is_member else 4 * (len(layout.roster) - len(members))
        room.most = max(1, IDS // max(1, sharing))
        return room

    def _require_told(self, group: Group, since: int, mark: int) -> None:
        """Raise Error if a mark is far above what this site knows. A message keeps its mark in all
        copies, and the mark may come from a site that is further on. But the next number must be
        above the mark: a mark that no site has given would make the group forget all ids."""
        if since > mark + IDS:
            raise Error(
                f"since: {since} is far above the mark {mark} of group {group!r} here: this site is"
                " behind, or the number is not one that id_mark has told"
            )

    async def _mark(self, group: Group, ticket: int, room: _Room) -> int:
        """A number up to which all ids are stable, as far as this site knows, or a member that it
        asks."""
        settled = self._outcomes.settled_here(group)
        if settled is None:
            settled = await room.settled(partial(self._outcomes.settled, group))
        return max(settled, ticket << MARK_BITS)


def expired(chosen: str, group: Group) -> Expired:
    return Expired(
        f"id {chosen!r} came too late for group {group!r}, which remembers its last {IDS} ids:"
        " it is not delivered from now on, and perhaps it was before"
    )
