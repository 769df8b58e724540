"""[GS] §4.1, §6: the three methods under load, which the paper argues about and does not measure.

Members send at random times to the groups of a drawn table, for about a second.
"""

from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.studies.load_runs import run_at_rate

PROTOCOLS = ("propagation", "two_phase", "centralized")
_FEWEST = 40  # messages of a run


def under_load_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` at one rate."""
    table = draw_table(drawing_of(config), seed)
    rate = float(config["rate"])
    measures: dict[str, float] = {}
    for protocol in PROTOCOLS:
        found, carried = run_at_rate(table, protocol, rate, seed, fewest=_FEWEST)
        measures |= {
            f"{protocol}/delay_mean_ms": found.latency.mean,
            f"{protocol}/delay_p99_ms": found.latency.p99,
            f"{protocol}/carried": carried,
            f"{protocol}/frames_data": found.data_frames / found.sent,
            f"{protocol}/frames_control": found.control_frames / found.sent,
        }
    return Measured({name: float(value) for name, value in measures.items()})
