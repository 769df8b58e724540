"""Ordering among as many sites as the simulator carries, over wide-area delays.

The protocol objects themselves run, on a tree of the builder `balanced`, and every delivery is
judged. Stability is found in two ways: `plain` reports within each group, `s_coordp` goes in rounds
through the whole domain.
"""

import time

from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import WanSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.studies.internet.tables import zipf_table

TRACKERS = ("plain", "s_coordp")
MOST_ROUNDS = 1_000  # sites: with more, rounds of the whole domain take minutes to simulate
RATE = 100.0  # messages a second, of all sites


def ordering_costs(config: Config, seed: int, _run: str) -> Measured:
    """`tracker/measure` of one run each."""
    table = zipf_table(config["sites"], config["drawn"], seed)
    measures: Measures = {}
    for tracker in TRACKERS:
        if tracker == "s_coordp" and config["sites"] > MOST_ROUNDS:
            continue
        begun = time.process_time()
        found = simulate(
            SimConfig(
                table, builder="balanced", messages=config["messages"], rate=RATE,
                network=WanSpec(), deliver="agreed", durability="memory", stability=tracker,
            ),
            seed,
        )  # fmt: skip
        measures |= {
            f"{tracker}/{name}": value
            for name, value in _of_run(found, time.process_time() - begun).items()
        }
    return Measured(measures)


def _of_run(found: SimResult, took: float) -> Measures:
    if found.violations:
        raise RuntimeError(found.violations[0].witness)
    return {
        "delay_mean_ms": found.latency.mean,
        "delay_p99_ms": found.latency.p99,
        "data_frames": found.data_frames / found.sent,
        "control_frames": found.control_frames / found.sent,
        "seconds": took,
    }
