"""[GS] Tables 1 and 2 by running the protocols: messages N and delay D of one multicast.

A run draws a table and simulates one message to each of its groups, one at a time, from an origin
that is in no group. The paper counts no acknowledgements: they and all reports are held back until
the message is everywhere. Beside what is measured stands the paper's formula, with the n, d and ε
of the very same groups. Two-phase is not built yet: of it there is the formula alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ordercast.core.outbox import Checkpoint, Outbox, Record
from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.forest.metrics import measure
from ordercast.model.groups import Group, GroupTable
from ordercast.model.options import MILLISECOND, SECOND, Options, Timing
from ordercast.pipeline.sweep_draw import draw_table, drawing_of
from ordercast.pipeline.sweep_measure import Measured
from ordercast.pipeline.sweep_options import Config
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import BroadcastSpec, NetworkSpec, PointToPointSpec
from ordercast.sim.simulate import simulate
from ordercast.wire.frames import CONTROL, Ack, Data, Frame

Send = tuple[str, Frame]

OUTSIDE = "outside"
P2P, BROADCAST = "p2p", "broadcast"
P_MS, L_MS, T_MS = 1, 5, 2
_NETWORKS: Mapping[str, NetworkSpec] = {
    P2P: PointToPointSpec(P_MS * MILLISECOND, L_MS * MILLISECOND),
    BROADCAST: BroadcastSpec(T_MS * MILLISECOND),
}
_BUILDERS = {"propagation": "greedy", "centralized": "star"}
_LATER = SECOND // 2  # the message is everywhere by then, or the run fails
_TIMING = Timing(
    ack_delay=_LATER, resend_after=5 * _LATER, resend_at_most=5 * _LATER, report_delay=_LATER
)


@dataclass(frozen=True, slots=True)
class Multicast:
    """One message's way to its group: transmissions, and when members had it."""

    transmissions: int
    delays_ms: Sequence[float]


def table_costs(config: Config, seed: int, _run: str) -> Measured:
    """Tables 1 and 2: `protocol/measure`, and `protocol/measure_formula` beside it."""
    drawn = draw_table(drawing_of(config), seed)
    table = GroupTable((*drawn.sites, OUTSIDE), drawn.groups)
    network = config["network"]
    measures: dict[str, float] = {}
    for protocol, builder in _BUILDERS.items():
        found = [multicast(table, group, protocol, network, seed) for group in table.groups]
        metrics = measure(advise(table, builder).forest, table)
        depth = dict(zip(sorted(table.groups), metrics.depth, strict=True))
        extra = dict(zip(sorted(table.groups), metrics.extra, strict=True))
        formulas = [
            FORMULAS[network][protocol](len(members), depth[group], extra[group])
            for group, members in table.groups.items()
        ]
        measures |= {
            f"{protocol}/messages": fmean(each.transmissions for each in found),
            f"{protocol}/delay_ms": fmean(max(each.delays_ms) for each in found),
            f"{protocol}/delay_first_ms": fmean(min(each.delays_ms) for each in found),
            f"{protocol}/delay_mean_ms": fmean(fmean(each.delays_ms) for each in found),
            f"{protocol}/messages_formula": fmean(messages for messages, _ in formulas),
            f"{protocol}/delay_formula_ms": fmean(delay for _, delay in formulas),
            f"{protocol}/depth_mean": metrics.depth_mean,
            f"{protocol}/extra_mean": metrics.extra_mean,
        }
    formulas = [
        FORMULAS[network]["two_phase"](len(members), 0, 0) for members in table.groups.values()
    ]
    measures["two_phase/messages_formula"] = fmean(messages for messages, _ in formulas)
    measures["two_phase/delay_formula_ms"] = fmean(delay for _, delay in formulas)
    return Measured(measures)


def _table1_two_phase(n: int, _d: int, _e: int) -> tuple[float, float]:
    return 3 * n, 3 * L_MS + (2 * n + 1) * P_MS


def _table1_centralized(n: int, _d: int, _e: int) -> tuple[float, float]:
    return n, 2 * L_MS + n * P_MS


def _table1_propagation(n: int, d: int, e: int) -> tuple[float, float]:
    return n + e, (d + 1) * L_MS + (n + e) * P_MS


def _table2_two_phase(n: int, _d: int, _e: int) -> tuple[float, float]:
    return n + 2, (n + 2) * T_MS


def _table2_centralized(_n: int, _d: int, _e: int) -> tuple[float, float]:
    return 2, 2 * T_MS


def _table2_propagation(_n: int, d: int, _e: int) -> tuple[float, float]:
    return d + 1, (d + 1) * T_MS


Formula = Callable[[int, int, int], tuple[float, float]]
FORMULAS: Mapping[str, Mapping[str, Formula]] = {
    P2P: {
        "two_phase": _table1_two_phase,
        "centralized": _table1_centralized,
        "propagation": _table1_propagation,
    },
    BROADCAST: {
        "two_phase": _table2_two_phase,
        "centralized": _table2_centralized,
        "propagation": _table2_propagation,
    },
}
"""(N, D in milliseconds) of a group by its size, depth and extra sites, as printed."""


def multicast(table: GroupTable, group: Group, protocol: str, network: str, seed: int) -> Multicast:
    """One message from outside to one group, while nothing else is under way."""
    config = SimConfig(
        replace(table, rates={name: float(name == group) for name in table.groups}),
        protocol=protocol,
        messages=1,
        origins=(OUTSIDE,),
        network=_NETWORKS[network],
        deliver="agreed",
        durability="memory",
        timing=_TIMING,
    )
    ear = _Ear(len(table.groups[group]), one_for_all=network == BROADCAST)
    result = simulate(config, seed, make_site=ear.make_site)
    if not result.ok:
        raise RuntimeError(f"{result.violations[0].check}: {result.violations[0].witness}")
    (sent,) = result.history.sent
    delays = [(row.delivered_ns - sent.sent_ns) / 1e6 for row in result.history.deliveries]
    if max(delays) * MILLISECOND >= _LATER:
        raise RuntimeError(f"{max(delays):g} ms: reports and repairs were under way by then")
    return Multicast(ear.heard, delays)


class _Ear:
    """Counts what sites transmit until all members have the message, and lets no acknowledgement
    pass before. On a broadcast network the same items to several receivers at once are one
    transmission."""

    def __init__(self, members: int, *, one_for_all: bool) -> None:
        self.heard = 0
        self.missing = members
        self._one_for_all = one_for_all

    def make_site(
        self,
        name: str,
        structure: Structure,
        options: Options,
        *,
        protocol: str,
        boot: int,
        checkpoint: Checkpoint | None,
        records: list[Record],
    ) -> Site:
        site = _Overheard(
            name, structure, options, protocol=protocol, boot=boot, checkpoint=checkpoint,
            records=records,
        )  # fmt: skip
        site.ear = self
        return site

    def listen(self, box: Outbox) -> Outbox:
        if self.missing:
            box.send, box.then_send = self._count(box.send), self._count(box.then_send)
            self.missing -= sum(batch.count for batch in box.deliver)
        return box

    def _count(self, sends: Sequence[Send]) -> list[Send]:
        data = [f for _, f in sends if isinstance(f, Data) and f.lane != CONTROL]
        self.heard += len({(f.lane, f.items) for f in data}) if self._one_for_all else len(data)
        return [send for send in sends if not isinstance(send[1], Ack)]


class _Overheard(Site):
    ear: _Ear

    def drain(self) -> Outbox:
        return self.ear.listen(super().drain())
