"""The ordering protocols by name. A new one is one file beside this, and one line here."""

from ordercast.core.order.centralized import Centralized
from ordercast.core.order.interface import ProtocolInfo, Registry
from ordercast.core.order.metagroup import Metagroup
from ordercast.core.order.propagation import Propagation
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
        ProtocolInfo("tom", Tom, builders=("balanced", "greedy"), headers=True),
        ProtocolInfo("metagroup", Metagroup, builders=("metagroups", "metagroups_balanced")),
    )
}


def protocol_named(name: str) -> ProtocolInfo:
    if name not in PROTOCOLS:
        raise ConfigError(f"there is no protocol {name!r}{nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
