"""In causal order an origin's next message to another group waits until the last one is stable: at
`agreed`, too, stability must come when it is waited for, not when its delay is over."""

from statistics import fmean

import pytest

from ordercast.core.stability.registry import TRACKERS
from ordercast.model.options import Timing
from ordercast.sim.config import SimConfig
from ordercast.sim.simulate import simulate
from support.cases.tables import table_of

RING = table_of({"alpha": ["a", "b"], "beta": ["b", "c"], "gamma": ["a", "c"]})
MESSAGES = 200


@pytest.mark.parametrize("tracker", TRACKERS)
def test_nobody_waits_for_the_delay_of_reports(tracker: str) -> None:
    config = SimConfig(
        RING, causal=True, deliver="agreed", on_failure="exclude", stability=tracker,
        messages=MESSAGES, rate=10_000,
    )  # fmt: skip
    runs = [simulate(config, seed) for seed in (1, 2, 3)]
    assert not any(run.violations for run in runs)
    # Three origins, most of whose messages go to another group than the last.
    delays_ms = MESSAGES / 3 / 2 * Timing().report_delay / 1e6
    assert fmean(run.latency.mean for run in runs) < delays_ms / 3
