"""The layout of a forest on paper: nothing overlaps, nothing is lost, nothing sprawls."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.plan.pages import Page, lay_out
from ordercast.plan.tree_layout import BOX_HEIGHT, PANEL_LEVELS, PANEL_WIDTH, TreeLayout

Tree = dict[str, list[str]]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[str], Tree]:
    """Roots and children: bushes, stars and long paths, up to 60 sites."""
    count = draw(st.integers(1, 60))
    straight = draw(st.floats(0, 1))
    roots = ["s0"]
    children: Tree = {}
    for i in range(1, count):
        choice = draw(st.floats(0, 1))
        if choice < 0.05:
            roots.append(f"s{i}")
            continue
        parent = i - 1 if choice < straight else draw(st.integers(0, i - 1))
        children.setdefault(f"s{parent}", []).append(f"s{i}")
    return roots, children


def page_of(roots: list[str], children: Tree, width: float = 0.5, note: float = 0.0) -> Page:
    sites = [*roots, *(child for below in children.values() for child in below)]
    widths = {site: width + 0.07 * (len(site) % 3) for site in sites}
    notes = dict.fromkeys(children, note) if note else {}
    return lay_out(roots, children, widths, notes)


@settings(max_examples=150, deadline=None)
@given(forest=forests(), note=st.sampled_from([0.0, 0.8]))
def test_no_two_boxes_overlap_and_all_are_on_the_page(
    forest: tuple[list[str], Tree], note: float
) -> None:
    page = page_of(*forest, note=note)
    for box in page.boxes:
        assert box.x - box.width / 2 >= -1e-9
        assert box.x + box.width / 2 <= page.width + 1e-9
        assert box.y >= -1e-9
        assert box.y + BOX_HEIGHT <= page.height + 1e-9
    for one, other in combinations(page.boxes, 2):
        apart = abs(one.x - other.x) - (one.width + other.width) / 2
        assert apart > 0.05 or abs(one.y - other.y) > BOX_HEIGHT


@settings(max_examples=150, deadline=None)
@given(forest=forests())
def test_every_site_has_its_box_and_every_stub_comes_again(
    forest: tuple[list[str], Tree],
) -> None:
    roots, children = forest
    page = page_of(roots, children)
    own = sorted(box.site for box in page.boxes if not box.stub)
    assert own == sorted([*roots, *(child for below in children.values() for child in below)])
    stubs = [box.site for box in page.boxes if box.stub]
    assert len(stubs) == len(set(stubs))
    assert set(stubs) <= set(children)
    links = sorted((link.parent, link.child) for link in page.links)
    assert links == sorted((parent, child) for parent in children for child in children[parent])


@settings(max_examples=100, deadline=None)
@given(forest=forests())
def test_children_are_below_their_parents(forest: tuple[list[str], Tree]) -> None:
    for link in page_of(*forest).links:
        assert link.points[0][1] <= link.points[-1][1] + 1e-9


@settings(max_examples=100, deadline=None)
@given(forest=forests())
def test_panels_are_neither_too_wide_nor_too_deep(forest: tuple[list[str], Tree]) -> None:
    roots, children = forest
    sites = [*roots, *(child for below in children.values() for child in below)]
    for root in roots:
        panels = TreeLayout(root, children, dict.fromkeys(sites, 1.0), {}).panels()
        assert panels[0].root == root
        for panel in panels:
            widest = max(len(children.get(box.site, ())) for box in panel.boxes)
            assert panel.width <= max(PANEL_WIDTH, 1.3 * widest)


def test_a_path_is_cut_into_even_lengths() -> None:
    children = {f"s{i}": [f"s{i + 1}"] for i in range(29)}
    panels = TreeLayout("s0", children, {f"s{i}": 0.5 for i in range(30)}, {}).panels()
    lengths = [len(panel.boxes) for panel in panels]
    assert len(panels) == 3
    assert max(lengths) <= PANEL_LEVELS
    assert max(lengths) - min(lengths) <= 2


def test_many_leaves_are_stacked() -> None:
    leaves = [f"leaf{i}" for i in range(100)]
    page = page_of(["root"], {"root": leaves})
    assert page.width < 8
    assert page.height < 8
    assert sum(link.stacked for link in page.links) == 100


def test_a_long_branch_goes_straight_down_between_its_leaves() -> None:
    children = {f"s{i}": [f"s{i + 1}", *(f"leaf{i}.{j}" for j in range(4))] for i in range(8)}
    children["s8"] = ["end"]
    page = page_of(["s0"], children)
    spine = [box.x for box in page.boxes if not box.stub and box.site in children]
    assert max(spine) - min(spine) == pytest.approx(0)
    assert page.width < 4


def test_small_trees_stand_side_by_side_on_a_broad_page() -> None:
    roots = [f"r{i}" for i in range(40)]
    page = page_of(roots, {root: [f"{root}a", f"{root}b"] for root in roots})
    assert 0.7 < page.width / page.height < 3
