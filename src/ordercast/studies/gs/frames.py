"""[GS] Tables 1 and 2 by running the protocols: messages N and delay D of one multicast.

A run draws a table and simulates one message to each of its groups, one at a time, from an origin
that is in no group. The paper counts no acknowledgements: they and all reports are held back until
the message is everywhere (`sim.message_costs`). Beside what is measured stands the paper's formula,
with the n, d and ε of the very same groups.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ordercast.core.structure import Structure
from ordercast.forest.metrics import measure
from ordercast.model.groups import Group, GroupTable
from ordercast.model.messages import MessageId
from ordercast.model.options import MILLISECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.plan.advice import advise
from ordercast.sim.message_costs import Overheard, PlannedSend, overhear
from ordercast.sim.networks import BroadcastSpec, NetworkSpec, PointToPointSpec
from ordercast.sim.simulate import EPOCH

OUTSIDE = "outside"
P2P, BROADCAST = "p2p", "broadcast"
P_MS, L_MS, T_MS = 1, 5, 2
_APART = 600 * MILLISECOND  # between two messages: the first is everywhere by then
_NETWORKS: Mapping[str, NetworkSpec] = {
    P2P: PointToPointSpec(P_MS * MILLISECOND, L_MS * MILLISECOND),
    BROADCAST: BroadcastSpec(T_MS * MILLISECOND),
}
_BUILDERS = {"propagation": "greedy", "two_phase": "greedy", "centralized": "star"}
"""Two-phase needs a forest only for what it says of domains."""


@dataclass(frozen=True, slots=True)
class MessageWay:
    """One message's way to its group: transmissions, and when members had it. In a broadcast
    network a transmission to several has to be looked at by every other site (§4.2): `checks`, and
    how many of these were at sites that it was for (`wanted_checks`)."""

    transmissions: int
    delays_ms: Sequence[float]
    checks: int = 0
    wanted_checks: int = 0


def table_costs(config: Config, seed: int, _run: str) -> Measured:
    """Tables 1 and 2: `protocol/measure`, and `protocol/measure_formula` beside it."""
    drawn = draw_table(drawing_of(config), seed)
    table = GroupTable((*drawn.sites, OUTSIDE), drawn.groups)
    network = config["network"]
    measures: dict[str, float] = {}
    for protocol, builder in _BUILDERS.items():
        structure = Structure(EPOCH, table, advise(table, builder).forest)
        found = multicasts(structure, list(table.groups), protocol, network)
        metrics = measure(structure.forest, table)
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
        }
        if network == BROADCAST:
            measures[f"{protocol}/checks"] = fmean(each.checks for each in found)
            measures[f"{protocol}/wanted_checks"] = fmean(each.wanted_checks for each in found)
        if protocol != "two_phase":
            measures[f"{protocol}/depth_mean"] = metrics.depth_mean
            measures[f"{protocol}/extra_mean"] = metrics.extra_mean
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


def multicasts(
    structure: Structure, groups: Sequence[Group], protocol: str, network: str
) -> list[MessageWay]:
    """One message from outside to each group, one after the other."""
    sendings = [PlannedSend(_APART * place, OUTSIDE, group) for place, group in enumerate(groups)]
    found = overhear(structure, protocol, sendings, _NETWORKS[network])
    return [_way(structure, found, message, network) for message in found.sent]


def _way(structure: Structure, found: Overheard, message: MessageId, network: str) -> MessageWay:
    sent, had = found.sent[message], max(found.had[message].values())
    if had - sent >= _APART:
        raise RuntimeError(f"{message} was under way when the next one was sent")
    its = replace(found, heard=[frame for frame in found.heard if sent <= frame.at <= had])
    delays = [delay / MILLISECOND for delay in found.delays(message)]
    if network != BROADCAST:
        return MessageWay(its.messages, delays)
    multicasts = [count for count in its.receivers().values() if count > 1]
    others = len(structure.table.sites) - 1
    return MessageWay(its.transmissions(), delays, others * len(multicasts), sum(multicasts))
