"""The ordering protocols by name. A new one is one file beside this, and one line here."""

from ordercast.core.order.arrow import Arrow
from ordercast.core.order.arrow_counting import CountingArrow
from ordercast.core.order.centralized import Centralized
from ordercast.core.order.combining import Combining
from ordercast.core.order.combining_counting import CountingCombining
from ordercast.core.order.hybrid import Hybrid
from ordercast.core.order.interface import ProtocolInfo, Registry
from ordercast.core.order.metagroup import Metagroup
from ordercast.core.order.propagation import Propagation
from ordercast.core.order.ring import Ring
from ordercast.core.order.symmetric import Symmetric
from ordercast.core.order.tom import Tom
from ordercast.core.order.two_phase import TwoPhase
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

PROTOCOLS: Registry = {
    info.name: info
    for info in (
        ProtocolInfo("propagation", Propagation),
        ProtocolInfo("centralized", Centralized, builders=("star",)),
        ProtocolInfo("two_phase", TwoPhase, direct=True),
        ProtocolInfo("symmetric", Symmetric, direct=True),
        ProtocolInfo("ring", Ring, direct=True),
        ProtocolInfo("tom", Tom, builders=("balanced", "greedy"), headers=True),
        ProtocolInfo("metagroup", Metagroup, builders=("metagroups", "metagroups_balanced")),
        ProtocolInfo("arrow", Arrow, direct=True),
        ProtocolInfo("combining", Combining, direct=True),
        ProtocolInfo("hybrid", Hybrid, direct=True),
        ProtocolInfo("arrow_counting", CountingArrow, direct=True),
        ProtocolInfo("combining_counting", CountingCombining, direct=True),
    )
}


def require_policy(name: str, on_failure: str) -> None:
    """ConfigError where the protocol cannot do what the policy asks when a site fails."""
    info = protocol_named(name)
    if not (info.wait if on_failure == "wait" else info.exclude):
        raise ConfigError(f"protocol: {name!r} does not support on_failure = {on_failure!r}")


def unfit_builder(name: str, builder: str) -> str | None:
    """Why the protocol does not run on a builder's forests, if so."""
    fit = protocol_named(name).builders
    if not fit or builder in fit:
        return None
    return f"{name!r} runs on {' or '.join(repr(one) for one in fit)}, not on {builder!r}"


def protocol_named(name: str) -> ProtocolInfo:
    if name not in PROTOCOLS:
        raise ConfigError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
