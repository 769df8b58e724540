"""The tree of an origin over the members of an epoch: everyone has one way to everyone."""

from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.dissemination.settings import StreamTimes
from ordercast.core.dissemination.tree import WIDTH, Reach, branches, parent_in

MEMBERS = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=40, unique=True)


@given(MEMBERS, st.data())
def test_every_member_is_served_once_and_by_its_parent(
    members: list[str], data: st.DataObject
) -> None:
    origin = data.draw(st.sampled_from(members))
    reached: list[str] = []

    def descend(site: str) -> None:
        below = branches(origin, members, site)
        assert len(below) <= WIDTH
        for child, served in below.items():
            assert parent_in(origin, members, child) == site
            before = len(reached)
            reached.append(child)
            descend(child)
            assert sorted(served) == sorted(reached[before:])

    descend(origin)
    assert sorted(reached) == sorted(set(members) - {origin})
    assert parent_in(origin, members, origin) is None


def test_the_order_in_which_members_are_listed_does_not_matter() -> None:
    assert (
        branches("b", "cabd", "b") == branches("b", "dbca", "b") == {"c": ("c", "a"), "d": ("d",)}
    )


def test_a_stranger_is_no_part_of_a_tree() -> None:
    assert branches("x", "abc", "a") == branches("a", "abc", "x") == {}
    assert parent_in("x", "abc", "a") is None
    assert parent_in("a", "abc", "x") is None


def test_a_peer_is_reached_for_a_while_after_its_answer() -> None:
    times = StreamTimes()
    reach = Reach(times)
    reach.answered(5, "b")
    reach.answered(9, "c")
    assert list(reach.reached(5 + times.reached_for)) == ["c"]
    reach.lost("c")
    assert list(reach.reached(6)) == ["b"]
    reach.begin()
    assert list(reach.reached(6)) == []
