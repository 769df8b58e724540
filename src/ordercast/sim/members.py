"""The members of the simulated world: what all of them are made from, and the judge of epochs.

A run is *steady* if nothing can change in it: its faults ask for no changes (`join`, `leave`,
`switch`), no site may have to be excluded, and no link is cut for good. Then all sites are in one
epoch, whose forest is that of the plan. No epoch depends on what the voters say, so they say it
rarely.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ordercast.check.verdict import Verdict
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Build, Domain, Layout, first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.epochs.raft import VotingTimes
from ordercast.core.epochs.records import Anew, Confirmed, Kept, MemberBox, MemberRecord
from ordercast.core.order.interface import CLOSING
from ordercast.core.order.registry import PROTOCOLS, builder_for, misfit
from ordercast.core.outbox import Accepted
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.forest.indexed_table import IndexedTable
from ordercast.history.rows import EpochRow, GroupRow
from ordercast.model.epochs import Edit, Entry, JoinGroup, LeaveGroup, UseBuilder, UseProtocol
from ordercast.model.errors import ConfigError
from ordercast.model.features import known_features
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.messages import Key
from ordercast.model.options import MILLISECOND, SECOND, Options, Timing
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import changes_groups
from ordercast.sim.networks import WanSpec

_VOTERS = 5
_NEAR = VotingTimes(beat=20 * MILLISECOND, election=100 * MILLISECOND)
_FAR = VotingTimes(beat=200 * MILLISECOND, election=1000 * MILLISECOND)  # above any round trip
_RARE = VotingTimes(beat=SECOND, election=2 * SECOND)  # in a steady run
_MANNERS: tuple[Edit, ...] = (
    UseBuilder("star"),
    UseBuilder("greedy"),
    UseBuilder("balanced"),
    *(UseProtocol(name) for name in PROTOCOLS),
)


def build_forest(table: GroupTable, builder: str, protocol: str) -> Forest:
    """The forest of one domain. A protocol that needs a certain builder gets it."""
    return advise(table, builder_for(protocol, builder)).forest


class SharedFolds(Folds):
    """Each layout is folded, packed and unpacked once for all members of a run."""

    def __init__(self, build: Build) -> None:
        super().__init__(build)
        # Layouts before and after a record. The layouts are kept, so that the id of one is never
        # the id of another.
        self._after: dict[tuple[int, Entry], tuple[Layout, Layout]] = {}
        self._bytes: dict[int, tuple[Layout, bytes]] = {}
        self._layouts: dict[bytes, Layout] = {}

    def fold(self, layout: Layout, entry: Entry) -> Layout:
        known = self._after.get((id(layout), entry))
        if known is None:
            known = self._after[id(layout), entry] = (layout, super().fold(layout, entry))
        return known[1]

    def pack(self, layout: Layout) -> bytes:
        known = self._bytes.get(id(layout))
        if known is None:
            known = self._bytes[id(layout)] = (layout, super().pack(layout))
            self._layouts.setdefault(known[1], layout)
        return known[1]

    def unpack(self, data: bytes) -> Layout:
        known = self._layouts.get(data)
        if known is None:
            known = self._layouts[data] = super().unpack(data)
        return known


class Epochs:
    """All that members have said of epochs, on which they must agree."""

    def __init__(self, config: SimConfig, structure: Structure, seed: int) -> None:
        self.config = config
        self._tree = config.planned.tree  # for the builder `given`
        self._excludes = config.excludes
        self.steady = not (config.excludes or config.cuts or changes_groups(config.faults))
        self.first = self._whole(structure) if self.steady else self._apart()
        self._folds = SharedFolds(self.build)
        self._counts: dict[Site, int] = {}  # how many records each site has folded
        # Of each epoch: when it was first seen, and its domain.
        self.domains: dict[int, tuple[int, Domain]] = {}
        self._nominal: dict[int, dict[Group, tuple[Site, ...]]] = {}
        sites = config.table.sites
        self.stores = {site: number for number, site in enumerate(sorted(sites), start=1)}
        self._lost: dict[Site, None] = {}
        self._lapsed: dict[Site, None] = {}
        self.absent: dict[Site, int] = {}  # the absent sites of the latest layout
        self._latest = -1
        self.on_excluded: Callable[[int, Site, Site, int], None] = lambda *_: None
        self.asked = 0
        far = isinstance(config.network, WanSpec)
        self._times = _RARE if self.steady else _FAR if far else _NEAR
        self.options = self._in_time(config.options)
        self._stream = Chance(seed, "changes")
        self._closes: dict[int, dict[Site, Key]] = {}
        self._differ: list[dict[str, Any]] = []
        self.notice(0, "", self.first)

    def build(self, table: GroupTable, builder: str, protocol: str) -> Forest:
        if self._excludes and (unfit := misfit(protocol, on_failure="exclude")):
            raise ConfigError(f"protocol: {unfit[1]}")
        return build_forest(replace(table, tree=self._tree), builder, protocol)

    def _voters(self) -> tuple[Site, ...]:
        sites = self.config.table.sites
        return tuple(sorted(sites)) if len(sites) <= 3 else tuple(sorted(sites)[:_VOTERS])

    def _whole(self, structure: Structure) -> Layout:
        """The first layout, with all sites in one epoch."""
        config = self.config
        sites = tuple(sorted(config.table.sites))
        domain = Domain(structure.epoch, config.built_by, config.protocol, structure, sites)
        return Layout(
            0, dict.fromkeys(sites, 1), self._voters(), config.table.groups,
            {domain.epoch: domain}, domain.epoch, whole=True, causal=config.causal,
            features=known_features(),
        )  # fmt: skip

    def _apart(self) -> Layout:
        """The first layout, with each domain in an epoch of its own, as in a cluster."""
        config = self.config
        return first_layout(
            config.table.sites, self._voters(), config.table.groups, config.built_by,
            config.protocol, self.build, whole=config.causal, open_groups=False,
            causal=config.causal,
        )  # fmt: skip

    def make(self, name: Site, boot: int, records: list[MemberRecord]) -> Member:
        return Member(
            name, self.first, self.options, self._folds, boot=boot, store=self.stores[name],
            times=self._times, records=records, excluding=self._excludes,
            durable=self.config.durability != "memory",
        )  # fmt: skip

    def _in_time(self, options: Options) -> Options:
        """Replace the default of `suspect` by ten beats: it is longer than most runs."""
        if self.steady or options.timing.suspect != Timing().suspect:
            return options
        suspect = 10 * self._times.beat
        return replace(options, timing=replace(options.timing, suspect=suspect))

    def lose(self, site: Site) -> bool:
        """Lose the site's store, if most voters keep theirs. Returns whether it is lost."""
        voters = self.first.voters
        gone = [voter for voter in voters if voter in self._lost or voter == site]
        if site in voters and 2 * len(gone) >= len(voters):
            return False
        self._lost[site] = None
        self.stores[site] = len(self.stores) + len(self._lost) + max(self.stores.values())
        return True

    def based(self, site: Site) -> None:
        """The site was absent for too long. It need not show the deliveries that it missed."""
        self._lapsed[site] = None

    def has_majority(self, up: Sequence[Site]) -> bool:
        """Whether these sites can decide: all voters to found the cluster, then most of them."""
        voters = self.first.voters
        if self._latest <= 0:
            return all(voter in up for voter in voters)
        return 2 * sum(voter in up for voter in voters) > len(voters)

    def saw(self, member: Member, box: MemberBox) -> None:
        """Note what a member has just said of epochs."""
        if member.layout.count != self._counts.get(member.name):
            self._counts[member.name] = member.layout.count
            self.notice(member.now, member.name, member.layout)
        for record in box.persist:
            if isinstance(record, Confirmed) and record.lapsed:
                self.based(member.name)
            elif isinstance(record, Kept) and record.passed.placed.batch.incarnation == CLOSING:
                self.closed(record.epoch, member.name, record.passed.placed.key)

    def notice(self, now: int, site: Site, layout: Layout) -> None:
        if layout.count > self._latest:
            for name, epoch in layout.absent.items():
                if self.absent.get(name) != epoch:
                    self.on_excluded(now, site, name, epoch)
            self._latest, self.absent = layout.count, dict(layout.absent)
        for epoch, domain in layout.domains.items():
            self._nominal.setdefault(
                epoch, {g: layout.groups.get(g, m) for g, m in domain.structure.groups.items()}
            )
            known = self.domains.setdefault(epoch, (now, domain))[1]
            if _told(known) != _told(domain):
                self._differ.append({"epoch": epoch, "site": site})

    def closed(self, epoch: int, site: Site, key: Key) -> None:
        """The Close of the epoch has this key at the site. Only the last word of a site counts: a
        crash may undo an earlier one."""
        self._closes.setdefault(epoch, {})[site] = key

    def _closed_differently(self) -> list[dict[str, Any]]:
        return [
            {"close_of_epoch": epoch, "site": site}
            for epoch, keys in self._closes.items()
            for site, key in keys.items()
            if key != next(iter(keys.values()))
        ]

    # --- drawing changes --------------------------------------------------------------------------

    def draw(self, kind: str, layout: Layout) -> Edit | None:
        """Draw an edit that is possible in this layout, if there is one."""
        stream, groups = self._stream, sorted(layout.groups)
        if kind == "switch":
            return stream.choice(_MANNERS)
        group = stream.choice(groups)
        members = layout.groups[group]
        if kind == "leave":
            return LeaveGroup(group, stream.choice(members)) if len(members) > 1 else None
        outside = [site for site in sorted(layout.roster) if site not in members]
        return JoinGroup(group, stream.choice(outside)) if outside else None

    # --- rows and verdicts ------------------------------------------------------------------------

    def group_rows(self) -> list[GroupRow]:
        return [
            GroupRow(epoch, group, site, domain.structure.is_member(group, site))
            for epoch, (_, domain) in sorted(self.domains.items())
            for group, members in sorted(self._nominal[epoch].items())
            for site in members
        ]

    def epoch_rows(self) -> list[EpochRow]:
        """One row for each domain. Its first site is its name."""
        config = self.config
        return [
            EpochRow(
                epoch, name, config.deliver, config.on_failure, domain.protocol,
                "change" if domain.after else "start", at,
            )
            for epoch, (at, domain) in sorted(self.domains.items())
            for name in self._names(domain)
        ]  # fmt: skip

    def _names(self, domain: Domain) -> list[Site]:
        if not self.steady:
            return [domain.sites[0]]
        indexed = IndexedTable.of(domain.structure.table)
        return [indexed.sites[sites[0]] for sites, _ in indexed.domains()]

    def verdicts(
        self,
        members: Sequence[Member],
        seen: dict[Site, list[Any]],
        *,
        quiet: bool,
        cut_off: Sequence[Site] = (),
    ) -> list[Verdict]:
        """Verdicts on epochs, which the checks of a history do not see. `cut_off`: sites that
        need not know the last of them."""
        found = [
            _verdict("one_decision", [*self._differ, *self._closed_differently()]),
            _verdict("voters_agree", _logs_differ(members)),
        ]
        members = [member for member in members if member.name not in cut_off]
        if quiet and members:
            found.append(_verdict("same_layout", _layouts_differ(members)))
            up = [member.name for member in members]
            found.append(_verdict("whole_epochs", self._uneven(members[0].layout, seen, up)))
        return found

    def _uneven(
        self, last: Layout, seen: dict[Site, list[Any]], up: Sequence[Site]
    ) -> list[dict[str, Any]]:
        """Groups of closed epochs whose members have different messages, or another order. Members
        that are away, or have lost or missed deliveries, are not compared."""
        streams: dict[tuple[int, Group], dict[Site, list[Any]]] = {}
        if all(epoch in last.domains for epoch in self.domains):
            return []
        for site, rows in seen.items():
            for _, delivery in rows:
                if delivery.epoch not in last.domains:
                    by_site = streams.setdefault((delivery.epoch, delivery.group), {})
                    by_site.setdefault(site, []).append(delivery.id)
        uneven = []
        for (epoch, group), by_site in sorted(streams.items()):
            members = self.domains[epoch][1].structure.groups.get(group, tuple(by_site))
            there = [
                site
                for site in members
                if site in up
                and site not in last.absent
                and site not in self._lost
                and site not in self._lapsed
            ]
            if any(by_site.get(site) != by_site.get(there[0]) for site in there):
                uneven.append({"epoch": epoch, "group": group})
        return uneven


