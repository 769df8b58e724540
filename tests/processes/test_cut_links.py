"""Real processes in network namespaces, between which single links are cut, both ways and one way:
deliveries go on everywhere, and nobody is excluded."""

from pathlib import Path

import pytest

from support.clusters.cut_links import Cut, run_cuts
from support.network.namespaces import why_not

CUTS = [Cut("a", "c"), Cut("c", "e"), Cut("c", "a", both=False), Cut("d", "c", both=False)]


def test_one_broken_link_stops_nobody(tmp_path: Path) -> None:
    if why := why_not():
        pytest.skip(why)
    options: dict[str, object] = {"deliver": "safe", "durability": "os"}
    found = run_cuts(tmp_path, options, CUTS, seed=1, lasting_s=2.5, most_s=2.0)
    assert not found.wrong, (found.wrong, found.stops_s)
    assert found.counters["links through another site"] > 0
