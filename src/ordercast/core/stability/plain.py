"""`plain`: members tell each other, and the group's primary, how far their logs reach.

It is the simplest tracker that is right: a group of n members exchanges n² reports. It needs no
coordinator and no tree. The five protocols of [STAB] are measured against it.

With `eager` (`safe`, causal order: an application waits) a site reports a grown log at the end of
the burst. Otherwise, and for settled prefixes, reports wait for `report_delay` and go out together;
but not when `report_every` messages are unreported, because origins' windows wait for them.
"""

from collections.abc import Callable, Iterator, Sequence

from ordercast.core.stability.interface import TrackingProgress
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.limits import VECTOR_ENTRIES
from ordercast.model.options import NEVER, Options
from ordercast.wire.frames import DurableCounts, Item

_NOTHING = (0, 0)


class Plain:
    def __init__(
        self,
        site: Site,
        structure: Structure,
        send: Callable[[Site, Item], None],
        options: Options,
        boot: int,  # noqa: ARG002 no state here outlives a start
        clock: Callable[[], int],  # noqa: ARG002 nothing is measured here
    ) -> None:
        self.site = site
        self.structure = structure
        self.send = send
        self.timing = options.timing
        self.eager = options.prompt_stability
        self.held = 0  # messages in the log that are not final
        self._members: dict[Group, tuple[Site, ...]] = {}
        self._listeners: dict[Group, tuple[Site, ...]] = {}
        # The counts that other sites have reported: of their logs, and of their settled prefixes.
        self._heard: dict[Group, tuple[dict[Site, int], dict[Site, int]]] = {}
        self._others: dict[Group, tuple[int, int]] = {}  # the least counts of the other members
        self._mine: dict[Group, tuple[int, int]] = {}
        self._stable: dict[Group, int] = {}
        self._final: dict[Group, int] = {}
        self._urgent: dict[Group, None] = {}  # to be reported at the end of the burst
        self._lazy: dict[Group, None] = {}  # to be reported at `_lazy_at`
        self._lazy_at = NEVER
        self._told: dict[Group, tuple[int, int]] = {}  # the counts that were last reported
        for group in structure.concerning(site):
            self.concerns(group, structure.members(group))

    def concerns(self, group: Group, members: Sequence[Site]) -> None:
        if group in self._members:
            return
        self._members[group] = tuple(members)
        primary = self.structure.primary(
            group, () if group in self.structure.groups else tuple(members)
        )
        listeners = dict.fromkeys([*members, primary])
        listeners.pop(self.site, None)
        self._listeners[group] = tuple(listeners)
        self._stable[group] = self._final[group] = 0
        for counts in self._heard.get(group, ()):  # heard before the members were known
            for peer in [peer for peer in counts if peer not in members]:
                del counts[peer]
        if self.site not in members:
            self._mine[group] = (NEVER, NEVER)  # a non-member holds nobody up
        self._recount(group)

    def logged(self, group: Group, number: int, members: Sequence[Site]) -> bool:
        if group not in self._members:
            self.concerns(group, members)
        before, settled = self._mine.get(group, _NOTHING)
        self._mine[group] = (number, settled)
        self.held += number - before
        if self.eager or number - self._told.get(group, _NOTHING)[0] >= self.timing.report_every:
            self._urgent[group] = None
        else:
            self._lazy[group] = None
        return self._update(group)

    def settled(self, group: Group, number: int) -> None:
        self._mine[group] = (self._mine[group][0], number)
        if number - self._told.get(group, _NOTHING)[1] >= self.timing.report_every:
            self._urgent[group] = None
        else:
            self._lazy[group] = None
        self._update(group)

    def receive(self, peer: Site, item: Item) -> list[Group]:
        news: list[Group] = []
        if type(item) is DurableCounts:
            for group, _, _ in item.counts:
                if peer not in self._members.get(group, ()):
                    self._check(peer, group)
            for group, logged, settled in item.counts:
                heard = self._heard.get(group)
                if heard is None:
                    heard = self._heard[group] = ({}, {})
                logs, settles = heard
                before = logs.get(peer, -1), settles.get(peer, -1)
                if logged > before[0]:
                    logs[peer] = logged
                if settled > before[1]:
                    settles[peer] = settled
                least = self._others.get(group)
                if least is not None and before[0] > least[0] and before[1] > least[1]:
                    continue  # this peer was not the one furthest behind
                if self._recount(group):
                    news.append(group)
        return news

    def _check(self, peer: Site, group: Group) -> None:
        """PeerMistake unless the peer is a member. An implicit group may be unknown here so far."""
        members = self._members.get(group)
        if members is None and group in self.structure.groups:
            raise PeerMistake(f"it reports of {group!r}, which is no concern of {self.site}")
        if members is not None and peer not in members:
            raise PeerMistake(f"it reports of {group!r} and is no member")

    def _recount(self, group: Group) -> bool:
        """Count anew the least of the other members' reports; a member without a report has 0."""
        members = self._members.get(group)
        if members is None:
            return False  # an implicit group of which no batch has come yet
        heard = self._heard.get(group)
        others = len(members) - (self.site in members)
        if heard is not None and 0 < others == len(heard[0]):  # the common case
            self._others[group] = (min(heard[0].values()), min(heard[1].values()))
        else:
            self._others[group] = (0, 0) if others else (NEVER, NEVER)
        return self._update(group)

    def _update(self, group: Group) -> bool:
        """Count anew what is stable and final; whether it is more than before."""
        logged, settled = self._others[group]
        mine = self._mine.get(group, _NOTHING)
        stable, final = mine
        if logged < stable:
            stable = logged
        if settled < final:
            final = settled
        if stable <= self._stable[group] and final <= self._final[group]:
            return False
        self._stable[group] = stable
        if final > self._final[group]:
            if mine[0] != NEVER:
                self.held -= final - self._final[group]
            self._final[group] = final
        return True

    def stable(self, group: Group) -> int:
        return self._stable.get(group, 0)

    def stable_elsewhere(self, group: Group, members: Sequence[Site]) -> int:  # noqa: ARG002
        return self._stable.get(group, 0)  # members report to each other and to the primary only

    def final(self, group: Group) -> int:
        return self._final.get(group, 0)

    def open(self) -> list[Group]:
        return [
            group
            for group, counts in self._mine.items()
            if counts[0] != NEVER and counts[0] > self._final[group]
        ]

    def behind(self, group: Group) -> list[Site]:
        """The members with the shortest log; if logs are equal, the shortest settled prefix."""
        logs, settles = self._heard.get(group, ({}, {}))
        counts = {
            member: self._mine.get(group, _NOTHING)
            if member == self.site
            else (logs.get(member, 0), settles.get(member, 0))
            for member in self._members.get(group, ())
        }
        most = max((logged for logged, _ in counts.values()), default=0)
        for which in (0, 1):
            least = min((count[which] for count in counts.values()), default=0)
            if least < most:
                return [member for member, count in counts.items() if count[which] == least]
        return []

    def restarted(self, peer: Site | None) -> None:
        mine = [group for group, counts in self._mine.items() if counts[0] != NEVER]
        if peer is None:
            self._urgent.update(dict.fromkeys(mine))
            # A primary that is no member of its group has nothing to tell: it asks.
            asked = dict.fromkeys(
                member
                for group in self._members
                if self._mine.get(group) == (NEVER, NEVER)
                for member in self._members[group]
            )
            for member in asked:
                self.send(member, DurableCounts(()))
            return
        shared = [group for group in mine if peer in self._listeners[group]]
        for report in self._reports(shared):
            self.send(peer, report)

    def flush(self, now: int) -> int:
        if self._urgent:
            self._send(self._urgent)
            for group in self._urgent:
                self._lazy.pop(group, None)
            self._urgent.clear()
        if not self._lazy:
            self._lazy_at = NEVER
        elif self._lazy_at == NEVER:
            self._lazy_at = now + self.timing.report_delay
        elif self._lazy_at <= now:
            self._send(self._lazy)
            self._lazy.clear()
            self._lazy_at = NEVER
        return self._lazy_at

    def _send(self, groups: dict[Group, None]) -> None:
        if len(groups) == 1:  # the common case
            (group,) = groups
            report = DurableCounts(((group, *self._mine[group]),))
            self._told[group] = self._mine[group]
            for peer in self._listeners[group]:
                self.send(peer, report)
            return
        by_peer: dict[Site, list[Group]] = {}
        for group in groups:
            self._told[group] = self._mine[group]
            for peer in self._listeners[group]:
                by_peer.setdefault(peer, []).append(group)
        for peer, shared in by_peer.items():
            for report in self._reports(shared):
                self.send(peer, report)

    def _reports(self, groups: Sequence[Group]) -> Iterator[DurableCounts]:
        """Reports of these groups: the groups in one report are limited."""
        for first in range(0, len(groups), VECTOR_ENTRIES):
            some = groups[first : first + VECTOR_ENTRIES]
            yield DurableCounts(tuple((group, *self._mine[group]) for group in some))

    def patience(self) -> int:
        return 0  # items that may wait have waited here

    def deadline(self) -> int:
        return self._lazy_at

    def progress(self) -> TrackingProgress:
        return TrackingProgress(self.held, 0, 0, 0, 0, 0, 0, 0, ())
