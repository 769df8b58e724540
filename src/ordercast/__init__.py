"""Ordered, reliable multicast to overlapping groups.

The public names. Those of the runtime are loaded when they are first used, so that planning and
simulating do not import the network.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ordercast import companion  # noqa: F401  before all others: it says which modules are loaded
from ordercast.model.errors import (
    ConfigError,
    CrossDomain,
    Error,
    Expired,
    Fenced,
    Forgotten,
    NotGranted,
    NotInMajority,
    PeerRefused,
    StoreCorrupt,
    TooLarge,
    TurnLost,
    UnknownGroup,
    WindowFull,
)
from ordercast.model.groups import GroupTable
from ordercast.model.messages import DeliveredBatch, Delivery
from ordercast.model.version import __version__

if TYPE_CHECKING:
    from ordercast.net.client import blocking
    from ordercast.net.client.calls import Away
    from ordercast.net.client.client import Client, NotFlushed, connect
    from ordercast.net.local import LocalCluster, local_cluster
    from ordercast.net.replica.replica import Replica
    from ordercast.net.site.node import Node
    from ordercast.net.site.receipts import Receipt
    from ordercast.net.site.stream import EpochOpened, Gap, GapBatch, Rollback

__all__ = [
    "Away",
    "Client",
    "ConfigError",
    "CrossDomain",
    "DeliveredBatch",
    "Delivery",
    "EpochOpened",
    "Error",
    "Expired",
    "Fenced",
    "Forgotten",
    "Gap",
    "GapBatch",
    "GroupTable",
    "LocalCluster",
    "Node",
    "NotFlushed",
    "NotGranted",
    "NotInMajority",
    "PeerRefused",
    "Receipt",
    "Replica",
    "Rollback",
    "StoreCorrupt",
    "TooLarge",
    "TurnLost",
    "UnknownGroup",
    "WindowFull",
    "__version__",
    "blocking",
    "connect",
    "local_cluster",
]

_PLACES = {  # in `ordercast.net`
    "Away": "client.calls",
    "Client": "client.client",
    "EpochOpened": "site.stream",
    "Gap": "site.stream",
    "GapBatch": "site.stream",
    "LocalCluster": "local",
    "Node": "site.node",
    "NotFlushed": "client.client",
    "Receipt": "site.receipts",
    "Replica": "replica.replica",
    "Rollback": "site.stream",
    "blocking": "client.blocking",
    "connect": "client.client",
    "local_cluster": "local",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"ordercast.net.{_PLACES[name]}")
    return module if name == "blocking" else getattr(module, name)


def __dir__() -> list[str]:
    """The public names; the rooms and what this module imports are not among them."""
    return sorted(__all__)
