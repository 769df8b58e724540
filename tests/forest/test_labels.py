"""Labels: prefixes, the ordering node, routing by labels (TOM-1, TOM-2, TOM-4)."""

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.structure import Structure
from ordercast.forest.balanced import build_balanced
from ordercast.forest.greedy import build_greedy
from ordercast.forest.labels import Labels, common_prefix, is_prefix
from ordercast.model.groups import GroupTable, Site
from support.cases.tables import tables


@given(st.lists(st.lists(st.integers(0, 2), max_size=5).map(tuple), min_size=1, max_size=6))
def test_the_common_prefix_is_the_longest_that_all_labels_have(
    labels: list[tuple[int, ...]],
) -> None:
    found = common_prefix(labels)
    assert all(is_prefix(found, label) for label in labels)
    longer = [(*found, index) for index in range(3)]
    assert not any(all(is_prefix(more, label) for label in labels) for more in longer)


@settings(deadline=None, max_examples=60)
@given(table=tables())
def test_the_ordering_node_is_the_lowest_site_above_all_receivers(table: GroupTable) -> None:
    for forest in (build_greedy(table), build_balanced(table)):
        labels = Labels.of(forest.parent)
        for group, members in table.groups.items():
            node = labels.ordering_node(members)
            assert node == forest.primary[group]
            above = [set(ancestors(forest.parent, member)) for member in members]
            common = set.intersection(*above)
            assert node == max(common, key=lambda site: len(labels.label[site]))


def ancestors(parent: Mapping[Site, Site | None], site: Site) -> list[Site]:
    """The site itself first."""
    found = [site]
    while (above := parent[found[-1]]) is not None:
        found.append(above)
    return found


@settings(deadline=None, max_examples=60)
@given(table=tables(), data=st.data())
def test_labels_route_up_to_the_common_ancestor_and_down_from_there(
    table: GroupTable, data: st.DataObject
) -> None:
    forest = build_balanced(table)
    labels = Labels.of(forest.parent)
    start, end = (data.draw(st.sampled_from(table.sites)) for _ in "ab")
    up, down = ancestors(forest.parent, start), ancestors(forest.parent, end)
    common = next((site for site in up if site in down), None)
    path = labels.path(start, end)
    if common is None:
        assert path == []
        assert labels.ordering_node([start, end]) is None
    else:
        assert path == up[1 : up.index(common) + 1] + down[: down.index(common)][::-1]


def test_eleven_children_have_eleven_labels_where_digits_have_fewer() -> None:
    star = {"r": None, **{f"s{i:02}": "r" for i in range(12)}, "t": "s01"}
    labels = Labels.of(star)
    assert len(labels.site) == len(star)
    digits = {"".join(map(str, label)) for label in labels.label.values()}
    assert len(digits) < len(star)
    assert labels.label["s10"] == (0, 10)
    assert labels.label["t"] == (0, 1, 0)


def test_a_structure_has_its_labels_once() -> None:
    table = GroupTable.of({"x": ["a", "b"]})
    structure = Structure(1, table, build_greedy(table))
    assert structure.labels is structure.labels
    assert structure.labels.label == {"a": (0,), "b": (0, 0)}
