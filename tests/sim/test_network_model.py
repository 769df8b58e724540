"""The planner's P and L, of the simulator's networks."""

import pytest

from ordercast.model.errors import ConfigError
from ordercast.plan.objectives import LAN, NetworkModel
from ordercast.sim.network_model import model_of
from ordercast.sim.networks import parse_network


def no_file(path: str) -> str:
    raise AssertionError(path)


def model(text: str, sites: list[str]) -> NetworkModel:
    return model_of(parse_network(text, no_file), sites)


def test_a_point_to_point_network_is_its_own_model() -> None:
    assert model("p2p:P=2ms,L=30ms", ["a", "b"]) == NetworkModel(0.03, 0.002)
    assert model("lan", ["a", "b"]) == LAN


def test_of_a_tree_it_is_the_mean_way_between_two_sites() -> None:
    """Root and two children: 1, 1 and 2 hops."""
    found = model("tree:b=2,p=2,hop=3ms", ["a", "b", "c"])
    assert found.latency_s == pytest.approx(0.004, rel=1e-6)
    assert found.handling_s == LAN.handling_s


def test_a_wide_area_is_slower_than_a_local_one() -> None:
    assert model("wan", [f"s{n}" for n in range(300)]).latency_s > 100 * LAN.latency_s
    assert model("wan", ["alone"]) == LAN


def test_a_shared_medium_is_refused() -> None:
    with pytest.raises(ConfigError, match="network: 'broadcast' is one medium for all"):
        model("broadcast:T=2ms", ["a", "b"])
