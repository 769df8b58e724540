"""The ordering protocols by name. A new one is one file beside this, and one line here.

A name is a key of `PROTOCOLS`; or `hybrid:N`, where N is the size of the core; or `hybrid:N:M`,
where M is the size of the arrow groups below it.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from ordercast.core.order.arrow import Arrow
from ordercast.core.order.arrow_counting import CountingArrow
from ordercast.core.order.centralized import Centralized, require_centre
from ordercast.core.order.combining import Combining
from ordercast.core.order.combining_counting import CountingCombining
from ordercast.core.order.hybrid import MOST_SITES, Hybrid, sizes_in
from ordercast.core.order.interface import ProtocolInfo, Registry
from ordercast.core.order.metagroup import Metagroup, require_delegates
from ordercast.core.order.propagation import Propagation
from ordercast.core.order.ring import Ring
from ordercast.core.order.symmetric import Symmetric
from ordercast.core.order.tom import Tom, require_prefix
from ordercast.core.order.two_phase import TwoPhase
from ordercast.core.structure import Structure
from ordercast.forest.given_tree import GIVEN
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import nearest

PROTOCOLS: Registry = {
    info.name: info
    for info in (
        ProtocolInfo("propagation", Propagation),
        ProtocolInfo("centralized", Centralized, builders=("star",)),
        ProtocolInfo("two_phase", TwoPhase, direct=True),
        ProtocolInfo("symmetric", Symmetric, direct=True),
        ProtocolInfo("ring", Ring, direct=True),
        ProtocolInfo("tom", Tom, builders=("balanced", "greedy"), given=True, headers=True),
        ProtocolInfo("metagroup", Metagroup, builders=("metagroups", "metagroups_balanced")),
        ProtocolInfo("arrow", Arrow, direct=True, local=True),
        ProtocolInfo("combining", Combining, direct=True, local=True),
        ProtocolInfo("hybrid", Hybrid, direct=True, local=True),
        ProtocolInfo("arrow_counting", CountingArrow, direct=True, local=True),
        ProtocolInfo("combining_counting", CountingCombining, direct=True, local=True),
    )
}


def misfit(
    protocol: str,
    *,
    builder: str = "",
    on_failure: str = "",
    slow_member: str = "",
    durability: str = "",
    causal: bool = False,
) -> tuple[str, str] | None:
    """The first setting that does not go with the others, and why. Empty ones are not looked at."""
    info = protocol_named(protocol)
    if builder and builder != builder_for(protocol, builder):
        fit = " or ".join(map(repr, info.builders))
        return "builder", f"{protocol!r} runs on {fit}, not on {builder!r}"
    if on_failure == "wait" and slow_member == "exclude":
        return "slow_member", "'exclude' needs on_failure = 'exclude', not 'wait'"
    if on_failure == "wait" and durability == "memory":
        stores = "a store that outlives a crash: 'sync' or 'os', not 'memory'"
        return "durability", f"on_failure = 'wait' needs {stores}"
    if not {"wait": info.wait, "exclude": info.exclude}.get(on_failure, True):
        return "on_failure", f"{protocol!r} does not support on_failure = {on_failure!r}"
    if causal and not info.causal:
        return "causal", f"{protocol!r} does not give causal order"
    return None


def builder_for(protocol: str, builder: str) -> str:
    """The builder; or the protocol's first choice, if it does not run on that builder's forests."""
    info = protocol_named(protocol)
    fit = info.builders
    return builder if not fit or builder in fit or (builder == GIVEN and info.given) else fit[0]


def require_fit(protocol: str, structure: Structure, sites: Iterable[Site]) -> None:
    """Raise ConfigError unless the protocol runs on the structure at all these sites. This is asked
    before an epoch is opened: its objects would refuse the structure only when they are made."""
    if protocol == "metagroup":
        for site in sites:
            require_delegates(structure, site)
    elif protocol in ("tom", "centralized"):
        require = require_prefix if protocol == "tom" else require_centre
        for group in structure.groups:
            require(structure, group)


def is_protocol(name: str) -> bool:
    return name in PROTOCOLS or sizes_in(name) is not None


def protocol_named(name: str) -> ProtocolInfo:
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    if (sizes := sizes_in(name)) is not None:
        core, group = (*sizes, 1)[:2]
        make = partial(Hybrid, core=core, group=group)
        return replace(PROTOCOLS["hybrid"], name=name, make=make)
    if name.startswith("hybrid:"):
        raise ConfigError(
            f"there is no protocol {name!r}: hybrid:N has a core of N sites, hybrid:N:M also arrow"
            f" groups of M below it, 1 to {MOST_SITES:,}"
        )
    raise ConfigError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS)}")
