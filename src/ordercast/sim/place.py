"""Where a site lives in the simulated world: its member, clock, disk and alarms."""

from collections import deque
from typing import Any

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.sim.disk import Disk
from ordercast.sim.workload import Submission


class Place:
    """One site. `running` is None while the site is down or paused."""

    __slots__ = (
        "alarm", "asking", "boot", "clock", "disk", "held", "inbox", "name", "outboxes",
        "paused", "pushed", "running", "site", "syncing", "unsynced", "voters_alarm",
        "voters_pushed", "waiting",
    )  # fmt: skip

    def __init__(self, name: Site, clock: int, disk: Disk) -> None:
        self.name = name
        self.clock = clock  # this site's time minus the world's
        self.disk = disk
        self.site: Member | None = None  # None: down
        self.running: Member | None = None
        self.paused = False
        self.boot = 0
        self.alarm = NEVER  # when the site wants to be called
        self.pushed = NEVER  # when the heap will call it
        self.voters_alarm = self.voters_pushed = NEVER  # the same in the voters' heap
        self.outboxes = 0  # outboxes with records so far, over all starts
        self.unsynced: deque[tuple[int, MemberBox]] = deque()  # outboxes that wait for a sync
        self.syncing = 0  # how many of `unsynced` the sync under way covers; 0: there is none
        self.inbox: list[tuple[Site, Any]] = []  # frames that came since it last woke
        self.held: list[tuple[int, Any, Any, Any]] = []  # calls that came while it was paused
        self.waiting: deque[Submission] = deque()  # submissions that the site has not taken yet
        self.asking = False  # the heap will call to offer `waiting` again
