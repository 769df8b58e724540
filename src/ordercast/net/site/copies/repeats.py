"""Requests of clients that a group recognises when they are repeated, through any site
(docs/requests.md).

A client stamps a request with the mark of the group's clients, which its daemon has told it. A
member of the group has the mark from the log; another site asks a member. For requests without a
stamp only the daemon knows what it has accepted, so such a request is stored before it leaves.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from ordercast.core.batches import Extras
from ordercast.core.epochs.admission import RequestName
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.streams.client_marks import engine_of
from ordercast.core.producers import ProducerMarks, marks_in
from ordercast.model.epochs import CLIENT_WINDOW
from ordercast.model.errors import Error, Expired, NotInMajority
from ordercast.model.features import LISTS, REPEATS
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group, is_implicit
from ordercast.model.limits import CLIENTS, LARGEST_NUMBER, LIST_WINDOWS
from ordercast.model.messages import MARK_BITS, Requests, once
from ordercast.net.site.copies.doubts import Doubts
from ordercast.net.site.copies.outside import OutsideMarks
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.sender import SiteSender

_log = logging.getLogger("ordercast.net.repeats")

TicketGiver = Callable[[str, Group, str, tuple[Site, ...]], Awaitable[int]]
"""Called with a producer or window, a group, the feature that it needs, and the sites of a list
(`ProducerSender.ticket`)."""

Listed = tuple[Group, tuple[Site, ...], bool]
"""The name of a list, its sites, and whether the request was sent before."""

AGAIN_S = 10.0  # after this time a window that was not granted is asked for again
_FEW_LISTS = 4 * LIST_WINDOWS  # above this number, lists without a window are forgotten


class RepeatSender:
    """`_asked` holds the groups whose window was asked for lately."""

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
        """The groups that remember clients, each with its mark. They are told also while this site
        is absent: it takes requests again when it is back. For a group of which this site is no
        member, this is the last answer of a member. A group is left out while many more clients
        send to it than it remembers. For a list that clients have sent to through this site, 0
        means that it is left out."""
        layout, found = self._core.layout, dict.fromkeys(self._outside.lists, 0)
        if REPEATS in layout.features:
            for (name, group), ticket in layout.producers.items():
                if name != CLIENT_WINDOW or not self._outside.members(group):
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
        return self._core.name in self._outside.members(group)

    def _marks(self, group: Group) -> ProducerMarks | None:
        """What this site knows of the clients of a group; None: it has no log of the group."""
        core, listed = self._core, self._outside.lists.get(group, ())
        engine = engine_of(core.name, core.layout, core.engines, group, listed)
        return None if engine is None else engine.marks

    def begin(self, group: Group, sites: tuple[Site, ...] = ()) -> None:
        """Clients send to the group, or to these listed sites: let the group remember its clients
        from now on, if it can."""
        layout = self._core.layout
        if sites:
            self._begin_list(sites)
            return
        known = self._is_member(group) or (self._outside.is_open and group in layout.groups)
        if (
            known
            and group not in self._asked
            and REPEATS in layout.features
            and (CLIENT_WINDOW, group) not in layout.producers
        ):
            self._asked[group] = asyncio.create_task(self._begin(group, REPEATS))

    def _begin_list(self, sites: tuple[Site, ...]) -> None:
        layout = self._core.layout
        if LISTS not in layout.features:
            return
        try:
            listed = layout.listed(sites)
        except Error:
            return  # it is refused in its turn
        group = implicit_group(listed)
        if group in self._asked or self._outside.members(group):
            return
        if (CLIENT_WINDOW, group) in layout.producers:
            self._know(group, listed)
            self._outside.tell()
            return
        windows = sum(n == CLIENT_WINDOW and is_implicit(g) for n, g in layout.producers)
        asked = sum(is_implicit(g) and not task.done() for g, task in self._asked.items())
        if windows + asked < LIST_WINDOWS:
            self._know(group, listed)
            self._asked[group] = asyncio.create_task(self._begin(group, LISTS, listed))

    def _know(self, group: Group, listed: tuple[Site, ...]) -> None:
        """Note the sites of a list. If there are many lists, forget those that remember no
        clients."""
        lists, producers = self._outside.lists, self._core.layout.producers
        lists[group] = listed
        if len(lists) > _FEW_LISTS:
            for other in [g for g in lists if g != group and (CLIENT_WINDOW, g) not in producers]:
                if other not in self._asked:
                    del lists[other]

    async def _begin(self, group: Group, feature: str, listed: tuple[Site, ...] = ()) -> None:
        try:
            await self._ticket(CLIENT_WINDOW, group, feature, listed)
            self._outside.tell()
        except Error as error:  # then only this daemon knows which requests it has accepted
            _log.info("group %s does not remember clients: %s", group, error)
            await asyncio.sleep(AGAIN_S)
            if listed:
                self._outside.lists.pop(group, None)
            del self._asked[group]

    async def send(
        self,
        name: tuple[bytes, int, int],
        group: Group,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """`name`: the client, its number and its stamp; `subject`: the subject that it speaks for.
        Raises as `multicast_many`; Expired if the window was removed since; Error if this site
        knows no mark."""
        await self._sender.ready()
        if group not in self._core.layout.groups:
            self._core.domain(group, ())  # raises UnknownGroup
        request = await self._request(name, group)
        receipt = await self._sender.send_batch(group, batch, extras, request, subject)
        return self._followed(receipt, group, name[2], request, len(batch))

    async def send_listed(
        self,
        name: tuple[bytes, int, int],
        to: Listed,
        batch: list[bytes],
        extras: Extras,
        subject: ClientSubject | None = None,
    ) -> Receipt:
        """As `send`, to listed sites. While one of them is absent, a request that may have been
        accepted before waits; any other request is refused, as one without a stamp is."""
        group, sites, again = to
        await self._sender.ready()
        while True:
            if again:
                await self._sender.whole(group, sites)
            listed = self._core.layout.listed(sites)
            if implicit_group(listed) != group:
                raise Error(f"{group!r} is not the name of the list {', '.join(sites)}")
            self._core.domain(group, listed)  # raises if there is none
            if (CLIENT_WINDOW, group) in self._core.layout.producers:
                self._know(group, listed)
            request = await self._request(name, group)
            try:
                receipt = await self._sender.send_listed(listed, batch, extras, request, subject)
            except NotInMajority:
                if not again:
                    raise
                continue
            return self._followed(receipt, group, name[2], request, len(batch))

    async def _request(self, name: tuple[bytes, int, int], group: Group) -> RequestName:
        """The name of the request in the log. Raises as `send`."""
        client, number, stamp = name
        ticket = self._core.layout.producers.get((CLIENT_WINDOW, group), 0)
        if stamp >> MARK_BITS < ticket:
            raise expired(group)
        mark = await self._mark(group, ticket, stamp)
        if stamp > mark + CLIENTS or number >> MARK_BITS:
            raise Error(
                f"the stamp {stamp} is far above the mark {mark} of group {group!r} here: this site"
                " is behind, or the number is not one that a daemon has told"
            )
        return once(client, number, stamp)

    def _followed(
        self, receipt: Receipt, group: Group, stamp: int, request: RequestName, count: int
    ) -> Receipt:
        requests = Requests(request[0], ((request[1], count),))
        was_told = partial(self._was_told, group, requests)
        ask = partial(self._outside.delivered, group, stamp, was_told)
        return self._doubts.follow(
            receipt, was_told, lambda: self._error(group), ask if self._outside.is_open else None
        )

    async def _mark(self, group: Group, ticket: int, stamp: int) -> int:
        """The mark of the group. Raises Error if it is not known here."""
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
        if group in self._core.layout.groups or is_implicit(group):
            return expired(group)
        return Expired(
            f"group {group!r} was removed before a member could tell what became of a request: it"
            " is not delivered from now on, and perhaps it was before"
        )

    def _told(self, group: Group) -> ProducerMarks:
        """The marks that the ends of epochs have told: a site without the group's log knows no
        others."""
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
