"""[GS] §4.1, §6: the three methods under load, which the paper argues about and does not measure.

Members send at random times to the groups of a drawn table, for about a second. Point to point all
frames are sent. In the broadcast network of §4.2 acknowledgements and reports are held back, as the
paper counts none: at T for each of them the medium would carry little else.
"""

from statistics import fmean

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.sim.networks import BroadcastSpec
from ordercast.sim.simulate import EPOCH
from ordercast.studies.load_runs import run_at_rate

PROTOCOLS = ("propagation", "two_phase", "centralized")
_FEWEST = 40  # messages of a run
_MOST_BROADCAST = 320  # messages a second: with T = 2 ms no method carries them
_BUILDERS = {"propagation": "greedy", "two_phase": "greedy", "centralized": "star"}


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
        if rate <= _MOST_BROADCAST:
            measures |= {
                f"{protocol}/{name}": value
                for name, value in _broadcast_costs(table, protocol, round(rate), seed).items()
            }
    return Measured({name: float(value) for name, value in measures.items()})


def _broadcast_costs(table: GroupTable, protocol: str, rate: int, seed: int) -> dict[str, float]:
    """The mean delay in the broadcast network, and the share of all transmissions that the busiest
    site sends or receives."""
    stream, groups = Chance(seed, "broadcast"), sorted(table.groups)
    count = max(_FEWEST, rate)
    sendings = []
    for _ in range(count):
        group = stream.choice(groups)
        at = stream.below(count * SECOND // rate)
        sendings.append(PlannedSend(at, stream.choice(table.groups[group]), group))
    structure = Structure(EPOCH, table, advise(table, _BUILDERS[protocol]).forest)
    found = overhear(structure, protocol, sendings, BroadcastSpec(), seed=seed)
    handled = found.sends() + found.received()
    return {
        "broadcast_delay_ms": fmean(d for m in found.sent for d in found.delays(m)) / MILLISECOND,
        "broadcast_busiest": max(handled.values()) / found.transmissions(),
    }
