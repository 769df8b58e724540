"""Ordered, reliable multicast to overlapping groups.

Only the public names live here; DESIGN's rooms are the sub-packages. The runtime's names are
loaded when they are first used, so that planning and simulating do not import the network.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ordercast.model.errors import (
    ConfigError,
    CrossDomain,
    Error,
    NotInMajority,
    PeerRefused,
    StoreCorrupt,
    TooLarge,
    UnknownGroup,
    WindowFull,
)
from ordercast.model.groups import GroupTable
from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.model.version import __version__

if TYPE_CHECKING:
    from ordercast.net import blocking
    from ordercast.net.client import connect
    from ordercast.net.local import local_cluster
    from ordercast.net.node import Node
    from ordercast.net.receipts import Receipt
    from ordercast.net.replica import Replica
    from ordercast.net.stream import EpochOpened, Gap, GapBatch, Rollback

__all__ = [
    "ConfigError",
    "CrossDomain",
    "DeliveredBatch",
    "Delivery",
    "EpochOpened",
    "Error",
    "Gap",
    "GapBatch",
    "GroupTable",
    "Node",
    "NotInMajority",
    "PeerRefused",
    "Receipt",
    "Replica",
    "Rollback",
    "StoreCorrupt",
    "TooLarge",
    "UnknownGroup",
    "WindowFull",
    "__version__",
    "blocking",
    "connect",
    "local_cluster",
]

_RUNTIME = {
    "EpochOpened": "stream",
    "Gap": "stream",
    "GapBatch": "stream",
    "Node": "node",
    "Receipt": "receipts",
    "Replica": "replica",
    "Rollback": "stream",
    "blocking": "blocking",
    "connect": "client",
    "local_cluster": "local",
}


def __getattr__(name: str) -> Any:
    if name not in _RUNTIME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"ordercast.net.{_RUNTIME[name]}")
    return module if name == "blocking" else getattr(module, name)
