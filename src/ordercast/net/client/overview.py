"""One view of a whole cluster, made of the statuses of its sites: what every face shows.

`overview` is a pure function. Rates are differences between two overviews; the first has none. An
earlier release tells less: fields that it does not tell are empty here.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ordercast.model.groups import Group, Site
from ordercast.net.site.meters.passages import MOST_PASSAGES


class QueueFill(msgspec.Struct, frozen=True):
    """How full a queue is."""

    name: str
    value: int
    limit: int

    @property
    def used(self) -> float:
        return self.value / self.limit if self.limit else 0.0


class SiteOverview(msgspec.Struct, frozen=True):
    """One site. `known`: it has told its status; otherwise the numbers are 0."""

    site: Site
    state: str  # up, unwell, down, elsewhere or retired
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    known: bool = False
    boot: int = 0
    version: str = ""
    standing: str = ""
    epoch: int = 0
    protocol: str = ""
    position: int = 0
    rate: float | None = None  # deliveries per second
    lag: int = 0
    window: QueueFill = QueueFill("", 0, 0)
    held_by: tuple[Site, ...] = ()  # the sites that hold the window
    unstable: int = 0
    unstable_by: tuple[Site, ...] = ()  # the sites that hold stability back
    queued: int = 0  # items that wait in all queues to peers
    fullest: QueueFill = QueueFill("", 0, 0)  # of all queues, the nearest to its limit
    links_up: int = 0
    links: int = 0
    store_bytes: int = 0
    holds_others: bool = False
    is_manager: bool = False
    is_voter: bool = False
    clients: int = 0
    ahead_s: tuple[float, float] | None = None  # its clock minus the asker's: at least, at most
    uptime_s: float = 0.0


class GroupOverview(msgspec.Struct, frozen=True):
    """One group. Counts are since the daemons started; lists of sites count as the group `@`."""

    group: Group
    members: tuple[Site, ...] = ()
    primary: Site = ""
    extra: tuple[Site, ...] = ()  # sites that forward without being members
    epoch: int = 0
    frozen: tuple[Site, ...] = ()  # sites: if there are any, the group waits for one of them
    sent: int = 0  # by all sites
    delivered: int = 0  # at the member that has delivered most
    bytes: int = 0  # of these deliveries
    sent_rate: float | None = None
    rate: float | None = None  # deliveries per second at one member
    bytes_rate: float | None = None


class LinkOverview(msgspec.Struct, frozen=True):
    """One end of a link, as the site there sees it."""

    site: Site
    peer: Site
    state: str
    since_s: float
    heard_s: float | None
    through: Site
    connections: int
    mistakes: int
    waiting_bytes: int
    bytes_in: int
    bytes_out: int
    in_rate: float | None
    out_rate: float | None
    last_error: str


class EpochOverview(msgspec.Struct, frozen=True):
    """One open epoch and its forest."""

    epoch: int
    protocol: str
    builder: str
    root: Site
    sites: tuple[Site, ...]
    parents: dict[Site, Site | None]  # empty for an earlier release
    groups: tuple[Group, ...]
    after: tuple[int, ...]
    closing: str  # the change that closes it


class EpochPassage(msgspec.Struct, frozen=True):
    """An epoch that opened while the daemons ran. `pause_ms`: how long its opening took from when a
    site heard that the epochs before it close; the longest that a site tells."""

    epoch: int
    after: tuple[int, ...]
    at_ns: int  # by the clock of the first site that told
    pause_ms: float | None
    reason: str
    protocol: str
    sites: tuple[Site, ...]


class ChangeOverview(msgspec.Struct, frozen=True):
    """A change under way."""

    change: str
    edits: tuple[str, ...]
    closes: tuple[int, ...]
    waits_for: tuple[Site, ...]


class Overview(msgspec.Struct, frozen=True):
    """A cluster at one moment. `at_s`: of the asker's monotonic clock."""

    cluster: str
    at_s: float
    sites: dict[Site, SiteOverview]
    groups: dict[Group, GroupOverview]
    epochs: tuple[EpochOverview, ...]
    passages: tuple[EpochPassage, ...]  # the oldest first
    links: tuple[LinkOverview, ...]
    changes: tuple[ChangeOverview, ...]
    manager: Site | None
    voters: tuple[Site, ...]
    excluded: tuple[Site, ...]
    apart: tuple[tuple[Site, Site], ...]  # pairs that do not hear each other
    flushing: bool

    @property
    def rate(self) -> float | None:
        """Deliveries per second of all sites together."""
        rates = [site.rate for site in self.sites.values() if site.rate is not None]
        return sum(rates) if rates else None


