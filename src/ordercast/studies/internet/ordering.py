"""Ordering among as many sites as the simulator carries, over wide-area delays.

The protocol objects themselves run, on a tree of the builder `balanced`, and every delivery is
judged. Stability is found in two ways: `plain` reports within each group, `s_coordp` goes in rounds
through the whole domain. With `plain` up to 1,000 sites the same messages also go over a second
network, `ROW`.
"""

import time
from statistics import fmean

from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import WanSpec
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.sim.wan import BUILT_IN, Wan
from ordercast.studies.internet.tables import UNIFORM, zipf_table

TRACKERS = ("plain", "s_coordp")
MOST_ROUNDS = 1_000  # sites: with more, rounds of the whole domain take minutes to simulate
_MOST_ROUNDS_OF_OTHERS = 100  # sites, where members are not drawn uniformly
MOST_OVER_ROW = 1_000  # sites
RATE = 100.0  # messages a second, of all sites


_REGIONS = tuple(f"region{place}" for place in range(8))
ROW = Wan(
    source="row",
    regions={},
    between={
        a: {b: (1 + 5 * abs(i - j)) * MILLISECOND for j, b in enumerate(_REGIONS)}
        for i, a in enumerate(_REGIONS)
    },
    jitter=BUILT_IN.jitter,
)
"""Eight regions in a row, as along a coast: 5 ms more, one way, for each region that is farther.
The sites are dealt out to them by name, as to the built-in six."""


def ordering_costs(config: Config, seed: int, _run: str) -> Measured:
    """`tracker/measure` of one run each; of `plain` also `row_…` over the second network. Apart
    from them the mean time between two regions of each network."""
    sites, drawn = config["sites"], config["drawn"]
    table = zipf_table(sites, drawn, seed)
    measures: Measures = {}
    for tracker in TRACKERS:
        most = MOST_ROUNDS if drawn == UNIFORM else _MOST_ROUNDS_OF_OTHERS
        if tracker == "s_coordp" and sites > most:
            continue
        begun = time.process_time()
        found = _ordered(table, config["messages"], tracker, BUILT_IN, seed)
        measures |= {
            f"{tracker}/{name}": value
            for name, value in _of_run(found, time.process_time() - begun).items()
        }
    if sites <= MOST_OVER_ROW:
        far = _of_run(_ordered(table, config["messages"], "plain", ROW, seed), 0.0)
        measures |= {f"plain/row_{name}": far[name] for name in ROW_MEASURES}
        measures |= {"between_ms": _between_ms(BUILT_IN), "row_between_ms": _between_ms(ROW)}
    return Measured(measures)


ROW_MEASURES = ("delay_mean_ms", "delay_p99_ms", "control_frames")


def _ordered(table: GroupTable, messages: int, tracker: str, wan: Wan, seed: int) -> SimResult:
    config = SimConfig(
        table, builder="balanced", messages=messages, rate=RATE, network=WanSpec(wan),
        deliver="agreed", durability="memory", stability=tracker,
    )  # fmt: skip
    found = simulate(config, seed)
    if found.violations:
        raise RuntimeError(found.violations[0].witness)
    return found


def _between_ms(wan: Wan) -> float:
    return fmean(delay for row in wan.between.values() for delay in row.values()) / MILLISECOND


def _of_run(found: SimResult, took: float) -> Measures:
    return {
        "delay_mean_ms": found.latency.mean,
        "delay_p99_ms": found.latency.p99,
        "data_frames": found.data_frames / found.sent,
        "control_frames": found.control_frames / found.sent,
        "seconds": took,
    }
