"""The epochs of a cluster, put together from its stores: rows of `groups` and `epochs`.

A store knows the epochs that its cluster was founded with (unless its site came later), and each
epoch that its site has opened, with all groups of the domain, as long as it has something of it. A
site that was absent in an epoch has messages of it without having opened it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ordercast.core.epochs.records import EpochOpened
from ordercast.history.rows import EpochRow, GroupRow
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site
from ordercast.net.export.source import StoreSource


@dataclass(slots=True)
class ExportedEpoch:
    """An epoch; `after`: the epochs that were closed for it."""

    protocol: str
    members: dict[Group, tuple[Site, ...]]
    after: tuple[int, ...]
    decided_ns: int
    by: StoreSource = field(compare=False)

    @property
    def sites(self) -> list[Site]:
        return sorted({site for members in self.members.values() for site in members})

    def says(self) -> tuple[object, ...]:
        return self.protocol, self.members, self.after


class EpochTable:
    """All epochs; stores that contradict each other are not of one cluster."""

    def __init__(self, found: Sequence[StoreSource]) -> None:
        self._known: dict[int, ExportedEpoch] = {}
        self._implicit: dict[Group, tuple[Site, ...]] = {}
        self._used: set[tuple[Group, int]] = set()
        self._forgotten: dict[int, set[tuple[Group, Site]]] = {}  # sites that have some of an epoch
        self._absent: set[tuple[int, Group, Site]] = set()
        self._since: dict[Site, set[int]] = {}
        started = min(int(source.log.state["created_ns"]) for source in found)
        for source in found:
            for founded in source.founding:
                members = {group: tuple(own) for group, own in founded["members"].items()}
                self._add(
                    founded["epoch"],
                    ExportedEpoch(founded["protocol"], members, (), started, source),
                )
            for opened, at_ns in source.opened():
                self._add(opened.epoch, _known(opened, at_ns, source))
            for absent in source.absent():
                for site, epoch in absent["since"].items():
                    self._since.setdefault(site, set()).add(epoch)
                for epoch, groups in absent["in"].items():
                    for group, away in groups.items():
                        self._absent.update((int(epoch), group, site) for site in away)

    def _add(self, epoch: int, one: ExportedEpoch) -> None:
        known = self._known.setdefault(epoch, one)
        if known.says() != one.says():
            raise ConfigError(
                f"{one.by.path}: tells epoch {epoch} otherwise than {known.by.path}: these are not"
                " stores of one cluster"
            )
        known.decided_ns = min(known.decided_ns, one.decided_ns)

    def sites(self) -> set[Site]:
        return {site for known in self._known.values() for site in known.sites}

    def founded(self, site: Site) -> int:
        """The epoch that the cluster was founded with and that has the site; 0: none."""
        for epoch, known in self._known.items():
            if not known.after and site in known.sites:
                return epoch
        return 0

    def left_since(self, site: Site, last: int) -> int:
        """The epoch that was closed without the site, if it has opened none since `last`."""
        return max((epoch for epoch in self._since.get(site, ()) if epoch >= last), default=0)

    def delivered(self, site: Site, epoch: int, group: Group, members: tuple[Site, ...]) -> None:
        """A message that a site has delivered; `members`: if it went to listed sites."""
        self.note(group, members, epoch)
        if epoch not in self._known:
            self._forgotten.setdefault(epoch, set()).add((group, site))

    def note(self, group: Group, members: tuple[Site, ...], epoch: int = 0) -> None:
        """A message to listed sites; the epoch, if it was delivered."""
        if members:
            self._implicit[group] = members
            if epoch:
                self._used.add((group, epoch))

    def group_rows(self, told: Collection[int] = ()) -> list[GroupRow]:
        """`told`: epochs that are known elsewhere, should all stores have forgotten them."""
        rows = [
            GroupRow(epoch, group, site)
            for epoch, known in self._known.items()
            for group, members in known.members.items()
            for site in members
        ]
        placed = {group for group, _ in self._used}
        used = self._used | {
            (group, self._last(members))
            for group, members in self._implicit.items()
            if group not in placed
        }
        rows += [GroupRow(epoch, group, s) for group, epoch in used for s in self._implicit[group]]
        rows += [
            GroupRow(epoch, group, site, live=False)
            for epoch, group, site in self._absent
            if epoch in self._known
        ]
        rows += [
            GroupRow(epoch, group, site)
            for epoch, having in self._forgotten.items()
            for group, site in having
            if (group, epoch) not in used and epoch not in told
        ]
        return sorted(rows, key=lambda row: (row.site, row.epoch, row.group_name))

    def _last(self, members: Iterable[Site]) -> int:
        """The last epoch that could take a message to these sites."""
        wanted = set(members)
        taking = [epoch for epoch, known in self._known.items() if wanted <= set(known.sites)]
        return max(taking or self._known)

    def epoch_rows(self, facts: dict[str, Any]) -> list[EpochRow]:
        deliver, on_failure = facts["deliver"], facts["on_failure"]
        rows = [
            EpochRow(
                epoch, known.sites[0], deliver, on_failure, known.protocol,
                "change" if known.after else "start", known.decided_ns,
            )
            for epoch, known in self._known.items()
            if known.members
        ]  # fmt: skip
        rows += [
            EpochRow(epoch, min(site for _, site in having), deliver, on_failure, "", "change", 0)
            for epoch, having in self._forgotten.items()
        ]
        return sorted(rows, key=lambda row: row.epoch)


def _known(opened: EpochOpened, at_ns: int, source: StoreSource) -> ExportedEpoch:
    return ExportedEpoch(opened.protocol, dict(opened.members), opened.after, at_ns, source)
