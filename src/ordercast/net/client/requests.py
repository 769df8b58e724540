"""The requests of a client to its daemon, and the receipts of their messages."""

import asyncio
from collections.abc import Sequence

import msgspec

from ordercast.model.envelope import HeaderRun, HeaderRuns
from ordercast.model.groups import Group, Site
from ordercast.net.admin.frames import ACCEPTED, ORDERED, STABLE, STAGE_NAMES


class ClientRequest:
    """One request: a batch of payloads to one target; its stages are those of all its messages."""

    __slots__ = (
        "after", "again", "at", "chosen", "count", "error", "group", "groups", "headers", "number",
        "payloads", "producer", "repeated", "seq", "since",
        "sites", "size", "stage", "stamp", "stream", "target", "waiters",
    )  # fmt: skip

    def __init__(
        self, number: int, target: Group, sites: tuple[Site, ...], groups: tuple[Group, ...] = ()
    ) -> None:
        self.number = number
        # If the group recognises it: the mark of its clients when it was first sent.
        self.stamp = 0
        # If a producer has sent it: who, its number at the group, and the number before it there;
        # `after` also of a request that the group recognises.
        self.producer = ""
        self.at = self.after = 0
        # If it has an id of the caller's own: the id, and the mark when it was first sent.
        self.chosen = ""
        self.since = 0
        self.target = target
        self.stream = target  # whose clients recognise it: its group, or the name of its list
        self.sites = sites
        self.groups = groups
        self.headers: list[HeaderRun] = []
        self.payloads: list[bytes] = []  # dropped when accepted; if copies are known, when stable
        self.count = 0
        self.size = 0
        self.again = False  # it was written on an earlier connection
        self.repeated = False  # it was written on several connections
        self.stage = 0
        self.group = target
        self.seq = 0  # of the first message; known when accepted
        self.error: Exception | None = None
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []

    def add(self, payloads: Sequence[bytes], size: int, headers: HeaderRuns = ()) -> int:
        """More payloads; the index of the last."""
        for run in headers:
            self.headers.append(HeaderRun(self.count + run.first, run.count, run.items))
        self.payloads.extend(payloads)
        self.count += len(payloads)
        self.size += size
        return self.count - 1

    def reached(self, stage: int, group: Group, seq: int) -> None:
        if stage <= self.stage:
            return
        self.stage, self.group, self.seq = stage, group, seq
        if stage >= self.kept_until:
            self.payloads, self.headers = [], []
        left = []
        for wanted, future in self.waiters:
            if wanted > stage:
                left.append((wanted, future))
            elif not future.done():
                future.set_result(None)
        self.waiters = left

    @property
    def kept_until(self) -> int:
        """The stage from which on it need not be sent again."""
        return STABLE if self.may_repeat else ACCEPTED

    @property
    def may_repeat(self) -> bool:
        """Whether it can be sent again anywhere: of its copies one is delivered."""
        return bool(self.stamp or self.producer or self.chosen)

    @property
    def is_under_way(self) -> bool:
        """Whether it takes room on its way to the daemon. What the group recognises is kept here
        until it is stable, but has arrived when it is accepted."""
        return self.stage < (ACCEPTED if self.stamp else self.kept_until)

    @property
    def is_handed_over(self) -> bool:
        return self.stage >= self.kept_until

    def failed(self, error: Exception) -> None:
        self.error = error
        self.payloads, self.headers = [], []
        self.interrupt(error)

    def interrupt(self, error: Exception) -> None:
        """Fail the calls that wait now. The request itself may still get further."""
        waiters, self.waiters = self.waiters, []
        for _, future in waiters:
            if not future.done():
                future.set_exception(error)

    async def wait(self, stage: int) -> None:
        if self.stage >= stage:
            return
        if self.error is not None:
            raise self.error
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters.append((stage, future))
        try:
            await future
        finally:
            if future.cancelled():
                self.waiters = [entry for entry in self.waiters if entry[1] is not future]


class ClientReceipt(msgspec.Struct, frozen=True, eq=False):
    """How far one message has come."""

    _sent: ClientRequest
    _index: int

    @property
    def group(self) -> Group:
        """The group that it was sent to; the name of a list is known when it is accepted."""
        return self._sent.group

    @property
    def seq(self) -> int:
        """Its seq; 0 until it is accepted, because the daemon gives it."""
        return self._sent.seq + self._index if self._sent.seq else 0

    @property
    def stage(self) -> str:
        """The stage that it has reached: accepted, ordered or stable; "" before."""
        return STAGE_NAMES[self._sent.stage]

    async def accepted(self) -> None:
        """Wait until it is durable at the daemon's site. Raises what the site refused it for
        (UnknownGroup, NotInMajority, TooLarge, …), Away (it is not known whether it was accepted),
        or Error (the client is closed)."""
        await self._sent.wait(ACCEPTED)

    async def ordered(self) -> None:
        """Wait until it is in its place; at `agreed` a failure may still move it. Raises as
        `accepted`."""
        await self._sent.wait(ORDERED)

    async def stable(self) -> None:
        """Wait until it is in the durable log of every member. Raises as `accepted`."""
        await self._sent.wait(STABLE)

    def __repr__(self) -> str:
        return f"<receipt of {self.group or '?'} {self.seq or '?'}>"
