"""Batches of the application's that gather, and who waits in line for room (`net.outgoing`)."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from ordercast.core.epochs.member import Member
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.messages import Requests

BATCH_BYTES = 65_536  # of payloads that gather
TURN_BYTES = BATCH_BYTES - 4_096
"""Who has sent so much in one turn of the loop lets it end: it is on its way then. Less than a
batch holds, else the message behind a full one would begin another before the turn ends."""

Request: TypeAlias = tuple[bytes, int]
"""A client's id and the number it gave to what it sends: the same one is taken once."""

Given: TypeAlias = tuple[Group, int, int]
"""The group, first seq and count of a batch."""

Taken: TypeAlias = tuple[bytes, int, Group, int, int]
"""A request, and the group, first seq and count that it became."""


class Waiting:
    """A batch that is filling, or waits for the end of the turn."""

    __slots__ = ("group", "members", "payloads", "request", "size")

    def __init__(
        self, group: Group, members: tuple[SiteName, ...], payloads: list[bytes], size: int
    ) -> None:
        self.group = group
        self.members = members
        self.payloads = payloads
        self.size = size
        self.request: Request | None = None

    def submit(self, core: Member, now: int) -> int:
        """The first seq, or as the site raises it. The batch tells a client's request in it."""
        requests: Requests | None = None
        if self.request is not None:
            client, number = self.request
            requests = Requests(client, ((number, len(self.payloads)),))
        if self.members:
            return core.submit_to(now, self.members, self.payloads, requests)[1]
        return core.submit(now, self.group, self.payloads, requests)


class Quick:
    """What may join a batch without a look at anything else: so many bytes, up to this seq. It is
    counted afterwards, all at once."""

    __slots__ = ("append", "began", "group", "left", "seq", "upto")

    def __init__(self, batch: Waiting, group: Group, left: int, seq: int, upto: int) -> None:
        self.group = group  # the very string that the caller has
        self.append: Callable[[bytes], None] = batch.payloads.append
        self.left = self.began = left
        self.seq = seq  # of the last
        self.upto = upto


class InLine:
    """Waits for room for so much; once `granted`, the room is its own until it has taken it."""

    __slots__ = ("future", "granted", "messages", "size")

    def __init__(self, messages: int, size: int) -> None:
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.messages = messages
        self.size = size
        self.granted = False
