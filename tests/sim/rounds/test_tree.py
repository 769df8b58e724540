"""The trees of [STAB]: complete, filled, random; and how they are asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import ConfigError
from ordercast.sim.rounds.tree import (
    filled,
    near_complete,
    parse_random_tree,
    parse_tree,
    random_tree,
)


def test_a_near_complete_tree_has_z_children_below_its_last_level_but_one() -> None:
    tree = near_complete(3, 2, 2)
    assert tree.parent == (-1, 0, 0, 0, 1, 1, 2, 2, 3, 3)
    assert tree.children == ((1, 2, 3), (4, 5), (6, 7), (8, 9), (), (), (), (), (), ())
    assert tree.height == 2


def test_a_tree_is_filled_level_by_level_from_the_left() -> None:
    assert filled(8, 3).children[:3] == ((1, 2, 3), (4, 5, 6), (7,))
    assert filled(1, 3).parent == (-1,)


def test_the_circle_runs_to_and_fro() -> None:
    """[STAB] §5.3.1: odd levels from left to right, even ones from right to left."""
    assert near_complete(2, 3, 2).circle == (0, 1, 2, 6, 5, 4, 3, *range(7, 15))


@given(b=st.integers(2, 4), p=st.integers(2, 4), more=st.integers(1, 40), seed=st.integers(0, 99))
def test_a_random_tree_has_all_its_nodes_and_levels(b: int, p: int, more: int, seed: int) -> None:
    n = sum(b**k for k in range(p)) + more
    tree = random_tree(n, b, p, seed)
    assert tree.count == n
    assert tree.height == p
    assert all(0 <= above < node for node, above in enumerate(tree.parent) if node)
    assert list(tree.depth) == sorted(tree.depth)
    assert list(tree.parent) == sorted(tree.parent)  # children of one node are neighbours
    assert tree == random_tree(n, b, p, seed)


def test_levels_of_random_trees_have_their_sizes_on_average() -> None:
    """STAB-2: b^k on level k, the rest on the last one."""
    counts = [0] * 4
    trees = 400
    for seed in range(trees):
        for depth in random_tree(60, 3, 3, seed).depth:
            counts[depth] += 1
    assert counts[0] == trees
    means = [count / trees for count in counts]
    assert means[1] == pytest.approx(3, abs=0.35)
    assert means[2] == pytest.approx(9, abs=0.6)
    assert means[3] == pytest.approx(47, abs=1)


@pytest.mark.parametrize(
    ("text", "members", "height", "back"),
    [
        ("b=4,p=5,z=4", 1365, 5, "b=4,p=5,z=4"),
        ("b=4,p=5", 1365, 5, "b=4,p=5,z=4"),
        ("p=5,z=1,b=2", 47, 5, "b=2,p=5,z=1"),
        ("n=20000,b=4,p=7", 20000, 7, "n=20000,b=4,p=7"),
        ("n=20000,b=4", 20000, 7, "n=20000,b=4,p=7"),
        ("n=5,b=1", 5, 4, "n=5,b=1,p=4"),
        ("n=1,b=2", 1, 0, "n=1,b=2,p=0"),
    ],
)
def test_a_tree_is_what_it_is_called(text: str, members: int, height: int, back: str) -> None:
    shape = parse_tree(text)
    tree = shape.build(seed=1)
    assert (shape.n, tree.count, tree.height) == (members, members, height)
    assert shape.text() == back
    assert parse_tree(back) == shape


def test_a_random_tree_takes_its_own_seed_or_the_runs() -> None:
    fixed, drawn = parse_random_tree("n=50,b=3,p=3,seed=7"), parse_random_tree("n=50,b=3,p=3")
    assert fixed.build(1) == fixed.build(2) == drawn.build(7)
    assert drawn.build(1) != drawn.build(2)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("b=3", "tree: neither n, the members, nor p, the height, is given"),
        ("p=3", "tree: b, the children of a node, is missing"),
        ("n=9,b=3,z=1", "tree: n and z exclude each other: n is filled level by level"),
        ("n=100,b=4,p=7", "tree: n=100 with b=4 has height 4, not p=7"),
        ("b=2,p=3,z=3", "tree: z=3 is more than b=2"),
        ("b=2,p=0", "tree: a tree of height p=0 has no children; write n=1"),
        ("b=0,p=3", "tree: b: 0 is not a count (1 or more)"),
        ("b=2,p=3,q=1", "tree: there is no 'q' (known: n, b, p, z)"),
        ("b=2,b=3", "tree: 'b' is given twice"),
        ("b4p5", "tree: 'b4p5' is not of the form name=value"),
        ("b=10,p=12", "tree: 1,111,111 members are too many (200,000)"),
        ("n=999999,b=2", "tree: 999,999 members are too many (200,000)"),
    ],
)
def test_a_tree_that_cannot_be_is_one_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tree(text)
    assert str(caught.value) == line


def test_a_random_tree_must_reach_its_last_level() -> None:
    with pytest.raises(ConfigError, match=r"n=10 does not reach level p=5 with b=4 \(n ≥ 342\)"):
        parse_random_tree("n=10,b=4,p=5")
    with pytest.raises(ConfigError, match=r"random-tree: p is missing"):
        parse_random_tree("n=10,b=4")
