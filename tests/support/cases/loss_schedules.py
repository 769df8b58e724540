"""Random schedules in which sites crash one after the other while messages flow, and some of the
rest lose their stores while there is no manager. The sites that come back have all of a past, a
part of it, or nothing, in any mixture.
"""

import random

from ordercast.model.epochs import JoinGroup, LeaveGroup
from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World

VOTERS = "uvw"


class LossSchedule:
    """`changes`: sites join and leave groups as well."""

    def __init__(self, seed: int, *, changes: bool) -> None:
        draw = self.draw = random.Random(seed * 7919 + 1)
        self.sites = "abcde"[: draw.choice([3, 4, 4, 5])]
        groups = {"g": self.sites}
        if draw.random() < 0.6:
            some = draw.sample(self.sites, draw.randint(2, len(self.sites)))
            groups["h"] = "".join(sorted(some))
        self.groups = list(groups)
        self.changes = changes
        self.world = World(
            groups, self.sites + VOTERS, VOTERS, deliver=draw.choice(["safe", "agreed"]),
            policy="exclude", seed=seed, checkpoint_batches=draw.choice([2, 4, 16]),
            burst=draw.choice([0, 0.2]), loss=draw.choice([0, 0, 0.05]),
        )  # fmt: skip
        self._sent = 0

    def run(self) -> World:
        world, draw = self.world, self.draw
        world.run(SECOND)
        for phase in range(draw.randint(2, 4)):
            self._go_one_after_the_other()
            if self.changes and draw.random() < 0.5:
                site, group = draw.choice(self.sites), draw.choice(self.groups)
                edit = JoinGroup if draw.random() < 0.7 else LeaveGroup
                world.ask("u", f"c{phase}", edit(group, site))
                self._wait(100, 1500)
            present = [site for site in self.sites if site in world.members]
            if draw.random() < 0.7 and present:
                self._lose_some(present)
            self._send(0, 4)
        self._wait(1000, 1000)
        world.settle(40 * SECOND)
        self._send(2, 2)
        world.settle(20 * SECOND)
        return world

    def _go_one_after_the_other(self) -> None:
        draw = self.draw
        for site in draw.sample(self.sites, draw.randint(1, len(self.sites) - 1)):
            self._send(0, 4)
            if site in self.world.members:
                away = draw.choice([1, 3, 3, 6, 6, 12]) * SECOND
                self.world.crash(site, away + draw.randint(0, 300) * MILLISECOND)
            if draw.random() < 0.5:
                self._wait(300, 1500)
        self._send(0, 3)
        self._wait(500, 2500)

    def _lose_some(self, present: list[str]) -> None:
        draw = self.draw
        if draw.random() < 0.7:
            away = draw.randint(1, 4) * SECOND
            for voter in draw.sample(VOTERS, 2):
                if voter in self.world.members:
                    self.world.crash(voter, away)
        for site in draw.sample(present, draw.randint(1, min(2, len(present)))):
            self.world.lose(site, draw.choice([200, 500, 1000, 2500]) * MILLISECOND)
        self._send(0, 2)
        self._wait(500, 5000)

    def _send(self, least: int, most: int) -> None:
        draw = self.draw
        for _ in range(draw.randint(least, most)):
            self._sent += 1
            site = draw.choice(self.sites)
            if draw.random() < 0.12:
                some = sorted(draw.sample(self.sites, draw.randint(2, len(self.sites))))
                self.world.submit_to(site, some, b"list %d" % self._sent)
            else:
                self.world.submit(site, draw.choice(self.groups), b"%d" % self._sent)
            if draw.random() < 0.6:
                self._wait(1, 15)

    def _wait(self, least_ms: int, most_ms: int) -> None:
        self.world.run(self.world.now + self.draw.randint(least_ms, most_ms) * MILLISECOND)


def loss_schedule(seed: int) -> World:
    """Every other seed with changes of groups."""
    return LossSchedule(seed, changes=seed % 2 == 1).run()
