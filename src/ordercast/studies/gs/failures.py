"""[GS] §5.2 by running it: how rare non-atomic deliveries are, what the atomic ways block, and what
reliability costs while nothing fails.

Members send at random times; some sites crash, are down for 0.6 seconds, and return. *Non-atomic*
(§5.2.1) is the policy `exclude` at `agreed`: the others go on, and the site that returns may have
to annul its last deliveries. *Blocking* (§5.2.2) is `wait` at `agreed`. §5.2.3's others: two-phase
and centralized with `wait`; and two ways that deliver what is committed only, which are `safe`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from ordercast.core.structure import Structure
from ordercast.history.rows import CRASH, EXCLUDED, RESTART, ROLLBACK, Event
from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.message_costs import PlannedSend, overhear
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import EPOCH, simulate
from ordercast.sim.workload import submissions


class ReliableWay(NamedTuple):
    """How messages are delivered, and what is done about a site that fails."""

    protocol: str
    builder: str
    deliver: str
    on_failure: str


WAYS: Mapping[str, ReliableWay] = {
    "non_atomic": ReliableWay("propagation", "greedy", "agreed", "exclude"),
    "blocking": ReliableWay("propagation", "greedy", "agreed", "wait"),
    "two_phase": ReliableWay("two_phase", "greedy", "agreed", "wait"),
    "centralized": ReliableWay("centralized", "star", "agreed", "wait"),
    "committed": ReliableWay("propagation", "greedy", "safe", "exclude"),
    "committed_centre": ReliableWay("centralized", "star", "safe", "exclude"),
}
RARE = "non_atomic"  # the way in which a delivery may be annulled
ANY, LEAF, INNER = "any", "leaf", "inner"
SECONDS = 4  # of sending
DOWN = 600 * MILLISECOND
_FOUNDED = SECOND // 2  # no crash before: the cluster must begin


def failure_costs(config: Config, seed: int, _run: str) -> Measured:
    """`way/measure` at one number of crashes, and of the sites that may crash. Of several tables
    the non-atomic way alone: few crashes annul anything, so it takes many to see how few."""
    measures: dict[str, float] = {}
    if config["tables"] > 1:
        chance = Chance(seed, "tables")
        some = [way_costs(RARE, config, chance.below(2**31)) for _ in range(config["tables"])]
        names = dict.fromkeys(name for one in some for name in one)
        return Measured(
            {f"{RARE}/{name}": fmean(one[name] for one in some if name in one) for name in names}
        )
    for name in WAYS:
        found = way_costs(name, config, seed)
        measures |= {f"{name}/{which}": float(value) for which, value in found.items()}
    return Measured(measures)


def way_costs(name: str, config: Config, seed: int) -> Mapping[str, float]:
    """The measures of one way."""
    table = draw_table(drawing_of(config), seed)
    structure = Structure(EPOCH, table, advise(table, "greedy").forest)
    crashes, way = config["crashes"], WAYS[name]
    faults = (
        Fault("crash", count=crashes, start=_FOUNDED, length=DOWN, stop=SECONDS * SECOND - DOWN,
              sites=may_crash(structure, config["hit"])),
        Fault("restart", count=crashes),
    )  # fmt: skip
    plan = SimConfig(
        table,
        protocol=way.protocol,
        builder=way.builder,
        messages=SECONDS * config["rate"],
        rate=config["rate"],
        network=PointToPointSpec(),
        faults=faults if crashes else (),
        deliver=way.deliver,
        on_failure=way.on_failure,
        durability="os",
    )
    found = simulate(plan, seed)
    if found.violations:
        raise RuntimeError(f"{name}: {found.violations[0].witness}")
    bare = {} if crashes else {"bare_delay_ms": _bare_delay(plan, table, seed)}
    return {**_of_run(found), **bare}


def may_crash(structure: Structure, hit: str) -> tuple[Site, ...]:
    """The sites of groups: all, only leaves, or only inner sites, as `hit` says."""
    used = sorted({site for members in structure.groups.values() for site in members})
    parents = set(structure.forest.parent.values())
    if hit == ANY:
        return tuple(used)
    return tuple(site for site in used if (site in parents) == (hit == INNER))


class Outage(NamedTuple):
    """A site is down."""

    site: Site
    begun: int
    ended: int


def _of_run(found: SimResult) -> Mapping[str, float]:
    history = found.history
    outages = _outages(history.events)
    rolled = [event for event in history.events if event.kind == ROLLBACK]
    away = {event.site for event in history.events if event.kind in (CRASH, EXCLUDED)}
    annulled = _annulled(rolled)
    sent = {row.id: row.sent_ns for row in history.sent}
    delays = [(row.delivered_ns - sent[row.id]) / MILLISECOND for row in history.deliveries]
    meanwhile, blocked = _blocked(found, outages)
    measures = {
        "delay_mean_ms": fmean(delays),
        "delay_p99_ms": found.latency.p99,
        "frames_data": found.data_frames / found.sent,
        "frames_control": found.control_frames / found.sent,
        "annulled_share": annulled / len(history.deliveries),
        "wrong_elsewhere": sum(event.site not in away for event in rolled),
    }
    if outages:
        measures["rollback_share"] = crashes_that_annulled(rolled, outages) / len(outages)
    if meanwhile:
        measures["blocked_share"] = blocked / meanwhile
    return measures


def _annulled(rolled: Sequence[Event]) -> int:
    return sum(json.loads(event.detail).get("annulled", 0) for event in rolled)


def crashes_that_annulled(rolled: Sequence[Event], outages: Sequence[Outage]) -> int:
    """What a site annuls belongs to its crash before. A site that crashes twice may do so twice."""
    found = set[Outage]()
    for event in rolled:
        before = [o for o in outages if o.site == event.site and o.begun <= event.at_ns]
        if before and _annulled([event]):
            found.add(max(before, key=lambda outage: outage.begun))
    return len(found)


def _outages(events: Sequence[Event]) -> list[Outage]:
    begun: dict[Site, int] = {}
    found = []
    for event in sorted(events, key=lambda one: one.at_ns):
        if event.kind == CRASH:
            begun[event.site] = event.at_ns
        elif event.kind == RESTART and event.site in begun:
            found.append(Outage(event.site, begun.pop(event.site), event.at_ns))
    return found


def _blocked(found: SimResult, outages: Sequence[Outage]) -> tuple[int, int]:
    """Of the messages between other sites while a site was down: the number of deliveries, and how
    many of them came only when it was back. What was sent just before its return does not count."""
    sent = {row.id: (row.origin, row.sent_ns) for row in found.history.sent}
    meanwhile = blocked = 0
    for row in found.history.deliveries:
        origin, at = sent[row.id]
        during = [one for one in outages if one.begun <= at < one.ended]
        down = [one for one in outages if one.begun <= row.delivered_ns and one.ended >= at]
        if not during or any(one.site in (origin, row.site) for one in down):
            continue
        if all(at < one.ended - DOWN // 2 for one in during):
            meanwhile += 1
            blocked += any(row.delivered_ns >= one.ended for one in during)
    return meanwhile, blocked


def _bare_delay(plan: SimConfig, table: GroupTable, seed: int) -> float:
    """The mean delay of the same messages without acknowledgements and stability."""
    structure = Structure(EPOCH, table, advise(table, plan.built_by).forest)
    sendings = [
        PlannedSend(each.at, each.origin, each.group)
        for each in submissions(replace(plan, batch=1), seed)
    ]
    found = overhear(structure, plan.protocol, sendings, plan.network)
    return fmean(delay for message in found.sent for delay in found.delays(message)) / MILLISECOND
