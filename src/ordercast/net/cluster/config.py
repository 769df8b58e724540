"""A cluster: the contents of its file, and the consequences for every site.

A cluster is founded with its file: sites, groups, voters, protocol and builder become the first
layout, which `founding` names. Later changes are in the stores (docs/epochs.md). Founders work out
by themselves who forwards to whom at first; later the manager builds forests.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ordercast.core.dissemination.registry import MULTICAST, UNICAST
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.raft import VotingTimes
from ordercast.core.order.registry import builder_for, misfit
from ordercast.forest.forest import Forest
from ordercast.model.errors import ConfigError
from ordercast.model.grants import Grants
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.names import nearest
from ordercast.model.options import MILLISECOND, SECOND, Limits, Options, Timing
from ordercast.net.cluster.directory import require_path
from ordercast.net.cluster.multicast import MulticastConfig
from ordercast.plan.advice import AUTO, advise

_LIMITS = Limits()
DIR_VARIABLE = "ORDERCAST_DIR"  # of the environment: another directory than the file says
FRAME_BYTES = 65_536  # as a batch that fills: frames of that size come from memory used before


@dataclass(frozen=True, slots=True)
class SiteConfig:
    """Where a site listens: for other sites; for metrics and health; for clients from elsewhere."""

    name: Site
    address: tuple[str, int]
    metrics: tuple[str, int] | None = None
    clients: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long the store keeps rows that are no longer needed: until `stable`, by `age`, by
    `size`."""

    kind: str = "stable"
    amount: int = 0  # nanoseconds of an age, bytes of a size


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """How much the store keeps for a named reader that is behind: bytes, and the age of the oldest
    row. `unnamed`: it also waits for the site's own application, which reads without a name."""

    bytes: int = 1 << 30
    age: int = 7 * 86_400 * SECOND  # nanoseconds
    unnamed: bool = True


_READERS = ReaderLimits()


@dataclass(frozen=True, slots=True)
class LimitsConfig:
    window_messages: int = _LIMITS.window_messages
    window_bytes: int = _LIMITS.window_bytes
    message_bytes: int = _LIMITS.message_bytes
    unread_messages: int = 100_000  # delivered here and not yet read by the application
    unread_bytes: int = 67_108_864
    missed_bytes: int = _LIMITS.missed_bytes
    retention: Retention = Retention()
    reader_bytes: int = _READERS.bytes
    reader_age: int = _READERS.age  # nanoseconds
    # Of one subject from elsewhere: a client, or a site that is a client.
    subject_connections: int = 32
    subject_rate: int = 0  # bytes per second; 0: as many as come
    subject_window: int = 50  # percent of the window


@dataclass(frozen=True, slots=True)
class Timeouts:
    suspect: int = SECOND  # nanoseconds
    hold: int = 0  # of requests that may combine (`combining`, `hybrid`, `combining_counting`)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The directory with `ca.pem`, `SITE.pem` and `SITE.key`."""

    directory: Path


