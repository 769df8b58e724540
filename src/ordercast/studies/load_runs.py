"""One protocol at one rate, in the point-to-point network, where a site needs P for every frame.

Nothing is held back, unlike in the papers' tables: acknowledgements and rounds of stability are
sent, cost P each, and are counted.
"""

from ordercast.model.groups import GroupTable
from ordercast.model.options import SECOND
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate


def run_at_rate(
    table: GroupTable, protocol: str, rate: float, seed: int, *, fewest: int, builder: str = ""
) -> tuple[SimResult, float]:
    """Send for a second, but at least `fewest` messages. Returns the run and how many messages a
    second it carried, from the first send to the last delivery. Raises RuntimeError if a delivery
    is wrong."""
    config = SimConfig(
        table, protocol=protocol, builder=builder, messages=max(fewest, round(rate)), rate=rate,
        network=PointToPointSpec(), deliver="agreed", durability="memory",
    )  # fmt: skip
    found = simulate(config, seed)
    if found.violations:
        raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
    first = min(row.sent_ns for row in found.history.sent)
    last = max(row.delivered_ns for row in found.history.deliveries)
    return found, found.sent * SECOND / (last - first)
