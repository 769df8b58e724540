"""Changes and returns that race in the voters' log: what is begun must be able to end."""

import pytest

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.forest.forest import Forest
from ordercast.forest.star import build_star
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Begin,
    Edit,
    EpochRecord,
    Finish,
    Flush,
    Founded,
    Open,
    RemoveVoter,
    RetireSite,
    Stored,
    Voters,
)
from ordercast.model.groups import GroupTable

GROUPS = {"g": ("a", "b", "c"), "h": ("b", "d")}


def star(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    return build_star(table)


def folded(layout: Layout, *records: EpochRecord) -> Layout:
    for record in records:
        layout = fold(layout, record, star)
    return layout


def without_b_and_d() -> Layout:
    layout = first_layout("abcd", "abc", GROUPS, "star", "propagation", star)
    founded = Founded((("a", 1), ("b", 2), ("c", 3)))
    layout = folded(layout, founded, Stored("d", 4), Flush(("b", "d"), ()))
    assert layout.flushing is not None
    layout = folded(layout, Open(layout.flushing.number, (), ()))
    assert sorted(layout.absent) == ["b", "d"]
    return folded(layout, Begin("v", (RemoveVoter("b"),)), _voters(layout), Finish("v", ()))


def _voters(layout: Layout) -> EpochRecord:
    return Voters(tuple((voter, n) for n, voter in enumerate(layout.voters, 1) if voter != "b"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (RetireSite("b"), RetireSite("d")),
        (AddSite("x", ""), AddSite("X", "")),
        (AddGroup("new", ("a",)), AddGroup("NEW", ("c",))),
    ],
)
def test_two_changes_of_which_one_makes_the_other_impossible_do_not_overlap(
    first: Edit, second: Edit
) -> None:
    layout = folded(without_b_and_d(), Begin("one", (first,)), Begin("two", (second,)))
    assert list(layout.closing) == ["one"]
    layout = folded(layout, Finish("one", ()), Begin("two", (second,)))
    assert layout.outcomes["one"] == ""
    assert layout.outcomes["two"] != ""


def test_a_site_that_returns_while_it_is_retired_is_asked_about_again() -> None:
    layout = folded(without_b_and_d(), Begin("retire", (RetireSite("b"),)))
    assert list(layout.closing) == ["retire"]
    layout = folded(layout, Flush((), (("b", 1, 2), ("d", 1, 4))))
    assert layout.flushing is not None
    assert "b" in layout.flushing.members
    assert not layout.closing
    assert "retire" not in layout.outcomes
