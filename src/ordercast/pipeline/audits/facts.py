"""The facts of the small tables (groups, events, epochs), as arrays that travel to the workers.

The checkers in memory and this engine read events by the same class, so there is one definition of
their meaning.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ordercast.check.copies import told_copies
from ordercast.check.view import View
from ordercast.history.rows import ROLLBACK, History
from ordercast.pipeline.audits.numbers import Bools, Ints, Numbers


@dataclass(frozen=True)
class GroupEnd:
    """The sites that can show that a message to a group is lost: members of its last epoch, and of
    all epochs."""

    ended: tuple[int, ...]  # live in the last epoch, and up at the end
    always: frozenset[int]
    everyone: tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """Arrays over sites; `pairs` are (group, epoch); bases are numbered one after the other."""

    sites: int
    groups: int
    ended: Bools
    rollbacks: Mapping[int, tuple[tuple[int, int], ...]]  # site: (attempt, position)
    unagreed: Mapping[int, tuple[int, ...]]  # site: epochs
    epochs: Ints  # all that `groups` names, sorted
    pair_keys: Ints  # sorted; group * epochs + place of the epoch
    member_starts: Ints  # of each pair in `member_sites`
    member_sites: Ints
    base_site: Ints
    base_position: Ints
    base_epoch: Ints
    gap_keys: Ints  # sorted; message * sites + site
    dropped: Ints  # sorted; messages that were dropped
    copies: Ints  # sorted; of these, those that are copies of others, as all say
    copy_members: Ints  # of each copy: the member that shows it lost if there is no other; -1: none
    gap_counts: Mapping[int, int]  # positions at which a site has gaps or bases
    group_ends: Mapping[int, GroupEnd]

    def pairs(self, groups: Ints, epochs: Ints) -> Ints:
        """The number of each (group, epoch), -1 where there is none."""
        if not len(self.pair_keys):
            return np.full(len(groups), -1, np.int64)
        place = np.searchsorted(self.epochs, epochs)
        place[place == len(self.epochs)] = 0
        keys = groups * len(self.epochs) + place
        found = np.searchsorted(self.pair_keys, keys)
        found[found == len(self.pair_keys)] = 0
        known = (self.pair_keys[found] == keys) & (self.epochs[place] == epochs)
        return np.where(known, found, -1)

    def are_members(self, pairs: Ints, sites: Ints) -> Bools:
        keys = pairs * self.sites + sites
        return is_in(keys, self.member_keys) & (pairs >= 0)

    @property
    def member_keys(self) -> Ints:
        counts = np.diff(self.member_starts)
        return np.repeat(np.arange(len(counts)), counts) * self.sites + self.member_sites


def is_in(values: Ints, among: Ints) -> Bools:
    """Which values are in a sorted array."""
    if not len(among):
        return np.zeros(len(values), bool)
    found = np.searchsorted(among, values)
    found[found == len(among)] = 0
    return np.asarray(among[found] == values)


@dataclass(frozen=True)
class SiteLog:
    """What a site's events say of its positions; stays on the driver, for `positions`."""

    bases: tuple[int, ...] = ()
    gaps: tuple[int, ...] = ()


def gather(numbers: Numbers, runs: Sequence[History]) -> tuple[Facts, dict[int, SiteLog]]:
    """`runs[i]` has the groups, events and epochs of run i."""
    ended = np.zeros(len(numbers.sites), bool)
    rollbacks: dict[int, tuple[tuple[int, int], ...]] = {}
    unagreed: dict[int, tuple[int, ...]] = {}
    bases: list[tuple[int, int, int]] = []
    gaps: set[int] = set()
    dropped: set[int] = set()
    copies: dict[int, int] = {}
    logs: dict[int, SiteLog] = {}
    members: dict[tuple[int, int], list[int]] = {}
    group_ends: dict[int, GroupEnd] = {}
    for run, history in enumerate(runs):
        view = View(history)
        site_of = [numbers.site_number[run, site.name] for site in view.sites]
        for number, site in zip(site_of, view.sites, strict=True):
            ended[number] = site.ended
            if site.unagreed_epochs:
                unagreed[number] = tuple(sorted(site.unagreed_epochs))
            bases += [(number, base.position, base.epoch) for base in site.bases]
            for gap in site.gaps:
                message = numbers.message_number(run, gap)
                if message is not None:
                    gaps.add(message * len(numbers.sites) + number)
            for copy in site.dropped:
                message = numbers.message_number(run, copy)
                if message is not None:
                    dropped.add(message)
            if site.bases or site.gap_positions:
                logs[number] = SiteLog(
                    tuple(base.position for base in site.bases),
                    tuple(sorted(set(site.gap_positions))),
                )
        for copy, member in told_copies(view).items():
            message = numbers.message_number(run, copy)
            if message is not None:
                copies[message] = -1 if member is None else site_of[member]
        rollbacks.update(_rollbacks(history, numbers, run))
        for (epoch, group), own in view.members.items():
            members[numbers.group_number[run, group], epoch] = [site_of[site] for site in own]
        group_ends.update(_group_ends(view, numbers, run, site_of))
    epochs = np.array(sorted({epoch for _, epoch in members}), np.int64)
    place = {int(epoch): i for i, epoch in enumerate(epochs)}
    keyed = sorted(
        (group * len(epochs) + place[epoch], own) for (group, epoch), own in members.items()
    )
    starts = np.cumsum([0, *(len(own) for _, own in keyed)], dtype=np.int64)
    facts = Facts(
        sites=len(numbers.sites),
        groups=len(numbers.groups),
        ended=ended,
        rollbacks=rollbacks,
        unagreed=unagreed,
        epochs=epochs,
        pair_keys=np.array([key for key, _ in keyed], np.int64),
        member_starts=starts,
        member_sites=np.array([site for _, own in keyed for site in own], np.int64),
        base_site=np.array([base[0] for base in bases], np.int64),
        base_position=np.array([base[1] for base in bases], np.int64),
        base_epoch=np.array([base[2] for base in bases], np.int64),
        gap_keys=np.array(sorted(gaps), np.int64),
        dropped=np.array(sorted(dropped), np.int64),
        copies=np.array(sorted(copies), np.int64),
        copy_members=np.array([copies[message] for message in sorted(copies)], np.int64),
        gap_counts={site: len(log.bases) + len(log.gaps) for site, log in logs.items()},
        group_ends=group_ends,
    )
    return facts, logs


def _rollbacks(
    history: History, numbers: Numbers, run: int
) -> dict[int, tuple[tuple[int, int], ...]]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in history.events:
        if event.kind == ROLLBACK:
            site = numbers.site_number[run, event.site]
            found[site].append((event.attempt, event.position))
    return {site: tuple(sorted(set(own))) for site, own in found.items()}


def _group_ends(
    view: View, numbers: Numbers, run: int, site_of: Sequence[int]
) -> dict[int, GroupEnd]:
    by_group: dict[str, dict[int, Mapping[int, bool]]] = defaultdict(dict)
    for (epoch, group), own in view.members.items():
        by_group[group][epoch] = own
    found = {}
    for group, by_epoch in by_group.items():
        last = by_epoch[max(by_epoch)]
        everyone = dict.fromkeys(site for own in by_epoch.values() for site in own)
        found[numbers.group_number[run, group]] = GroupEnd(
            tuple(site_of[s] for s, live in last.items() if live and view.sites[s].ended),
            frozenset(site_of[s] for s in last if all(s in own for own in by_epoch.values())),
            tuple(site_of[s] for s in everyone),
        )
    return found
