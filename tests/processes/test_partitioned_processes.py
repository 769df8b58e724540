"""Real processes whose network is split again and again under load, each site cut off in turn: a
majority goes on, who was cut off returns, and what the stores and the applications say afterwards
holds. At `safe` nothing is ever taken back."""

import time
from pathlib import Path

import pytest

from support.applog import read_notes
from support.partitions import partitionable

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["b", "c"], "gamma": ["a", "c"]}


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
def test_a_split_network_loses_doubles_and_reorders_nothing(deliver: str, tmp_path: Path) -> None:
    options = {"deliver": deliver, "durability": "os"}
    with partitionable(tmp_path, GROUPS, options, messages=6_000, seed=1) as (running, network):
        time.sleep(3.0)
        for alone in "abc":
            network.split([alone], [site for site in "abc" if site != alone])
            time.sleep(3.0)
            network.heal()
            time.sleep(2.0)
        running.settle(60)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, verdict.wrong[:5]
    rolled = [
        (site, note)
        for site in "abc"
        for note in read_notes(running.notes(site))
        if note[0] == "rolled"
    ]
    assert deliver == "agreed" or rolled == []
