"""[TOM] §4.3, §6: how much hosts process when many messages are sent at once, and when frames are
lost.

All hosts are in one group and send to it at random times, in the point-to-point network. Every
frame counts, also acknowledgements and repairs: at the busiest host, and in all per message. The
paper leaves losses for later work. Apart from that, all hosts send one message at the same time
(`at_once_ms`), or one of them does (`alone_ms`): without acknowledgements, as in Table 1.
"""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import site_names
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.studies.tom.runs import structure_for
from ordercast.wire.epochs import InEpoch

HOST_PROTOCOLS = ("symmetric", "two_phase", "centralized", "ring", "tom")
"""Of one group MP is centralized."""

_MESSAGES = 60
_FRAMES = 4_000_000


def host_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` at one number of hosts, rate and loss."""
    hosts = site_names(config["sites"])
    table = GroupTable(tuple(hosts), {"all": tuple(hosts)})
    measures: dict[str, float] = {}
    for protocol in HOST_PROTOCOLS:
        log = FrameLog(_FRAMES)
        loss = config["loss"]
        found = simulate(
            SimConfig(
                table,
                protocol=protocol,
                messages=_MESSAGES,
                rate=float(config["rate"]),
                network=PointToPointSpec(),
                faults=(Fault("loss", probability=loss),) if loss else (),
                deliver="agreed",
                durability="memory",
            ),
            seed,
            log=log,
        )
        if found.violations:
            raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
        handled = Counter[Site]()
        for frame in log.frames:
            if isinstance(frame.frame, InEpoch):
                handled[frame.source] += 1
                handled[frame.peer] += frame.arrives >= 0
        measures |= {
            f"{protocol}/delay_mean_ms": found.latency.mean,
            f"{protocol}/delay_p99_ms": found.latency.p99,
            f"{protocol}/frames": (found.data_frames + found.control_frames) / found.sent,
            f"{protocol}/busiest": max(handled.values()) / found.sent,
            f"{protocol}/host_mean": fmean(handled[host] for host in hosts) / found.sent,
            f"{protocol}/carried": _carried(found),
        }
        if not loss:
            measures[f"{protocol}/at_once_ms"] = _mean_ms(table, protocol, hosts, seed)
            one = Chance(seed, "source").choice(hosts)
            measures[f"{protocol}/alone_ms"] = _mean_ms(table, protocol, [one], seed)
    return Measured({name: float(value) for name, value in measures.items()})


def _carried(found: SimResult) -> float:
    """Messages a second, from the first send to the last delivery."""
    first = min(row.sent_ns for row in found.history.sent)
    last = max(row.delivered_ns for row in found.history.deliveries)
    return found.sent * SECOND / (last - first)


def _mean_ms(table: GroupTable, protocol: str, sources: Sequence[Site], seed: int) -> float:
    """The mean delay of a delivery, where these send one message each at one time."""
    (group,) = table.groups
    sendings = [PlannedSend(0, source, group) for source in sources]
    found = overhear(structure_for(protocol, table), protocol, sendings, seed=seed)
    return fmean(d for message in found.sent for d in found.delays(message)) / MILLISECOND
