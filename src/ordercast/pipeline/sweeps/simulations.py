"""Sweeps of `sim`: what `ordercast sim` reports about a run of the groups of a point.

Wall-clock time is measured only when it is asked for: without it, the same point and seed give the
same row everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.model.verb_options import ReadFile, by_name
from ordercast.pipeline.sweeps.histories import pack
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures, SweptVerb
from ordercast.pipeline.sweeps.tables import OPTIONS as DRAWN
from ordercast.pipeline.sweeps.tables import table_like, table_of
from ordercast.sim.config import SimConfig, check_config
from ordercast.sim.options import OPTIONS, SCHEDULED, TABLE, configure
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


def sim_config(config: Config, table: GroupTable, read: ReadFile) -> SimConfig:
    """What `ordercast sim` would run with these options."""
    given = {name: value for name, value in config.items() if name in OPTIONS}
    return configure(table, given, read=read)


def scheduled(config: Config, seed: int) -> SimConfig:
    """A whole configuration drawn from the seed."""
    draw = schedule
    if config.get("changing"):
        draw = changing
    elif config.get("excluding"):
        draw = excluding
    return draw(config.get("protocol", SimConfig(GroupTable((), {})).protocol), seed)


def _check(config: Config, read: ReadFile) -> None:
    if config.get("schedule"):
        for option in config:
            if option not in (*SCHEDULED, "protocol"):
                raise ConfigError(f"schedule: draws it all from the seed: leave out {option!r}")
        return
    for drawn in SCHEDULED[1:]:
        if config.get(drawn):
            raise ConfigError(f"{drawn}: goes with schedule")
    check_config(sim_config(config, table_like(config, read), read))


SWEPT_VERB = SweptVerb(
    options={**DRAWN, **by_name(TABLE)},
    measures=(
        "sent", "delivered", "frames_data", "frames_control", "frames_per_message",
        "latency_ms_mean", "latency_ms_p50", "latency_ms_p99", "epochs", "faults_injected",
        "violations", "events", "virtual_seconds",
    ),
    check=_check,
    experiment=SimRun,
    has_history=True,
)  # fmt: skip
