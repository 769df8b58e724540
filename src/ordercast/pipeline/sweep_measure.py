"""One run of a sweep: a pure function of a point's options and a seed, in any process.

Wall-clock time is measured only when it is asked for: without it, the same point and seed give the
same row everywhere.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from ordercast.history.rows import History, Row
from ordercast.history.tables import TABLES
from ordercast.pipeline.sweep_options import (
    Config,
    Read,
    name_list,
    scheduled,
    sim_config,
    table_of,
    tracked,
)
from ordercast.plan.advice import AUTO, Plan, advise
from ordercast.plan.candidates import BUILDERS
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.sim.tracking import KINDS, ROLES, Tracked, track

MEASURES: Mapping[str, tuple[str, ...]] = {
    "plan": (
        "domains", "cyclic", "memberships", "depth_mean", "depth_max", "extra_mean",
        "messages_mean", "load_max", "load_by_rates", "delay_ms", "utilisation",
        *(f"chosen_{builder}" for builder in BUILDERS),
    ),
    "sim": (
        "sent", "delivered", "frames_data", "frames_control", "frames_per_message",
        "latency_ms_mean", "latency_ms_p50", "latency_ms_p99", "epochs", "faults_injected",
        "violations", "events", "virtual_seconds",
    ),
    "stability": (
        "members", "height", "rtt_ms", "slowest_rtt_ms", "rounds", "messages_on_hops",
        "messages_per_member", "queue_link", "queue_cpu",
        *(f"{what}_{kind}" for what in ("on_hops", "sent") for kind in KINDS),
        *(f"processed_{role}{which}" for role in ROLES for which in ("", "_least")),
    ),
}  # fmt: skip

Measures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """`notes` are texts to keep beside the numbers; `history` is empty unless it is asked for."""

    measures: Measures
    notes: dict[str, str] = field(default_factory=dict)
    history: bytes = b""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What `ordercast plan` finds out about the point's groups."""

    files: Mapping[str, str]
    seconds: bool = False

    def __call__(self, config: Config, seed: int, _run: str) -> Measured:
        table = table_of(config, seed, reader(self.files))
        begun = time.perf_counter()
        plan = advise(
            table,
            builder=config.get("builder", AUTO),
            objective=config.get("objective", "delay"),
            branching=config.get("branching"),
            tie=name_list(config.get("tie", [])),
            rebalance=config.get("rebalance", False),
        )
        took = time.perf_counter() - begun
        measures = {"memberships": float(table.memberships), **_of_plan(plan)}
        if config.get("builder", AUTO) == AUTO:  # on average: how often each one is chosen
            for builder in BUILDERS:
                measures[f"chosen_{builder}"] = float(plan.chosen.builder == builder)
        return Measured(measures | ({"seconds": took} if self.seconds else {}))


def _of_plan(plan: Plan) -> Measures:
    metrics, values = plan.metrics, plan.chosen.values
    measures = {
        "domains": plan.domains,
        "cyclic": len(plan.cyclic),
        "depth_mean": metrics.depth_mean,
        "depth_max": metrics.depth_max,
        "extra_mean": metrics.extra_mean,
        "messages_mean": sum(metrics.messages) / len(metrics.messages),
        "load_max": metrics.load_max,
        "load_by_rates": values.load,
        "utilisation": values.utilisation,
    }
    if not values.overloaded:  # an overloaded forest has no delay
        measures["delay_ms"] = values.delay * 1e3
    return {name: float(value) for name, value in measures.items()}


@dataclass(frozen=True, slots=True)
class SimRun:
    """What `ordercast sim` reports about a run of the point's groups."""

    files: Mapping[str, str]
    seconds: bool = False
    history: bool = False

    def __call__(self, config: Config, seed: int, run: str) -> Measured:
        read = reader(self.files)
        if config.get("schedule"):
            whole = scheduled(config, seed)
        else:
            whole = sim_config(config, table_of(config, seed, read), read)
        result = simulate(whole, seed)
        measures = _of_run(result)
        if self.seconds:
            measures["seconds"] = result.wall_seconds
        notes = {"history_hash": result.history_hash}
        if not result.ok:
            first = result.violations[0]
            notes["violation"] = f"{first.check}: {first.witness}"
            notes["replay"] = result.replay
        return Measured(measures, notes, pack(result.history, run) if self.history else b"")


def _of_run(result: SimResult) -> Measures:
    measures = {
        "sent": result.sent,
        "delivered": result.delivered,
        "frames_data": result.data_frames,
        "frames_control": result.control_frames,
        "latency_ms_mean": result.latency.mean,
        "latency_ms_p50": result.latency.p50,
        "latency_ms_p99": result.latency.p99,
        "epochs": result.epochs,
        "faults_injected": sum(result.faults.values()),
        "violations": len(result.violations),
        "events": result.events,
        "virtual_seconds": result.virtual_ns / 1e9,
    }
    if result.sent:
        measures["frames_per_message"] = result.data_frames / result.sent
    return {name: float(value) for name, value in measures.items()}


@dataclass(frozen=True, slots=True)
class StabilityRun:
    """What `ordercast stability` reports about a round on the point's tree."""

    seconds: bool = False

    def __call__(self, config: Config, seed: int, _run: str) -> Measured:
        begun = time.perf_counter()
        measures = of_round(track(tracked(config), seed))
        if self.seconds:
            measures["seconds"] = time.perf_counter() - begun
        return Measured(measures)


def of_round(found: Tracked) -> Measures:
    """Everything that a round is measured by; of a role that nobody has, nothing."""
    measures: dict[str, float] = {
        "members": found.members,
        "height": found.height,
        "rtt_ms": found.rtt_ns / 1e6,
        "slowest_rtt_ms": found.slowest_rtt_ns / 1e6,
        "rounds": found.rounds,
        "messages_on_hops": found.messages_on_hops,
        "messages_per_member": found.messages_on_hops / found.members,
        "queue_link": found.longest_link,
        "queue_cpu": found.longest_cpu,
    }
    for kind in KINDS:
        measures[f"on_hops_{kind}"] = found.on_hops[kind]
        measures[f"sent_{kind}"] = found.sent[kind]
    for role, (least, most) in found.processed.items():
        measures[f"processed_{role}"] = most
        measures[f"processed_{role}_least"] = least
    return {name: float(value) for name, value in measures.items()}


def reader(files: Mapping[str, str]) -> Read:
    """Files as the driver read them: a worker need not have them."""
    return files.__getitem__


def pack(history: History, run: str) -> bytes:
    """The five tables, every row marked with its run."""
    return msgspec.msgpack.encode(
        {
            name: [msgspec.structs.replace(row, run=run) for row in rows]
            for name, rows in history.tables().items()
        }
    )


def unpack(packed: bytes) -> dict[str, list[Row]]:
    lists: Any = list  # of a kind of row that is known only when it runs
    tables = msgspec.msgpack.decode(packed, type=dict[str, msgspec.Raw])
    return {
        name: msgspec.msgpack.decode(rows, type=lists[TABLES[name].row])
        for name, rows in tables.items()
    }
