"""The protocols of [STAB] by name. A new one is one file beside this, and one line here."""

from collections.abc import Mapping
from typing import Any

from ordercast.core.stability.coordp import CoordP
from ordercast.core.stability.full_dist import FullDist
from ordercast.core.stability.rounds import Part
from ordercast.core.stability.s_coordp import StructuredCoordP
from ordercast.core.stability.s_train import StructuredTrain
from ordercast.core.stability.train import Train
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest

PROTOCOLS: Mapping[str, type[Part[Any, Any]]] = {
    "coordp": CoordP,
    "full_dist": FullDist,
    "train": Train,
    "s_coordp": StructuredCoordP,
    "s_train": StructuredTrain,
}


def part_named(name: str) -> type[Part[Any, Any]]:
    if name not in PROTOCOLS:
        raise ConfigError(f"there is no stability protocol {name!r}{nearest(name, PROTOCOLS)}")
    return PROTOCOLS[name]
