"""The stability trackers by name."""

from collections.abc import Mapping

from ordercast.core.stability.by_rounds import by_rounds
from ordercast.core.stability.interface import StabilityInfo
from ordercast.core.stability.plain import Plain
from ordercast.core.stability.protocols import MANNERS
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

TRACKERS: Mapping[str, StabilityInfo] = {
    info.name: info
    for info in (
        StabilityInfo("plain", Plain),
        *(StabilityInfo(manner.name, by_rounds(manner)) for manner in MANNERS),
    )
}


def tracker_named(name: str) -> StabilityInfo:
    if name not in TRACKERS:
        raise ConfigError(f"there is no stability protocol {name!r}{nearest(name, TRACKERS)}")
    return TRACKERS[name]
