"""Changes drawn at random that are possible one after the other, for clusters that are changed."""

import random
from collections.abc import Mapping, Sequence

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    UseBuilder,
    UseProtocol,
)

NEWCOMERS = ("u", "v", "w", "x")
MORE_GROUPS = ("delta", "eta", "theta")


class ScriptOfChanges:
    """A table that follows the changes. Groups it begins with stay; others come and go."""

    def __init__(
        self, groups: Mapping[str, Sequence[str]], voters: Sequence[str], rng: random.Random
    ) -> None:
        self.rng = rng
        self.lasting = sorted(groups)
        self.groups = {group: sorted(members) for group, members in groups.items()}
        self.sites = sorted({site for members in groups.values() for site in members})
        self.voters = sorted(voters)
        self.added: list[str] = []
        self.spare = list(NEWCOMERS)

    def draw(self, steps: int) -> list[list[Edit]]:
        script: list[list[Edit]] = []
        while len(script) < steps:
            edits = self._one()
            if edits:
                script.append(edits)
        return script

    def _one(self) -> list[Edit]:
        kinds = (
            self._join, self._join, self._leave, self._new_group, self._no_group, self._new_site,
            self._retire, self._protocol, self._protocol, self._builder, self._voters,
        )  # fmt: skip
        return self.rng.choice(kinds)()

    def _join(self) -> list[Edit]:
        edits: list[Edit] = []
        for _ in range(self.rng.choice([1, 1, 2])):
            group = self.rng.choice(sorted(self.groups))
            outside = [site for site in self.sites if site not in self.groups[group]]
            if outside:
                site = self.rng.choice(outside)
                self.groups[group].append(site)
                edits.append(JoinGroup(group, site))
        return edits

    def _leave(self) -> list[Edit]:
        large = [group for group, members in sorted(self.groups.items()) if len(members) > 1]
        if not large:
            return []
        group = self.rng.choice(large)
        site = self.rng.choice(sorted(self.groups[group]))
        self.groups[group].remove(site)
        return [LeaveGroup(group, site)]

    def _new_group(self) -> list[Edit]:
        free = [group for group in MORE_GROUPS if group not in self.groups]
        if not free:
            return []
        members = self.rng.sample(self.sites, self.rng.randint(1, 3))
        self.groups[free[0]] = list(members)
        return [AddGroup(free[0], tuple(members))]

    def _no_group(self) -> list[Edit]:
        there = [group for group in sorted(self.groups) if group not in self.lasting]
        if not there:
            return []
        group = self.rng.choice(there)
        del self.groups[group]
        return [RemoveGroup(group)]

    def _new_site(self) -> list[Edit]:
        if not self.spare:
            return []
        site = self.spare.pop(0)
        self.added.append(site)
        self.sites = sorted([*self.sites, site])
        return [AddSite(site)]

    def _retire(self) -> list[Edit]:
        alone = {members[0] for members in self.groups.values() if len(members) == 1}
        may = [site for site in self.added if site not in alone and site not in self.voters]
        if not may:
            return []
        site = self.rng.choice(may)
        self.added.remove(site)
        self.sites.remove(site)
        for members in self.groups.values():
            if site in members:
                members.remove(site)
        return [RetireSite(site)]

    def _protocol(self) -> list[Edit]:
        where = self.rng.choice(["", self.rng.choice(self.sites)])
        return [UseProtocol(self.rng.choice(list(PROTOCOLS)), where)]

    def _builder(self) -> list[Edit]:
        return [UseBuilder(self.rng.choice(["auto", "greedy", "star", "balanced"]))]

    def _voters(self) -> list[Edit]:
        others = [site for site in self.sites if site not in self.voters]
        if len(self.voters) > 3 and (not others or self.rng.random() < 0.5):
            site = self.rng.choice(self.voters)
            self.voters.remove(site)
            return [RemoveVoter(site)]
        if not others or len(self.voters) >= 5:
            return []
        site = self.rng.choice(others)
        self.voters = sorted([*self.voters, site])
        return [AddVoter(site)]