def accepted_in(anew: Anew | None, records: Sequence[MemberRecord]) -> list[Accepted]:
    """The site's own batches that its disk has kept."""
    kept: list[Any] = list(records)
    if anew is not None:
        kept += [r for state in anew.engines for r in state.checkpoint.records]
        aside = anew.aside
        own = (*aside.parked, *(aside.tail.kept if aside.tail is not None else ()))
        kept += [Accepted(batch) for batch in own]
    return [record for record in kept if isinstance(record, Accepted)]


def _told(domain: Domain) -> tuple[Any, ...]:
    structure = domain.structure
    return (dict(structure.groups), dict(structure.forest.parent), domain.protocol, domain.after)


def _layouts_differ(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Members with the same records but different layouts, or in an epoch that is gone."""
    latest = max((member.layout for member in members), key=lambda layout: layout.count)
    layouts = {id(member.layout): member.layout for member in members}  # most share one
    packed = {key: pack_layout(layout) for key, layout in layouts.items()}
    first: dict[int, bytes] = {}
    found: list[dict[str, Any]] = []
    for member in members:
        layout = member.layout
        home = layout.home(member.name)
        if first.setdefault(layout.count, packed[id(layout)]) != packed[id(layout)] or (
            home is not None and home.epoch not in latest.domains
        ):
            found.append({"site": member.name, "records": layout.count})
    return found


def _logs_differ(members: Sequence[Member]) -> list[dict[str, Any]]:
    known: dict[int, Any] = {}
    found: list[dict[str, Any]] = []
    for member in members:
        log = member.raft.log
        found += [
            {"site": member.name, "entry": index}
            for index in range(log.snapshot.upto + 1, member.raft.committed + 1)
            if known.setdefault(index, log.entry(index)) != log.entry(index)
        ]
    return found


def _verdict(name: str, wrong: list[dict[str, Any]]) -> Verdict:
    return Verdict(name, len(wrong), wrong[0] if wrong else None)
