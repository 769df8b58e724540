"""The planner's two constants, P and L, of a network that the simulator knows by its name."""

from collections.abc import Sequence
from statistics import fmean

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.plan.objectives import LAN, NetworkModel
from ordercast.sim.networks import (
    BroadcastSpec,
    LanSpec,
    NetworkSpec,
    PointToPointSpec,
    check_network,
)

_PAIRS = 200  # the sites, about this many, whose delays to each other are averaged


def model_of(spec: NetworkSpec, sites: Sequence[Site]) -> NetworkModel:
    """`p2p` has its own P and L; `wan` and `tree`: the P of a LAN, the mean delay of two sites."""
    check_network(spec, sites)
    match spec:
        case LanSpec():
            return LAN
        case PointToPointSpec():
            return NetworkModel(spec.latency / SECOND, spec.processing / SECOND)
        case BroadcastSpec():
            raise ConfigError(
                "network: 'broadcast' is one medium for all; the planner compares networks from"
                " point to point: lan, p2p, wan or tree"
            )
    delay = (spec.wan if hasattr(spec, "wan") else spec).delays(sites)
    names = sorted(sites)
    some = names[:: max(1, len(names) // _PAIRS)]
    found = [delay(a, b) for a in some for b in some if a != b]
    if not found:
        return LAN
    return NetworkModel(fmean(least + span / 2 for least, span in found) / SECOND, LAN.handling_s)
