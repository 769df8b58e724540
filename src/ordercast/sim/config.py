"""Everything that decides a run but the seed, as plain data.

A `SimConfig` is made from the options of `ordercast sim`, drawn whole from a seed,
or written in Python; `check_config` says in one line what cannot work.
"""

from dataclasses import dataclass, field

from ordercast.core.dissemination.registry import UNICAST, WAYS
from ordercast.core.order.registry import misfit, protocol_named
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, Site
from ordercast.model.names import nearest
from ordercast.model.options import (
    DURABILITIES,
    LEVELS,
    MILLISECOND,
    POLICIES,
    SECOND,
    Limits,
    Options,
    Timing,
)
from ordercast.plan.advice import check_options
from ordercast.sim.faults import Faults, check_faults, cuts_links, excludes_sites
from ordercast.sim.networks import LanSpec, NetworkSpec, check_network, with_network_tree

CODECS = ("objects", "bytes")
SLOW_MEMBERS = ("wait", "exclude")


@dataclass(frozen=True, slots=True)
class SimConfig:
    """Times are nanoseconds. `builder` empty: greedy, or the first that the protocol runs on."""

    table: GroupTable
    protocol: str = "propagation"
    builder: str = ""
    branching: int | None = None
    tie: tuple[Site, ...] = ()  # greedy: sites preferred in ties
    messages: int = 1000
    origins: int | tuple[Site, ...] | None = None  # how many, or which; None: all sites
    rate: float = 1000.0  # messages per second, over all origins
    batch: int = 1  # most messages per submission
    payload: int = 64  # most bytes per message
    implicit: float = 0.0  # share of submissions to listed sites instead of a group
    headers: float = 0.0  # share of submissions whose messages have headers
    replies: float = 0.0  # share of the messages that answer a delivery, at once
    network: NetworkSpec = field(default_factory=LanSpec)
    wake: int = 0  # a site takes the frames that come within this time in one burst
    faults: Faults = ()
    notice: int = 0  # from the cut of a link until frames take another way; 0: as `suspect`
    deliver: str = "safe"
    on_failure: str = "exclude"
    slow_member: str = "wait"  # or, where sites are excluded, "exclude"
    causal: bool = False
    stability: str = "s_coordp"
    durability: str = "sync"
    dissemination: str = UNICAST
    longest_sync: int = MILLISECOND  # a sync takes a tenth of this to all of it
    codec: str = "objects"
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    settle: int = 60 * SECOND  # the liveness phase: all must be delivered and quiet within this
    most_events: int | None = None  # a run with more is a storm, and is stopped
    source: str = ""  # how the table was given on the command line, for the replay line

    @property
    def built_by(self) -> str:
        return self.builder or (protocol_named(self.protocol).builders or ("greedy",))[0]

    @property
    def planned(self) -> GroupTable:
        """The table, with the tree for the builder `given`."""
        return with_network_tree(self.table, self.built_by, self.network)

    @property
    def excludes(self) -> bool:
        """Whether sites may have to be excluded: then the run goes through epochs."""
        slow = self.slow_member == "exclude"
        return self.on_failure == "exclude" and (slow or excludes_sites(self.faults))

    @property
    def cuts(self) -> bool:
        return cuts_links(self.faults)

    @property
    def options(self) -> Options:
        return Options(
            deliver=self.deliver,
            on_failure=self.on_failure,
            slow_member=self.slow_member,
            causal=self.causal,
            stability=self.stability,
            limits=self.limits,
            timing=self.timing,
        )


def check_config(config: SimConfig) -> None:
    """Raise ConfigError, naming option and value, for anything that cannot be run."""
    protocol_named(config.protocol)
    check_options(config.built_by, "delay", config.branching, config.tie)
    _require("deliver", config.deliver, LEVELS)
    _require("on-failure", config.on_failure, POLICIES)
    _require("durability", config.durability, DURABILITIES)
    _require("codec", config.codec, CODECS)
    _require("stability", config.stability, tuple(TRACKERS))
    _require("dissemination", config.dissemination, WAYS)
    _require("slow-member", config.slow_member, SLOW_MEMBERS)
    unfit = misfit(
        config.protocol,
        builder=config.built_by,
        on_failure=config.on_failure if config.excludes or config.on_failure == "wait" else "",
        slow_member=config.slow_member,
        durability=config.durability,
        causal=config.causal,
    )
    if unfit:
        raise ConfigError(f"{unfit[0].replace('_', '-')}: {unfit[1]}")
    if config.causal and config.excludes and config.deliver != "safe":
        raise ConfigError(
            f"causal: not at {config.deliver!r} with on-failure 'exclude' and faults that exclude"
            " sites: what is rolled back is sent again behind what was sent after it; use 'safe'"
        )
    _check_workload(config)
    check_network(config.network, config.table.sites)
    check_faults(config.faults, config.table.sites, config.on_failure, config.durability)


def _check_workload(config: SimConfig) -> None:
    for name, value, least in (
        ("messages", config.messages, 0),
        ("batch", config.batch, 1),
        ("payload", config.payload, 0),
        ("settle", config.settle, 1),
        ("wake", config.wake, 0),
        ("notice", config.notice, 0),
        ("longest-sync", config.longest_sync, 0),
    ):
        if value < least:
            raise ConfigError(f"{name}: {value} is too small ({least} or more)")
    if not 0 < config.rate <= SECOND:
        raise ConfigError(
            f"rate: {config.rate} is not a rate (above 0, at most {SECOND:,} a second)"
        )
    for name in ("implicit", "headers", "replies"):
        share = getattr(config, name)
        if not 0 <= share <= 1:
            raise ConfigError(f"{name}: {share} is not a share (0 to 1)")
    if config.payload > config.limits.message_bytes:
        most = config.limits.message_bytes
        raise ConfigError(f"payload: {config.payload:,} is above the limit of {most:,} bytes")
    sites = config.table.sites
    if isinstance(config.origins, tuple):
        if not config.origins:
            raise ConfigError("origins: none is given")
        for site in config.origins:
            if site not in sites:
                raise ConfigError(f"origins: there is no site {site!r}{nearest(site, sites)}")
    elif config.origins is not None and not 1 <= config.origins <= len(sites):
        raise ConfigError(f"origins: {config.origins} of {len(sites):,} sites")
    if not any(config.table.rate(group) > 0 for group in config.table.groups):
        raise ConfigError("rates: nothing is sent to any group: all rates are 0")


def _require(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name}: there is no {value!r}{nearest(value, known)}")
