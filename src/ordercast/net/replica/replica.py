"""`Replica`: a replicated state machine: all members of a group apply the same commands in order.

    async with Replica(node, "alpha", apply) as replica:
        result = await replica.submit(b"command")
        value = await replica.read(lambda: state["key"])

`apply` is called once for each command, in the group's order, and must be deterministic; then all
replicas are equal at the same place of that order. A result is found by the name of its message
(site, incarnation, seq). So commands travel as they are, and anybody may send some to the group.

At every start the state is built again from the site's first position; or, with `snapshot`,
`restore` and a `path`, from the last snapshot. With the two hooks, a site that joins the group is
given the state by another replica. A snapshot is durable before its position is confirmed, and
reading begins after the snapshot, whatever is confirmed: a kill between any two steps only leaves
more commands to be applied again.
"""

import asyncio
import heapq
import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.net.replica.digests import ResultDigests, require_divergence
from ordercast.net.replica.membership import ReplicaGroup, ReplicaHost
from ordercast.net.replica.past import ReplicaPast, state_of
from ordercast.net.site.gaps import Gap, GapBatch
from ordercast.net.site.snapshot_file import Hooks, hooks_of

_log = logging.getLogger("ordercast.net.replica")

EVERY = 10_000  # messages between snapshots,
EVERY_BYTES = 16 * 1024 * 1024  # or so many bytes of them
COMPARE_S = 1.0  # pause between looks at the results of other replicas
_AGAIN_S = 0.02  # pause after a snapshot that was taken back
_TURN_MESSAGES = 512  # messages that are applied before other tasks run

R = TypeVar("R")
T = TypeVar("T")


class Applied(NamedTuple):
    """What `apply` has returned, or the error that it raised."""

    value: Any
    error: Exception | None


_Name = tuple[int, int]  # incarnation and seq of a command sent from this site


