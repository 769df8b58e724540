"""Sweeps of `sim`: what `ordercast sim` reports about a run of the groups of a point.

Wall-clock time is measured only when it is asked for: without it, the same point and seed give the
same row everywhere.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.model.names import shown
from ordercast.pipeline.sweeps.histories import pack
from ordercast.pipeline.sweeps.subject import (
    Check,
    Config,
    Measured,
    Measures,
    Read,
    Subject,
)
from ordercast.pipeline.sweeps.tables import OPTIONS as DRAWN
from ordercast.pipeline.sweeps.tables import table_like, table_of
from ordercast.pipeline.sweeps.values import flag, names, number, one_of, text, whole, word
from ordercast.plan.advice import AUTO
from ordercast.plan.candidates import NAMED
from ordercast.sim.config import (
    DURABILITIES,
    LEVELS,
    POLICIES,
    SLOW_MEMBERS,
    SimConfig,
    check_config,
)
from ordercast.sim.networks import parse_network
from ordercast.sim.notation import duration
from ordercast.sim.options import OPTIONS as SIM_OPTIONS
from ordercast.sim.options import configure
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.simulate import simulate


@dataclass(frozen=True, slots=True)
class SimRun:
    """What `ordercast sim` reports about a run of the point's groups."""

    files: Mapping[str, str]
    seconds: bool = False
    history: bool = False

    def __call__(self, config: Config, seed: int, run: str) -> Measured:
        read = self.files.__getitem__
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


def sim_config(config: Config, table: GroupTable, read: Read) -> SimConfig:
    """What `ordercast sim` would run with these options."""
    given = {
        name: _as_on_the_command_line(name, value)
        for name, value in config.items()
        if name not in DRAWN and name not in ("schedule", "changing", "excluding")
    }
    return configure(table, given, read=read)


def scheduled(config: Config, seed: int) -> SimConfig:
    """A whole configuration drawn from the seed."""
    draw = schedule
    if config.get("changing"):
        draw = changing
    elif config.get("excluding"):
        draw = excluding
    return draw(config.get("protocol", SimConfig(GroupTable((), {})).protocol), seed)


def _as_on_the_command_line(name: str, value: Any) -> Any:
    """Lists and tables of the spec file as the texts that they stand for."""
    if isinstance(value, list):
        return ",".join(value)
    if not isinstance(value, dict):
        return value
    if name == "faults":
        return json.dumps(value)
    return ",".join(f"{part}={number}" for part, number in value.items())


def _origins(value: Any, where: str, read: Read) -> None:
    (whole(1) if isinstance(value, int) else names)(value, where, read)


def _network(value: Any, where: str, read: Read) -> None:
    parse_network(text(value, where, read), read, where)


def _duration(value: Any, where: str, _: Read) -> None:
    duration(value, where)


def _settings(name: str) -> Check:
    """A text as on the command line, or a table of the spec file."""

    def check(value: Any, where: str, read: Read) -> None:
        if not isinstance(value, str | dict):
            raise ConfigError(f"{where}: must be a text or a table, not {shown(value)}")
        SIM_OPTIONS[name](where, _as_on_the_command_line(name, value), read)

    return check


_OPTIONS: Mapping[str, Check] = {
    **DRAWN,
    "protocol": one_of(*PROTOCOLS),
    "builder": one_of(*NAMED, AUTO),
    "branching": whole(2),
    "tie": names,
    "messages": whole(0),
    "origins": _origins,
    "rate": number(1e-9, 1e9),
    "network": _network,
    "faults": _settings("faults"),
    "deliver": one_of(*LEVELS),
    "on_failure": one_of(*POLICIES),
    "slow_member": one_of(*SLOW_MEMBERS),
    "causal": flag,
    "stability": word,
    "dissemination": word,
    "durability": one_of(*DURABILITIES),
    "batch": whole(1),
    "payload": whole(0),
    "implicit": number(0, 1),
    "replies": number(0, 1),
    "codec": one_of("objects", "bytes"),
    "limits": _settings("limits"),
    "timing": _settings("timing"),
    "settle": _duration,
    "wake": _duration,
    "longest_sync": _duration,
    "most_events": whole(1),
    "schedule": flag,
    "changing": flag,
    "excluding": flag,
}
_SCHEDULED = ("schedule", "changing", "excluding", "protocol")


def _check(config: Config, read: Read) -> None:
    if config.get("schedule"):
        for option in config:
            if option not in _SCHEDULED:
                raise ConfigError(f"schedule: draws it all from the seed: leave out {option!r}")
        return
    for drawn in ("changing", "excluding"):
        if config.get(drawn):
            raise ConfigError(f"{drawn}: goes with schedule")
    check_config(sim_config(config, table_like(config, read), read))


SUBJECT = Subject(
    options=_OPTIONS,
    elsewhere={},
    measures=(
        "sent", "delivered", "frames_data", "frames_control", "frames_per_message",
        "latency_ms_mean", "latency_ms_p50", "latency_ms_p99", "epochs", "faults_injected",
        "violations", "events", "virtual_seconds",
    ),
    check=_check,
    experiment=SimRun,
    has_history=True,
)  # fmt: skip
