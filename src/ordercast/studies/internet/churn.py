"""Churn by rate: sites join and leave groups while messages are sent, over wide-area delays.

A change closes the epoch of its whole domain, and changes of one domain wait for each other
(docs/epochs.md). So there is a rate of changes that a domain can follow, whatever its protocol.
"""

from ordercast.history.rows import OPEN
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import WanSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.studies.internet.tables import UNIFORM, zipf_table

PROTOCOLS_UNDER_CHURN = ("propagation", "arrow")
_SECONDS = 6  # the longest time in which changes are asked for
_CHANGES = 8  # the most that are asked for: at a higher rate in less time, and they wait
_RATE = 10.0  # messages a second, of all sites
_BEGUN = SECOND  # the cluster is founded by then


def churn_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` at one rate of changes."""
    table = zipf_table(config["sites"], UNIFORM, seed)
    asked = min(_CHANGES, round(config["changes"] * _SECONDS))
    stop = _BEGUN + round(asked * SECOND / config["changes"])
    measures: Measures = {}
    for protocol in PROTOCOLS_UNDER_CHURN:
        found = simulate(
            SimConfig(
                table, protocol=protocol, builder="greedy", messages=round((_SECONDS + 1) * _RATE),
                rate=_RATE, network=WanSpec(), deliver="agreed", durability="memory",
                stability="plain", faults=_churn(asked, stop),
            ),
            seed,
        )  # fmt: skip
        if found.violations:
            raise RuntimeError(f"{protocol}: {found.violations[0].witness}")
        measures |= {f"{protocol}/{name}": value for name, value in _of_run(found, stop).items()}
    return Measured(measures)


def _churn(asked: int, stop: int) -> tuple[Fault, ...]:
    joins = (asked + 1) // 2
    counts = (("join", joins), ("leave", asked - joins))
    return tuple(Fault(kind, count=n, start=_BEGUN, stop=stop) for kind, n in counts if n)


def _of_run(found: SimResult, stop: int) -> Measures:
    """`done`: the changes per second that were carried out, from the first request until the last
    epoch is open everywhere."""
    opens = [row for row in found.history.events if row.kind == OPEN and row.at_ns > _BEGUN]
    epochs = {row.epoch for row in opens}
    last = max((row.at_ns for row in opens), default=0)
    return {
        "delay_mean_ms": found.latency.mean,
        "delay_p99_ms": found.latency.p99,
        "done": len(epochs) * SECOND / (last - _BEGUN) if epochs else 0.0,
        "behind_ms": max(0, last - stop) / MILLISECOND,
    }
