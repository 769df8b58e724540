"""A layout survives the way through bytes; bytes that are none are refused, whatever they are."""

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout, nowhere
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.forest.forest import Forest
from ordercast.forest.star import build_star
from ordercast.model.epochs import AddGroup, AddSite, Begin, Finish
from ordercast.model.errors import Error, FrameError
from ordercast.model.groups import GroupTable


def star(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    return build_star(table)


def changed() -> Layout:
    """With everything in it: a change done, one under way, one that was refused."""
    groups = {"g": ("a", "b"), "h": ("c", "d")}
    layout = first_layout("abcde", "abc", groups, "star", "propagation", star, founding="f")
    for record in (
        Begin("one", (AddSite("x", "127.0.0.1:7104"), AddGroup("i", ("a", "x")))),
        Finish("one", (("a", 1, "g", 7), ("b", 1, "@0123456789abcdef", 2))),
        Begin("two", (AddGroup("j", ("e", "c")),)),
        Begin("three", (AddGroup("g", ("a",)),)),
    ):
        layout = fold(layout, record, star)
    assert layout.outcomes.keys() == {"one", "three"}
    assert layout.closing.keys() == {"two"}
    return layout


@pytest.mark.parametrize("layout", [changed(), nowhere("abc")], ids=["changed", "nowhere"])
def test_a_layout_comes_back_as_it_was(layout: Layout) -> None:
    back = unpack_layout(pack_layout(layout), star)
    assert pack_layout(back) == pack_layout(layout)
    assert (back.count, back.roster, back.groups) == (layout.count, layout.roster, layout.groups)
    assert back.lasts == layout.lasts
    assert [d.sites for d in back.domains.values()] == [d.sites for d in layout.domains.values()]


@given(st.binary(max_size=200))
def test_any_other_bytes_are_no_layout(data: bytes) -> None:
    with pytest.raises(FrameError, match="not a layout"):
        unpack_layout(data, star)


def test_damaged_bytes_give_a_layout_or_an_error_of_ours() -> None:
    rng = random.Random(5)
    whole = pack_layout(changed())
    refused = 0
    for _ in range(20_000):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 8))):
            data[rng.randrange(len(data))] = rng.choice(
                (rng.randrange(256), 0x90, 0xC0, 0x00, 0x61)
            )
        try:
            layout = unpack_layout(
                bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]), star
            )
        except Error as error:
            refused += 1
            assert str(error).isprintable(), error  # noqa: PT017
        else:
            for name, closing in layout.closing.items():
                assert all(epoch in layout.domains for epoch in closing.epochs), name
            for group, members in layout.groups.items():
                assert layout.domain_of([group]) is not None
                assert all(layout.home(site) is not None for site in members)
    assert 10_000 < refused < 20_000


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("count", -2),
        ("roster", {"no name": 1}),
        ("roster", {"a": 1}),  # members of groups are missing
        ("groups", {"g": []}),
        ("groups", {"@x": ["a"]}),
        ("domains", []),
        ("domains", [[1, [], "star", "propagation", []]]),
        ("last_epoch", 0),
        ("closing", [["c", [], [99], [], 1]]),
    ],
)
def test_parts_that_contradict_each_other_are_refused(place: str, value: object) -> None:
    names = ("count", "roster", "voters", "groups", "domains", "last_epoch", "closing")
    parts = msgspec.msgpack.decode(pack_layout(changed()))
    parts[names.index(place)] = value
    with pytest.raises(FrameError, match="its parts contradict each other"):
        unpack_layout(msgspec.msgpack.encode(parts), star)


def test_a_protocol_that_there_is_not_is_refused_also_where_it_does_not_run_now() -> None:
    parts = msgspec.msgpack.decode(pack_layout(changed()))
    parts[4][0][5] = "tom"
    assert unpack_layout(msgspec.msgpack.encode(parts), star).domains[parts[4][0][0]].usual == "tom"
    for place, value in ((4, "tmo"), (21, {"g": ("star", "tmo")})):
        broken = msgspec.msgpack.decode(msgspec.msgpack.encode(parts))
        if place == 4:
            broken[4][0][5] = value
        else:
            broken[place] = value
        with pytest.raises(FrameError, match="its parts contradict each other"):
            unpack_layout(msgspec.msgpack.encode(broken), star)
