"""Where a site lives in the simulated world, and what the world asks of a site.

`core.engine.Engine` is what runs here; a test may put a mutant in its place.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from ordercast.core.outbox import Checkpoint, Outbox, Record
from ordercast.core.structure import Structure
from ordercast.model.groups import Group
from ordercast.model.groups import Site as SiteName
from ordercast.model.options import NEVER, Options
from ordercast.sim.disk import Disk
from ordercast.sim.workload import Submission
from ordercast.wire.frames import Frame


class SiteLike(Protocol):
    """The face of `core.engine.Engine`."""

    def start(self, now: int) -> None: ...
    def submit(self, now: int, group: Group, payloads: list[bytes]) -> int: ...
    def submit_to(
        self, now: int, sites: tuple[SiteName, ...], payloads: list[bytes]
    ) -> tuple[Group, int]: ...
    def receive(self, now: int, peer: SiteName, frame: Frame) -> None: ...
    def alarm(self, now: int) -> None: ...
    def hold(self, now: int, *, held: bool) -> None: ...
    def drain(self) -> Outbox: ...
    def stored(self, counted: Sequence[SiteName]) -> None: ...
    def observations(self) -> list[tuple[str, int, int]]: ...
    def quiet(self, apart_from: Sequence[SiteName] = ()) -> bool: ...


class MakeSite(Protocol):
    def __call__(
        self,
        name: SiteName,
        structure: Structure,
        options: Options,
        *,
        protocol: str,
        boot: int,
        checkpoint: Checkpoint | None,
        records: list[Record],
    ) -> SiteLike: ...


class Place:
    """A site's state, clock, disk and alarm. `running` is None while it is down or paused."""

    __slots__ = (
        "alarm", "asking", "boot", "clock", "disk", "held", "inbox", "name", "outboxes",
        "paused", "pushed", "running", "site", "syncing", "unsynced", "waiting",
    )  # fmt: skip

    def __init__(self, name: SiteName, clock: int, disk: Disk) -> None:
        self.name = name
        self.clock = clock  # this site's time minus the world's
        self.disk = disk
        self.site: SiteLike | None = None  # None: down
        self.running: SiteLike | None = None
        self.paused = False
        self.boot = 0
        self.alarm = NEVER  # when it is wanted
        self.pushed = NEVER  # when the heap next calls
        self.outboxes = 0  # drained so far, over all starts
        self.unsynced: deque[tuple[int, Outbox]] = deque()  # drained, waiting for a sync
        self.syncing = 0  # how many of those the sync under way covers; 0: none is under way
        self.inbox: list[tuple[SiteName, Any]] = []  # frames that came since it last woke
        self.held: list[tuple[int, Any, Any, Any]] = []  # calls that came while it was paused
        self.waiting: deque[Submission] = deque()  # what its application could not submit yet
        self.asking = False  # the heap holds a call to offer those again