def clocks_apart(
    statuses: Mapping[Site, Mapping[str, Any]],
) -> tuple[Site, Site, float] | None:
    """The two sites whose clocks differ most, the one ahead first, and by how many seconds they
    differ for certain. None: they agree as far as can be told."""
    known = {
        site: ahead for site, status in statuses.items() if (ahead := _ahead(status)) is not None
    }
    if not known:
        return None
    fast = max(known, key=lambda site: known[site][0])
    slow = min(known, key=lambda site: known[site][1])
    apart = known[fast][0] - known[slow][1]
    return (fast, slow, apart) if apart > 0 else None


def overview(
    cluster: str,
    statuses: Mapping[Site, Mapping[str, Any]],
    at_s: float,
    before: Overview | None = None,
) -> Overview:
    """The cluster as its sites tell it. `before`: an earlier overview, for the rates."""
    told = {site: status for site, status in statuses.items() if "records" in status}
    since = _Since(before, at_s, told)
    # The site that has heard most knows the layout best.
    latest = max(told.values(), key=lambda status: int(status["records"]), default=None)
    sites = {site: _site(site, status, since) for site, status in statuses.items()}
    managers = [status["manager"] for status in told.values() if status["manager"] is not None]
    pairs = {tuple(pair): None for status in told.values() for pair in status["apart"]}
    return Overview(
        cluster=cluster,
        at_s=at_s,
        sites=sites,
        groups=_groups(latest, told, since),
        epochs=() if latest is None else tuple(map(_epoch, latest["epochs"])),
        passages=_passages(told.values()),
        links=tuple(
            _link(site, link, since) for site, status in told.items() for link in status["links"]
        ),
        changes=_changes(told.values()),
        manager=latest["manager"] if latest and latest["manager"] else next(iter(managers), None),
        voters=() if latest is None else tuple(latest["voters"]),
        excluded=() if latest is None else tuple(latest["excluded"]),
        apart=tuple((one, other) for one, other in pairs),
        flushing=latest is not None and latest["flush"] is not None,
    )


class _Since:
    """The overview before, and which sites have run since: after a restart counts begin anew."""

    def __init__(
        self, before: Overview | None, at_s: float, told: Mapping[Site, Mapping[str, Any]]
    ) -> None:
        self.before = before
        self.seconds = 0.0 if before is None else at_s - before.at_s
        sites = {} if before is None else before.sites
        self.same = {
            site: site in sites and sites[site].known and sites[site].boot == status["boot"]
            for site, status in told.items()
        }
        self.all_same = bool(self.same) and all(self.same.values())
        self._links = {} if before is None else {(a.site, a.peer): a for a in before.links}

    def site(self, site: Site) -> SiteOverview | None:
        if self.before is None or not self.same.get(site):
            return None
        return self.before.sites[site]

    def group(self, group: Group) -> GroupOverview | None:
        """None also while a site has restarted: the counts of all sites are added up."""
        if self.before is None or not self.all_same:
            return None
        return self.before.groups.get(group) or GroupOverview(group)

    def link(self, site: Site, peer: Site) -> LinkOverview | None:
        return self._links.get((site, peer)) if self.same.get(site) else None

    def rate(self, now: int, earlier: int | None) -> float | None:
        """Per second; None where nothing is known. A count that has shrunk began anew."""
        if earlier is None or self.seconds <= 0 or now < earlier:
            return None
        return (now - earlier) / self.seconds


def _site(site: Site, status: Mapping[str, Any], since: _Since) -> SiteOverview:
    reasons, warnings = tuple(status["reasons"]), tuple(status.get("warnings", ()))
    if "records" not in status:
        return SiteOverview(site, status["state"], reasons, warnings)
    window, links, stability = status["window"], status["links"], status["stability"]
    queues = [QueueFill(each["name"], each["value"], each["limit"]) for each in status["queues"]]
    earlier = since.site(site)
    return SiteOverview(
        site,
        status["state"],
        reasons,
        warnings,
        known=True,
        boot=status["boot"],
        version=status["version"],
        standing=status["standing"],
        epoch=status["epoch"],
        protocol=status["protocol"],
        position=status["position"],
        rate=since.rate(status["position"], None if earlier is None else earlier.position),
        lag=status["lag"],
        window=QueueFill("window", window["messages"], window["limit_messages"]),
        held_by=tuple(window["held_by"]),
        unstable=stability.get("unstable", 0),
        unstable_by=tuple(stability.get("held_by", ())),
        queued=sum(each.value for each in queues if " to " in each.name),
        fullest=max(queues, key=lambda each: each.used, default=QueueFill("", 0, 0)),
        links_up=sum(link["state"] == "connected" for link in links),
        links=len(links),
        store_bytes=status["store"]["bytes"],
        holds_others=status["holds_others"],
        is_manager=status["manager"] == site,
        is_voter=site in status["voters"],
        clients=sum(status.get("clients", {}).get("connected", {}).values()),
        ahead_s=_ahead(status),
        uptime_s=status["uptime_s"],
    )