@dataclass(frozen=True)
class Cluster:
    """Every table of the cluster file; `source` names the file in messages."""

    name: str
    sites: Mapping[Site, SiteConfig]
    groups: Mapping[Group, tuple[Site, ...]]
    dir: Path | None = None  # of stores, sockets and process files; None: there is no file
    beside: Path | None = None  # what `dir` is by default: `.ordercast/NAME` beside the file
    protocol: str = "propagation"
    builder: str = "auto"
    tie: tuple[Site, ...] = ()  # greedy: sites preferred in ties
    deliver: str = "safe"
    on_failure: str = "exclude"
    causal: bool = False
    stability: str = "s_coordp"
    durability: str = "sync"
    voters: tuple[Site, ...] = ()
    retired: tuple[Site, ...] = ()  # sites of the file that have left: nobody believes them
    slow_member: str = "wait"
    unnamed_reader: bool = True  # an application reads without a name, and is waited for
    open: bool = False
    insecure: bool = False
    log: str = "text"  # or "json": the form of the daemons' logs
    log_level: str = "info"  # they log from this level on
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    timeouts: Timeouts = field(default_factory=Timeouts)
    tls: TlsFiles | None = None
    secret: Path | None = None  # the file, where links have no certificates
    dissemination: str = UNICAST
    multicast: MulticastConfig | None = None  # None unless dissemination is multicast
    grants: Grants = field(default_factory=Grants)
    source: str = "cluster"

    # --- sites ------------------------------------------------------------------------------------

    def site(self, name: Site) -> SiteConfig:
        found = self.sites.get(name)
        if found is None:
            hint = nearest(name, self.sites)
            raise ConfigError(f"{self.source}: there is no site {name!r}{hint}")
        return found

    def address(self, site: Site) -> tuple[str, int]:
        return self.site(site).address

    def addresses(self) -> dict[Site, tuple[str, int]]:
        return {name: site.address for name, site in self.sites.items()}

    def directory(self, given: str | Path | None = None) -> Path:
        """Where stores, sockets and process files are: as given, as the environment says, or as the
        file says. Never the working directory by default: another one would be another cluster."""
        named = given if given is not None else os.environ.get(DIR_VARIABLE) or self.dir
        if named is None:
            raise ConfigError(f"{self.source}: is no file that says where stores are: give a dir")
        return require_path(named, "dir")

    def reader_limits(self) -> ReaderLimits:
        return ReaderLimits(self.limits.reader_bytes, self.limits.reader_age, self.unnamed_reader)

    # --- what follows -----------------------------------------------------------------------------

    @cached_property
    def table(self) -> GroupTable:
        """Sorted: files that list the same in another order give the same structure."""
        groups = {group: sorted(self.groups[group]) for group in sorted(self.groups)}
        return GroupTable.of(groups, sites=sorted(self.sites))

    def build(self, table: GroupTable, builder: str, protocol: str) -> Forest:
        """The forest of a domain's groups: of the builder, or of one that
        the protocol needs. ConfigError where the protocol does not fit the cluster."""
        if unfit := misfit(protocol, on_failure=self.on_failure, causal=self.causal):
            raise ConfigError(f"protocol: {unfit[1]}")
        return _forest(table, builder_for(protocol, builder), self.tie)

    def first_layout(self) -> Layout:
        """What the cluster is founded with."""
        return self._first_layout

    @cached_property
    def _first_layout(self) -> Layout:
        layout = first_layout(
            self.sites, self.voters, self.table.groups, self.builder, self.protocol, self.build,
            whole=self.open or self.causal, open_groups=self.open, causal=self.causal,
        )  # fmt: skip
        return replace(layout, founding=self._founding(layout))

    def _founding(self, layout: Layout) -> str:
        """A digest of everything that all sites must agree on before their first message."""
        agreed = {
            "name": self.name,
            "sites": sorted(layout.roster),
            "voters": list(layout.voters),
            "groups": {group: list(members) for group, members in layout.groups.items()},
            "protocol": self.protocol,
            "builder": self.builder,
            "tie": list(self.tie),
            "parents": [
                sorted((site, domain.structure.parent(site) or "") for site in domain.sites)
                for domain in layout.domains.values()
            ],
        }
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]

    def terms(self) -> dict[str, str]:
        """What two sites must agree on besides the founding: it never changes."""
        agreed = {
            "deliver": self.deliver,
            "durability": self.durability,
            "causal": str(self.causal).lower(),
            "policy": self.policy,
            "stability": self.stability,
            "message_bytes": str(self.limits.message_bytes),
            "open": str(self.open).lower(),
        }
        if self.tie:
            agreed["tie"] = ",".join(self.tie)
        if self.dissemination != UNICAST:
            agreed["dissemination"] = self.dissemination
        if self.multicast is not None:
            agreed[MULTICAST] = "{}:{}".format(*self.multicast.address)
        return agreed

    def voting_times(self) -> VotingTimes:
        return VotingTimes.within(self.timeouts.suspect)

    @property
    def policy(self) -> str:
        """What the core does about a failed site."""
        return self.on_failure

    def options(self) -> Options:
        """Connections are reliable while they last, so nothing is sent again, or acknowledged, in
        a hurry: acknowledgements that nobody waits for ride on the next report."""
        return Options(
            deliver=self.deliver,
            on_failure=self.policy,
            causal=self.causal,
            stability=self.stability,
            slow_member="exclude" if self.slow_member == "exclude" else "wait",
            limits=Limits(
                message_bytes=self.limits.message_bytes,
                window_messages=self.limits.window_messages,
                window_bytes=self.limits.window_bytes,
                frame_bytes=FRAME_BYTES,
                missed_bytes=self.limits.missed_bytes,
            ),
            timing=Timing(
                ack_delay=25 * MILLISECOND,
                resend_after=5 * SECOND,
                resend_at_most=30 * SECOND,
                report_every=max(1, self.limits.window_messages // 5),
                suspect=self.timeouts.suspect,
                hold=self.timeouts.hold,
            ),
            grants=self.grants,
        )


def _forest(table: GroupTable, builder: str, tie: Sequence[Site]) -> Forest:
    """The builder's forest; `auto`: the best for delay, as `ordercast plan` chooses it. Always with
    the built-in partitioner: METIS may be installed at some sites of a cluster and not at others.
    """
    settles = builder in ("greedy", AUTO)
    known = [site for site in tie if settles and site in table.sites]
    return advise(table, builder, tie=known, partitioner="builtin").forest
