"""Messages that absent members of this site's groups will ask for when they return. For each member
these are the messages of the epochs that ended without it, and of the last epoch that it was in."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from ordercast.core.epochs.layout import Domain, Layout
from ordercast.core.epochs.log_tail import Counted, Tail, reached
from ordercast.core.epochs.records import Filled
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Placed

_BATCH = 256  # bytes of a batch without its body

Shelf = dict[int, dict[Group, dict[int, Placed]]]
"""Batches by epoch, group and number."""


class _Member(Protocol):
    """The member that keeps the messages."""

    name: Site
    layout: Layout


class Missed:
    """For each group and epoch on the shelf, it has all messages that may be asked for."""

    def __init__(self, member: _Member) -> None:
        self._member = member
        self.shelf: Shelf = {}
        self.size = 0  # bytes

    def places(self) -> tuple[tuple[int, Group], ...]:
        return tuple((epoch, group) for epoch, groups in self.shelf.items() for group in groups)

    def of(self, epoch: int, group: Group) -> dict[int, Placed]:
        return self.shelf.get(epoch, {}).get(group, {})

    def restore(self, places: Iterable[tuple[int, Group]], batches: Iterable[Filled]) -> None:
        self.shelf, self.size = {}, 0
        for epoch, group in places:
            self.shelf.setdefault(epoch, {}).setdefault(group, {})
        for filled in batches:
            self.remember(filled.epoch, filled.placed)

    def remember(self, epoch: int, placed: Placed) -> None:
        shelf = self.shelf.setdefault(epoch, {}).setdefault(placed.batch.group, {})
        if placed.number not in shelf:
            self.size += len(placed.batch.body) + _BATCH
        shelf[placed.number] = placed

    def remembering(self, domain: Domain) -> Callable[[Placed], None] | None:
        """A function to call with batches that the epoch's log forgets; None: nobody misses any."""
        member = self._member
        if not member.layout.absent or not domain.has(member.name):
            return None
        mine = domain.structure.groups_at(member.name)
        missed = dict.fromkeys(group for group in mine if self.is_missed(group))
        return partial(self._remember_of, domain.epoch, missed) if missed else None

    def _remember_of(self, epoch: int, groups: dict[Group, None], placed: Placed) -> None:
        if placed.batch.group in groups and self.is_missed(placed.batch.group):
            self.remember(epoch, placed)

    def is_missed(self, group: Group, members: Iterable[Site] = ()) -> bool:
        """Whether the group has absent members for whom something is kept."""
        layout = self._member.layout
        listed = tuple(members) or layout.groups.get(group, ())
        return any(site in layout.absent and site not in layout.lapsed for site in listed)

    def keep(self, places: Iterable[tuple[int, Group]], log: Iterable[tuple[int, Placed]]) -> None:
        """Keep the batches of a closed epoch, for groups with absent members."""
        for epoch, group in places:
            if self.is_missed(group):
                self.shelf.setdefault(epoch, {}).setdefault(group, {})
        for epoch, placed in log:
            if self.is_missed(placed.batch.group, placed.batch.members):
                self.remember(epoch, placed)

    def keep_past(self, tail: Tail, counts: Counted, log: Sequence[tuple[int, Placed]]) -> None:
        """Keep the past that this site missed itself. If the end of a group's past was lost with
        stores, nothing of the group is kept: otherwise a site would ask for the rest."""
        whole = dict.fromkeys(reached(tail, counts, log))
        self.keep(whole, log)
        for epoch, group in counts:
            if (epoch, group) not in whole:
                self.shelf.get(epoch, {}).pop(group, None)
        self._weigh()

    def drop(self, epoch: int) -> None:
        """Keep nothing of the epoch. This site was absent for too long, and lacks the end of the
        epoch."""
        self.shelf.pop(epoch, None)
        self._weigh()

    def _weigh(self) -> None:
        self.size = sum(len(f.placed.batch.body) + _BATCH for f in packed(self.shelf))

    def prune(self) -> None:
        layout = self._member.layout
        kept_for = [e for site, e in layout.absent.items() if site not in layout.lapsed]
        first = min(kept_for, default=layout.last_epoch + 1)
        self.shelf = {
            epoch: kept
            for epoch, groups in self.shelf.items()
            if epoch >= first and (kept := {g: b for g, b in groups.items() if self._wanted(g, b)})
        }
        self._weigh()

    def _wanted(self, group: Group, batches: dict[int, Placed]) -> bool:
        if not group.startswith("@"):
            return self.is_missed(group)
        return any(self.is_missed(group, placed.batch.members) for placed in batches.values())


def packed(shelf: Shelf) -> tuple[Filled, ...]:
    return tuple(
        Filled(epoch, placed)
        for epoch, groups in shelf.items()
        for batches in groups.values()
        for placed in batches.values()
    )
