"""`metagroup` at its own level: who orders, who forwards, what it refuses (OTHER-4)."""

import pytest

from ordercast.core.order.metagroup import require_delegates
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metagroups import build_metagroups
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.simulate import simulate

TABLE = GroupTable.of({"x": ["b", "a", "c"], "y": ["c", "d", "e"], "z": ["d", "e"]})


def test_listed_sites_are_ordered_by_a_delegate_also_one_member_alone() -> None:
    structure = Structure(1, TABLE, build_metagroups(TABLE))
    assert structure.primary("@", ("e",)) == "d"
    assert structure.primary("@", ("d", "e")) == "d"
    assert structure.primary("@", ("b", "e")) == "c"
    assert structure.primary("@", ("c",)) == "c"


def test_a_forest_without_delegates_is_refused() -> None:
    chain = GroupTable.of({"x": ["a", "b"], "y": ["c", "b", "d"], "z": ["a", "c", "d", "e"]})
    bad = Structure(1, chain, build_greedy(chain, tie=["a"]))
    with pytest.raises(ConfigError, match="'d' is in the same groups as 'c', and not a leaf"):
        require_delegates(bad, "c")


def test_the_simulator_names_the_builders_that_fit() -> None:
    config = SimConfig(TABLE, protocol="metagroup", builder="greedy")
    with pytest.raises(ConfigError, match="'metagroup' runs on 'metagroups' or"):
        simulate(config, 1)
