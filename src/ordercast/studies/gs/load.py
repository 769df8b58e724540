"""[GS] §4.1, §6: the three methods under load, which the paper argues about and does not measure.

Members send at random times to the groups of a drawn table, for about a second, in the
point-to-point network, where a site needs P for every frame that it sends. Unlike in the tables
nothing is held back: acknowledgements and rounds of stability are sent, cost P each, and are
counted.
"""

from ordercast.model.options import SECOND
from ordercast.pipeline.sweeps.subject import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.simulate import simulate

PROTOCOLS = ("propagation", "two_phase", "centralized")
_FEWEST = 40  # messages of a run


def under_load_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` at one rate."""
    table = draw_table(drawing_of(config), seed)
    rate = float(config["rate"])
    measures: dict[str, float] = {}
    for protocol in PROTOCOLS:
        found = simulate(
            SimConfig(
                table,
                protocol=protocol,
                messages=max(_FEWEST, round(rate)),
                rate=rate,
                network=PointToPointSpec(),
                deliver="agreed",
                durability="memory",
            ),
            seed,
        )
        if found.violations:
            raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
        first = min(row.sent_ns for row in found.history.sent)
        last = max(row.delivered_ns for row in found.history.deliveries)
        measures |= {
            f"{protocol}/delay_mean_ms": found.latency.mean,
            f"{protocol}/delay_p99_ms": found.latency.p99,
            f"{protocol}/carried": found.sent * SECOND / (last - first),
            f"{protocol}/frames_data": found.data_frames / found.sent,
            f"{protocol}/frames_control": found.control_frames / found.sent,
        }
    return Measured({name: float(value) for name, value in measures.items()})
