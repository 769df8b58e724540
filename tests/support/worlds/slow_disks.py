"""Members whose disks take a while: sites go on meanwhile, and a crash loses all that is not
written. What leaves before the disk has it leaves many bursts before, not one."""

import random
from typing import Any

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.model.options import NEVER
from support.worlds.epochs import World


class SlowDisks(World):
    """`disk`: the longest time that a commit takes, in ns; 0: none. Commits end in their order."""

    def __init__(self, *given: Any, disk: int, **named: Any) -> None:
        self.disk = disk
        self._disk_draw = random.Random(named.get("seed", 1))
        self._written_at: dict[str, int] = {}
        self._given_at: dict[str, int] = {}  # the last of these with something for the application
        super().__init__(*given, **named)

    def drain(self, site: str) -> None:
        if not self.disk:
            super().drain(site)
            return
        self._bursting.discard(site)
        member = self.members[site]
        box = member.drain()
        self.mistaken(site, box)
        self._send(site, box)
        if self.now < self.calm_at and self.draw.random() < self._danger(member, box):
            self.crash(site)
            return
        alarm = self._alarms[site] = min(box.epochs_alarm, box.voters_alarm)
        if alarm < NEVER:
            self._push(max(alarm, self.now), "alarm", site)
        at = self.now + self._disk_draw.randint(1, self.disk)
        self._written_at[site] = at = max(at, self._written_at.get(site, 0))
        if box.deliver or box.receipts or box.outcomes:
            self._given_at[site] = at
        self.at(at, lambda: self._written(site, member, box))

    def handed_over(self) -> bool:
        """Nor is a disk at work on something that the application is given then."""
        given = [self._given_at.get(site, 0) for site in self.members]
        return super().handed_over() and max(given, default=0) <= self.now

    def _written(self, site: str, member: Member, box: MemberBox) -> None:
        if self.members.get(site) is member:
            for duty in (self._persist, self._then_send, self._deliver, self._forget):
                duty(site, box)