class Replica(Generic[R]):
    """Use it with `async with`, once. `position` is the site's last position that is applied.
    `diverged`: how its results or its state differ from another replica's; empty: nothing is known.

    The constructor raises ConfigError for arguments that do not fit. Entering raises UnknownGroup,
    ConfigError (the site is no member, or the snapshot is of another store), StoreCorrupt (the
    snapshot is damaged), or Error (it was entered before). Leaving raises the Error for which the
    replica has stopped.
    """

    def __init__(
        self,
        node: ReplicaHost,
        group: Group,
        apply: Callable[[bytes, Delivery], R],
        *,
        snapshot: Callable[[], bytes] | None = None,
        restore: Callable[[bytes], None] | None = None,
        path: str | Path | None = None,
        every: int = EVERY,
        every_bytes: int = EVERY_BYTES,
        on_other: Callable[[Delivery | Gap], object] | None = None,
        digest: Callable[[], object] | None = None,
        on_divergence: str = "alarm",
        compare_s: float = COMPARE_S,
    ) -> None:
        _require_plain(
            apply=apply, snapshot=snapshot, restore=restore, on_other=on_other, digest=digest
        )
        require_divergence(on_divergence)
        for name, value in (("every", every), ("every_bytes", every_bytes)):
            if value < 1:
                raise ConfigError(f"{name}: {value} is too small (1)")
        self.node = node
        self.group = group
        self.position = 0
        self._apply = apply
        self._hooks = hooks_of(snapshot, restore, path)
        self._past = ReplicaPast(node, group, self._hooks)
        self._group = ReplicaGroup(node, group, self._hooks)
        self._every = every
        self._every_bytes = every_bytes
        self._on_other = on_other
        self.diverged = ""
        self._digests = ResultDigests(group, digest)
        self._stops = on_divergence == "stop"
        self._compare_s = compare_s
        self._comparer: asyncio.Task[None] | None = None
        self._since = [0, 0]  # messages and bytes since the last snapshot was taken
        self._waiting: dict[_Name, asyncio.Future[Applied | None]] = {}
        self._reaching: list[tuple[int, int, asyncio.Future[None]]] = []  # a heap, by position
        self._numbers = count()
        # A daemon tells a command's seq only when it is accepted, perhaps after its delivery. For
        # commands without a seq: the position at which each was sent, and the outcomes since the
        # first of these positions, which may be theirs.
        self._unnamed: OrderedDict[int, int] = OrderedDict()
        self._early: OrderedDict[_Name, tuple[int, Applied]] = OrderedDict()
        self._reader: asyncio.Task[None] | None = None
        self._saver: asyncio.Task[None] | None = None
        self._one_save = asyncio.Lock()
        self._stopped: str | None = "is not entered"
        self._failure: Exception | None = None

    @property
    def saved(self) -> int:
        """The position of the last snapshot; 0 before there is any."""
        return self._past.saved

    # --- entering and leaving ---------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._reader is not None:
            raise Error(f"{self}: a replica is entered once; make another one")
        await self._group.require_member()
        self.position = await self._past.begin()
        self._stopped = None
        self._group.enter()
        self._past.needs_nothing_up_to(self.saved)
        await self._group.exchange(None, "")
        self._reader = asyncio.create_task(self._read())
        self._comparer = asyncio.create_task(self._compare())
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Raise the error for which the replica has stopped, unless the application has an error of
        its own."""
        tasks = [task for task in (self._reader, self._saver, self._comparer) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stop("has been left")
        self._group.leave()
        await self._past.written()
        if self._failure is not None and error is None:
            raise self._told() from self._failure

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or why
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_result(None)
        for _, _, reached in self._reaching:
            if not reached.done():
                reached.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self._stop(f"has stopped: {error}")
            _log.error("%s", self._told())

    def _told(self, more: str = "") -> Error:
        return Error(f"{self} {self._stopped}{more}")

    def _left(self) -> Error:
        return Error(
            f"site {self.node.site} has left group {self.group}: what it sends there is applied"
            " by others only"
        )

    def __str__(self) -> str:
        return f"the replica of {self.group} at site {self.node.site}"

    # --- commands and reads -----------------------------------------------------------------------

    async def submit(self, command: bytes) -> R:
        """Send a command to the group. Returns what `apply` returns for it here, or raises what it
        raises.

        If this is cancelled while the window is full, nothing is sent. If it is cancelled later,
        the command takes effect and only its result is lost. Raises ConfigError for an empty
        command, errors as `Node.multicast` if it cannot be sent, and Error if the replica stops
        first: the command may take effect.
        """
        if not command:
            raise ConfigError("an empty command cannot be submitted: those mark reads")
        outcome = await self._ordered(command)
        if outcome.error is not None:
            raise outcome.error
        result: R = outcome.value
        return result

    async def read(self, fn: Callable[[], T]) -> T:
        """Call `fn` on a state that holds everything which any replica had finished when this was
        called, and return its result. For that, an empty command is ordered and awaited. Raises as
        `submit`."""
        await self._ordered(b"")
        return fn()

    async def reach(self, position: int) -> None:
        """Wait until everything up to this position of the site is applied. Raises Error if the
        replica stops first."""
        if self.position >= position:
            return
        if self._stopped is not None:
            raise self._told()
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (position, next(self._numbers), reached)
        heapq.heappush(self._reaching, entry)
        try:
            await reached
        finally:
            if entry in self._reaching:
                self._reaching.remove(entry)
                heapq.heapify(self._reaching)
        if self.position < position:
            raise self._told()

    async def _ordered(self, payload: bytes) -> Applied:
        """Send a command, and wait until it is applied here."""
        if self._stopped is not None:
            raise self._told()
        if self._group.outside:
            raise self._left()
        mark = next(self._numbers)
        self._unnamed[mark] = self.position
        try:
            receipt = await self.node.multicast(self.group, payload)
            if not receipt.seq:
                await receipt.accepted()
            name = (self.node.incarnation, receipt.seq)
            early = self._early.pop(name, None)
        finally:
            del self._unnamed[mark]
            self._forget_early()
        if early is not None:
            return early[1]
        outcome: Applied | None = None
        if self._stopped is None:
            self._waiting[name] = waiter = asyncio.get_running_loop().create_future()
            outcome = await waiter
        if outcome is None:
            if self._stopped is None:
                raise self._left()
            raise self._told("; what was sent before may take effect nevertheless")
        return outcome

    def _forget_early(self) -> None:
        """Drop results that were applied before the first unnamed command was sent: they are not
        its results."""
        early = self._early
        oldest = next(iter(self._unnamed.values()), self.position)
        while early and next(iter(early.values()))[0] <= oldest:
            early.popitem(last=False)

    # --- deliveries -------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            attempt: int | None = None
            while True:  # once, and again after each rollback
                await self._read_on(self.node.batches(self.position + 1, attempt))
                attempt = self._past.attempt
        except Exception as error:
            self._fail(error)
        finally:
            self._stop("has been left")

    async def _read_on(self, batches: Any) -> None:
        turn = 0
        try:
            async for batch in batches:
                if isinstance(batch, EpochOpened):
                    await self._opened(batch)
                    continue
                if isinstance(batch, Rollback):
                    if await self._roll_back(batch):
                        return
                    continue
                self._take(batch)
                self._wake()
                self._save_if_due()
                turn += batch.count
                if turn >= _TURN_MESSAGES:
                    turn = 0
                    await asyncio.sleep(0)
        finally:
            await batches.aclose()

    async def _roll_back(self, rolled: Rollback) -> bool:
        """Go back if the rollback concerns this replica. Returns True if the state is an earlier
        one, and reading must begin again from there."""
        self._past.attempt = max(self._past.attempt, rolled.attempt)
        if rolled.position >= self.position:
            return False
        for name in [name for name, (at, _) in self._early.items() if at > rolled.position]:
            del self._early[name]
        self.position = await self._past.go_back(rolled.position, self._group.joined_at)
        self._since = [0, 0]
        self._digests.rolled_back()
        _log.warning(
            "%s: %d deliveries were taken back; its state is made anew from position %d",
            self, len(rolled.annulled), self.position,
        )  # fmt: skip
        return True

    async def _opened(self, epoch: EpochOpened) -> None:
        await self._group.opened(epoch)
        if self._group.outside:  # its commands are applied elsewhere now
            for waiter in self._waiting.values():
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()
        else:
            self._digests.opened(epoch.epoch)

    def _take(self, batch: DeliveredBatch | GapBatch) -> None:
        if batch.group != self.group:
            for item in batch.deliveries():
                if self._on_other is not None:
                    self._on_other(item)
                self.position = item.position
            self._since[0] += batch.count
            return
        if isinstance(batch, GapBatch):
            raise Error(
                f"{batch.count:,} commands from position {batch.position} on were shed: the state"
                " cannot be kept up (slow_member = 'shed')"
            )
        ours = batch.origin == self.node.site
        self._digests.begin(batch)
        for item in batch.deliveries():
            outcome = self._applied(item)
            self._digests.applied(*outcome)
            self.position = item.position
            self._since[0] += 1
            self._since[1] += len(item.payload)
            if ours:
                self._settle(item, outcome)

    def _applied(self, item: Delivery) -> Applied:
        if not item.payload:
            return Applied(None, None)  # an empty command: a `read`
        try:
            return Applied(self._apply(item.payload, item), None)
        except Exception as error:  # the error is the command's result, the same at every replica
            return Applied(None, error)

    def _settle(self, item: Delivery, outcome: Applied) -> None:
        name = (item.incarnation, item.seq)
        waiter = self._waiting.pop(name, None)
        if waiter is None:
            if self._unnamed:
                self._early[name] = (item.position, outcome)
        elif not waiter.done():  # else it was cancelled
            waiter.set_result(outcome)

    def _wake(self) -> None:
        reaching = self._reaching
        while reaching and reaching[0][0] <= self.position:
            reached = heapq.heappop(reaching)[2]
            if not reached.done():
                reached.set_result(None)

    # --- comparing with other replicas ------------------------------------------------------------

    async def _compare(self) -> None:
        while True:
            try:
                await self._compare_once()
            except Error as error:  # the site is gone; callers are told so elsewhere
                _log.debug("%s: not compared: %s", self, error)
            await asyncio.sleep(self._compare_s)

    async def _compare_once(self) -> None:
        heard = await self._group.exchange(self._digests.told(), self.diverged)
        here = self.node.site
        if self.diverged:
            return
        found = (self._digests.compare(here, peer, digest) for peer, digest in heard)
        self.diverged = next((difference for difference in found if difference), "")
        if self.diverged:
            await self._group.exchange(None, self.diverged)
            if self._stops and self._reader is not None:
                self._fail(Error(f"it has diverged: {self.diverged}"))
                self._reader.cancel()

    # --- snapshots --------------------------------------------------------------------------------

    async def save(self) -> int:
        """Write a snapshot now. Returns its position when it is durable. Raises ConfigError without
        snapshot hooks and a path, Error if the replica has stopped."""
        if self._hooks is None or self._past.path is None:
            raise ConfigError(f"{self} has no snapshot hooks, or no path to keep a snapshot at")
        if self._stopped is not None:
            raise self._told()
        return await self._saved(self._hooks)

    def _save_if_due(self) -> None:
        idle = self._saver is None or self._saver.done()
        hooks, path = self._hooks, self._past.path
        if hooks is not None and path is not None and idle and self._is_due():
            self._saver = asyncio.create_task(self._save_quietly(hooks))

    def _is_due(self) -> bool:
        return self._since[0] >= self._every or self._since[1] >= self._every_bytes

    async def _save_quietly(self, hooks: Hooks) -> None:
        try:
            while self._is_due():  # more messages may have come meanwhile
                await self._saved(hooks)
        except OSError as error:
            _log.warning("%s: no snapshot was written, and nothing confirmed: %s", self, error)
        except Exception as error:
            self._fail(error)
            if self._reader is not None:
                self._reader.cancel()

    async def _saved(self, hooks: Hooks) -> int:
        """Save a state between two commands. If it was taken back meanwhile, save another one."""
        async with self._one_save:
            while True:
                self._since = [0, 0]
                position = self.position
                if await self._past.save(position, state_of(hooks)):
                    return position
                await asyncio.sleep(_AGAIN_S)


def _require_plain(**functions: Callable[..., Any] | None) -> None:
    for name, function in functions.items():
        if inspect.iscoroutinefunction(function):
            raise ConfigError(f"{name}: is a coroutine; a replica calls ordinary functions")
