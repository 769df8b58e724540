"""The builder `given`: the tree comes from a file or from the network, and not from the groups."""

import dataclasses

import pytest

from ordercast.forest.given_tree import build_given
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, parse_groups
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import TreeSpec
from ordercast.sim.simulate import simulate

# r above a and b, a above c and d, b above e and f.
TREE = {"a": "r", "b": "r", "c": "a", "d": "a", "e": "b", "f": "b"}
SITES = ["r", *TREE]
SOME = GroupTable.of({"x": ["c", "d"], "y": ["d", "e"], "z": ["e", "f"]}, sites=SITES, tree=TREE)
WHOLE = GroupTable.of({**SOME.groups, "session": SITES}, sites=SITES, tree=TREE)


def test_with_a_group_of_all_sites_the_tree_is_used_as_it_is() -> None:
    forest = build_given(WHOLE)
    assert forest.parent == {"r": None, **TREE}
    assert forest.primary == {"x": "a", "y": "r", "z": "b", "session": "r"}


def test_sites_outside_the_domain_are_skipped_and_what_falls_apart_is_joined() -> None:
    table = GroupTable.of({"x": ["r", "c", "d"], "y": ["d", "e"]}, sites=SITES, tree=TREE)
    forest = build_given(table)
    assert {s: forest.parent[s] for s in "rcde"} == {"r": None, "c": "r", "d": "r", "e": "r"}
    assert forest.parent["a"] is None
    apart = build_given(SOME)
    assert {s: apart.parent[s] for s in "cdef"} == {"c": None, "d": "c", "e": "c", "f": "c"}
    assert apart.primary == {"x": "c", "y": "c", "z": "c"}


@pytest.mark.parametrize("protocol", ["tom", "propagation", "arrow"])
def test_protocols_run_on_it_and_keep_it_through_changes(protocol: str) -> None:
    config = SimConfig(
        WHOLE, protocol=protocol, builder="given", messages=60,
        faults=(Fault("join", count=1), Fault("leave", count=1)),
    )  # fmt: skip
    found = simulate(config, 3)
    assert found.violations == ()
    assert found.epochs > 1


def test_the_networks_own_tree_is_taken_where_the_file_has_none() -> None:
    """Five sites on three nodes: the fourth and fifth stand on the first and second node."""
    spec = TreeSpec(branching=2, levels=2)
    assert spec.tree("abcde") == {"b": "a", "c": "a", "d": "a", "e": "b"}
    bare = dataclasses.replace(WHOLE, tree={})
    config = SimConfig(bare, protocol="tom", builder="given", network=TreeSpec(2, 3), messages=20)
    assert config.planned.tree["d"] == "b"
    assert simulate(config, 1).violations == ()
    assert dataclasses.replace(config, builder="balanced").planned is bare


def test_without_a_tree_or_a_place_in_it_the_builder_refuses_in_one_line() -> None:
    with pytest.raises(ConfigError, match="'given' needs a tree"):
        advise(dataclasses.replace(WHOLE, tree={}), "given")
    with pytest.raises(ConfigError, match="tree: site 'f' has no place in it"):
        build_given(dataclasses.replace(WHOLE, tree={k: TREE[k] for k in "abcde"}))


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ('a = "q"', "tree.a: there is no site 'q'"),
        ('q = "a"', "tree.q: there is no site 'q'"),
        ("a = 3", "tree.a: there is no site 3"),
        ('a = "b"\nb = "a"', "tree.a: the site is above itself"),
    ],
)
def test_a_wrong_tree_is_one_line_that_names_the_place(tree: str, said: str) -> None:
    text = f'[groups]\nx = ["a", "b"]\n[tree]\n{tree}\n'
    with pytest.raises(ConfigError) as caught:
        parse_groups(text, source="g.toml")
    assert str(caught.value).startswith(f"g.toml: {said}")
    with pytest.raises(ConfigError, match="'tree' must be a table"):
        parse_groups('tree = 3\n[groups]\nx = ["a"]\n', source="g.toml")