def _ahead(status: Mapping[str, Any]) -> tuple[float, float] | None:
    """The site read its clock after it was asked, and before its answer came."""
    if "clock_ns" not in status or "asked_ns" not in status:
        return None
    before, after = status["asked_ns"]
    clock = status["clock_ns"]
    return (clock - after) / 1e9, (clock - before) / 1e9


def _groups(
    latest: Mapping[str, Any] | None, told: Mapping[Site, Mapping[str, Any]], since: _Since
) -> dict[Group, GroupOverview]:
    if latest is None:
        return {}
    placed = {
        group: (epoch["epoch"], found)
        for epoch in latest["epochs"]
        for group, found in epoch["groups"].items()
    }
    counted = {group: None for status in told.values() for group in status.get("groups", ())}
    names = sorted({**dict.fromkeys(placed), **dict.fromkeys(latest["frozen"]), **counted})
    found = {}
    for group in names:
        epoch, where = placed.get(group, (0, {}))
        counts: list[dict[str, int]] = [
            status.get("groups", {}).get(group, {}) for status in told.values()
        ]
        sent = sum(each.get("sent", 0) for each in counts)
        # The member that has delivered most since its start stands for the group.
        at = max(counts, key=lambda each: each.get("delivered", 0))
        delivered, size = at.get("delivered", 0), at.get("bytes", 0)
        earlier = since.group(group)
        found[group] = GroupOverview(
            group,
            tuple(where.get("members", ())),
            where.get("primary", ""),
            tuple(where.get("extra", ())),
            epoch,
            tuple(latest["frozen"].get(group, ())),
            sent,
            delivered,
            size,
            since.rate(sent, None if earlier is None else earlier.sent),
            since.rate(delivered, None if earlier is None else earlier.delivered),
            since.rate(size, None if earlier is None else earlier.bytes),
        )
    return found


def _epoch(epoch: Mapping[str, Any]) -> EpochOverview:
    return EpochOverview(
        epoch["epoch"],
        epoch["protocol"],
        epoch["builder"],
        epoch["root"],
        tuple(epoch["sites"]),
        dict(epoch.get("parents", {})),
        tuple(epoch["groups"]),
        tuple(epoch["after"]),
        epoch["closing"],
    )


def _link(site: Site, link: Mapping[str, Any], since: _Since) -> LinkOverview:
    earlier = since.link(site, link["peer"])
    came, went = link["bytes_in"], link["bytes_out"]
    return LinkOverview(
        site,
        link["peer"],
        link["state"],
        link["since_s"],
        link["heard_s"],
        link["through"],
        link["connections"],
        link["mistakes"],
        link["waiting_bytes"],
        came,
        went,
        since.rate(came, None if earlier is None else earlier.bytes_in),
        since.rate(went, None if earlier is None else earlier.bytes_out),
        link["last_error"],
    )


def _passages(told: Iterable[Mapping[str, Any]]) -> tuple[EpochPassage, ...]:
    found: dict[int, EpochPassage] = {}
    for status in told:
        for each in status.get("passages", ()):
            passage = EpochPassage(
                each["epoch"], tuple(each["after"]), each["at_ns"], each["pause_ms"],
                each["reason"], each["protocol"], tuple(each["sites"]),
            )  # fmt: skip
            other = found.get(passage.epoch)
            found[passage.epoch] = passage if other is None else _merged(other, passage)
    return tuple(found[epoch] for epoch in sorted(found)[-MOST_PASSAGES:])


def _merged(one: EpochPassage, other: EpochPassage) -> EpochPassage:
    first = min(one, other, key=lambda each: each.at_ns)
    pauses = [each.pause_ms for each in (one, other) if each.pause_ms is not None]
    pause = max(pauses, default=None)
    return msgspec.structs.replace(first, pause_ms=pause, reason=one.reason or other.reason)


def _changes(told: Iterable[Mapping[str, Any]]) -> tuple[ChangeOverview, ...]:
    """Changes under way. Only the manager knows which sites a change waits for."""
    found: dict[str, ChangeOverview] = {}
    for status in told:
        for each in status["changes"]:
            if each["change"] not in found or each["waits_for"] is not None:
                found[each["change"]] = ChangeOverview(
                    each["change"], tuple(each["edits"]), tuple(each["closes"]),
                    tuple(each["waits_for"] or ()),
                )  # fmt: skip
    return tuple(found.values())
