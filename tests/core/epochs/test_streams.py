"""Streams that nobody asks for again are forgotten, and no number is given twice."""

import itertools
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.packing import floor_in, pack_layout, unpack_layout
from ordercast.core.epochs.records import REFUSED
from ordercast.core.epochs.streams import ends
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Begin,
    Finish,
    Flush,
    JoinGroup,
    LeaveGroup,
    Open,
    RemoveGroup,
    RetireSite,
)
from ordercast.model.features import known_features
from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World, build

SITES = ["a", "b", "c", "d", "e"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d", "e"]}
LISTS = [list(few) for size in (2, 3, 4) for few in itertools.combinations(SITES, size)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "FEW", 8)


def many_changes(policy: str, deliver: str, seed: int, *, calm: bool = False) -> World:
    """Lists that come and go, a change after every few of them, and crashes."""
    world = World(
        GROUPS, SITES, ["a", "b", "c"], policy=policy, deliver=deliver, seed=seed,
        loss=0.0 if calm else 0.05, checkpoint_batches=4, log_entries=4,
    )  # fmt: skip
    for number in range(160):
        site, to = SITES[number % 5], LISTS[number // 3 % len(LISTS)]
        at = SECOND + number * 60 * MILLISECOND
        world.at(at, partial(world.submit_to, site, to, b"y"))
    for number in range(24):
        edit = (JoinGroup if number % 2 == 0 else LeaveGroup)("alpha", "d")
        world.at(
            SECOND + (100 + 400 * number) * MILLISECOND,
            lambda n=number, e=edit: world.ask("d", f"c{n}", e),  # type: ignore[misc]
        )
    for number in range(0 if calm else 8):
        world.at(
            SECOND + (250 + 1_100 * number) * MILLISECOND,
            lambda s=SITES[number % 5]: world.crash(s, 300 * MILLISECOND),  # type: ignore[misc]
        )
    world.run(12 * SECOND)
    world.settle()
    return world


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("policy", ["wait", "exclude"])
@pytest.mark.usefixtures("few")
def test_nothing_is_lost_doubled_or_given_a_number_twice(policy: str, deliver: str) -> None:
    world = many_changes(policy, deliver, 1)
    assert world.quiet()
    assert world.judge() == []
    assert world.members["a"].layout.floors


@pytest.mark.usefixtures("few")
def test_the_sizes_stay_flat_over_many_changes() -> None:
    sizes: list[tuple[int, int]] = []
    usual = World._forget

    def noting(world: World, site: str, box: Any) -> None:
        usual(world, site, box)
        if box.forget is not None and site == "a":
            member = world.members[site]
            sizes.append((len(member.layout.lasts), len(pack_layout(member.layout))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "_forget", noting)
        world = many_changes("exclude", "safe", 1, calm=True)
    assert len(world.members["a"].layout.outcomes) == 24
    streams_in_all = 5 * len(LISTS)
    early = max(size for size, _ in sizes[len(sizes) // 4 : len(sizes) // 2])
    late = max(size for size, _ in sizes[len(sizes) // 2 :])
    assert late <= 1.5 * early
    assert late < streams_in_all / 2


# --- the rule -------------------------------------------------------------------------------------


def layout_with(**lasts: int) -> Layout:
    groups = {"g": ("a", "b"), "h": ("c", "d")}
    layout = first_layout("abcd", "a", groups, "greedy", "propagation", build)
    told = {("a", 1, "@" + name): seq for name, seq in lasts.items()}
    told |= {("c", 1, "@x"): 9, ("a", 1, "g"): 4}
    return replace(layout, lasts=told, features=known_features())


def ended(layout: Layout, *told: tuple[str, int, str, int], edit: Any = None) -> Layout:
    edit = edit or JoinGroup("g", "a" if "a" not in layout.groups["g"] else "c")
    layout = fold(layout, Begin("c", (edit,), ""), build)
    return fold(layout, Finish("c", told), build)


@pytest.fixture
def none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "FEW", 0)


@pytest.mark.usefixtures("none")
def test_only_what_its_origin_has_heard_of_and_does_not_use_is_forgotten() -> None:
    layout = ended(layout_with(x=3, y=7), ("a", 1, "@x", 5), edit=LeaveGroup("g", "b"))
    assert layout.lasts == {("a", 1, "@x"): 5, ("c", 1, "@x"): 9, ("a", 1, "g"): 4}
    assert layout.floors == {("a", 1): 7}
    assert layout.last_seq("a", 1, "@y") == layout.last_seq("a", 1, "@new") == 7
    assert (layout.last_seq("a", 1, "@x"), layout.last_seq("c", 1, "@x")) == (5, 9)
    back = unpack_layout(pack_layout(layout), build)
    assert back == layout
    assert floor_in(pack_layout(layout), "a", 1) == 7
    assert floor_in(pack_layout(layout), "c", 1) == 0


@pytest.mark.usefixtures("none")
def test_an_end_that_came_since_the_change_began_may_not_have_been_heard_of() -> None:
    layout = fold(layout_with(y=7), Begin("one", (LeaveGroup("g", "b"),), ""), build)
    layout = fold(layout, Begin("two", (LeaveGroup("h", "d"),), ""), build)
    layout = fold(layout, Finish("two", (("a", 1, "@z", 2),)), build)
    layout = fold(layout, Finish("one", ()), build)
    assert ("a", 1, "@z") in layout.lasts
    assert ("a", 1, "@y") in layout.lasts


@pytest.mark.usefixtures("none")
def test_a_group_that_is_gone_is_numbered_on_if_it_comes_again() -> None:
    layout = ended(layout_with(), edit=RemoveGroup("g"))
    assert ("a", 1, "g") not in layout.lasts
    assert layout.last_seq("a", 1, "g") == 4


@pytest.mark.usefixtures("none")
def test_a_flush_forgets_lost_stores() -> None:
    layout = fold(layout_with(y=7), Flush(("a",), ()), build)
    layout = fold(layout, Open(1, (), ()), build)
    assert ("a", 1, "@y") in layout.lasts  # it is away
    layout = replace(fold(layout, Flush((), (("a", 2, 5),)), build), look_at=0)
    layout = fold(layout, Open(layout.count, (), ()), build)
    assert layout.roster["a"] == 2
    assert not any(origin == "a" for origin, _, _ in layout.lasts)
    assert layout.last_seq("a", 2, "@y") == 0
    layout = ended(replace(layout, voters=("b",)), edit=RetireSite("a"))
    layout = ended(replace(layout, outcomes={}), edit=AddSite("a", "h:1"))
    assert layout.roster["a"] == 1  # its incarnations begin anew, and its numbers do not
    assert layout.last_seq("a", 1, "@y") == layout.last_seq("a", 1, "g") == 7


@pytest.mark.usefixtures("none")
def test_a_site_that_is_back_has_not_compared_its_messages_yet() -> None:
    layout = fold(layout_with(y=7), Flush(("a",), ()), build)
    layout = fold(layout, Open(1, (), ()), build)
    layout = replace(fold(layout, Flush((), (("a", 1, 1),)), build), look_at=0)
    layout = fold(layout, Open(layout.count, (), ()), build)
    assert "a" not in layout.absent
    assert ("a", 1, "@y") in layout.lasts
    layout = ended(replace(layout, look_at=0), edit=LeaveGroup("g", "b"))
    assert ("a", 1, "@y") not in layout.lasts


@pytest.mark.usefixtures("none")
def test_of_a_retired_site_only_what_its_last_epoch_tells_is_kept() -> None:
    layout = ended(layout_with(x=3, y=7), ("a", 1, "@x", 5), edit=JoinGroup("g", "c"))
    layout = replace(layout, look_at=0, voters=("b",), outcomes={})
    layout = ended(layout, ("a", 1, "g", 6), edit=RetireSite("a"))
    assert {s: n for s, n in layout.lasts.items() if s[0] == "a"} == {("a", 1, "g"): 6}
    assert layout.floors["a", 1] == 7


@pytest.mark.usefixtures("none")
@pytest.mark.parametrize("flush", [False, True])
def test_entries_of_retired_sites_are_kept_until_all_sites_can_fold_them(flush: bool) -> None:
    layout = replace(layout_with(y=7), features=(), voters=("b",))
    if flush:
        layout = fold(fold(layout, Flush(("a",), ()), build), Open(1, (), ()), build)
    layout = ended(layout, edit=RetireSite("a"))
    layout = ended(replace(layout, look_at=0, outcomes={}), edit=LeaveGroup("h", "c"))
    assert layout.bygone == {}
    assert layout.last_seq("a", 1, "@y") == 7


@pytest.mark.usefixtures("none")
def test_generations_of_retired_sites_leave_two_numbers_each() -> None:
    first = {"g": ("a", "b"), "h": ("c", "d")}
    layout = first_layout("abcd", "d", first, "greedy", "propagation", build)
    layout = replace(layout, features=known_features())

    def change(*edits: Any, told: Any = ()) -> None:
        nonlocal layout
        name = f"c{layout.count}"
        layout = replace(fold(layout, Begin(name, edits, ""), build), look_at=0)
        layout = fold(layout, Finish(name, told), build)
        assert layout.outcomes[name] == ""

    for number in range(30):
        site, groups = f"n{number}", [f"g{number}_{i}" for i in range(5)]
        change(AddSite(site, "h:1"))
        change(*(AddGroup(group, (site, "d")) for group in groups))
        change(RetireSite(site), told=tuple((site, 1, group, 7) for group in groups))
        assert layout.last_seq(site, 1, groups[0]) == 7  # it may ask what became of its messages
        change(*(RemoveGroup(group) for group in groups))
        assert layout.lasts == {}
        assert layout.forgets(site, 1, groups[0], 7)
        assert not layout.forgets(site, 1, groups[0], 8)
    assert len(layout.bygone) + len(layout.floors) <= 2 * 30
    back = unpack_layout(pack_layout(layout), build)
    assert back == layout
    assert floor_in(pack_layout(layout), "n3", 1) == 7
    change(AddSite("n3", "h:1"))
    assert layout.last_seq("n3", 1, "g") == 7  # it numbers on


def retired_while_away(*, again: bool = False, forgets: bool) -> World:
    """x has sent a message that the others deliver without its knowing; it is retired while it is
    away, and comes when the log has only the layout as a whole. `forgets`: the layout has been
    looked through since. `again`: x was added again meanwhile."""
    world = World(
        {"g": "abx", "h": "ab"}, "abx", "ab", policy="exclude", deliver="agreed",
        log_entries=4, checkpoint_batches=4,
    )  # fmt: skip
    world.run(SECOND)
    world.submit("x", "g", b"known")
    world.run(world.now + SECOND)
    world.deaf = {("a", "x"), ("b", "x")}
    world.submit("x", "g", b"delivered")
    world.run(world.now + 30 * MILLISECOND)
    world.crash("x", 60 * SECOND)
    world.deaf = set()
    world.run(world.now + 2 * SECOND)
    world.ask("a", "retire", RetireSite("x"))
    world.run(world.now + SECOND)
    if forgets:  # more streams, so that they are looked through
        for site, group in itertools.product("ab", "gh"):
            world.submit(site, group, b"more")
        world.ask("b", "leave", LeaveGroup("h", "b"))
        world.run(world.now + SECOND)
    if again:
        world.ask("a", "again", AddSite("x", "x:1"))
        world.run(world.now + SECOND)
    for number in range(12):
        world.ask("a", f"few{number}", AddGroup(f"few{number}", ("a",)))
        world.run(world.now + 200 * MILLISECOND)
    assert all(not why for why in world.outcomes.values()), world.outcomes
    world.start("x")
    world.settle()
    return world


def texts(world: World, site: str) -> list[bytes]:
    return [payload for _, _, payload in world.seen[site]]


@pytest.mark.parametrize("forgets", [False, True], ids=["told", "forgotten"])
@pytest.mark.parametrize("again", [False, True], ids=["retired", "added again"])
def test_what_a_retired_site_had_sent_is_neither_sent_again_nor_refused(
    forgets: bool, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "FEW", 0 if forgets else 4_096)
    with monkeypatch.context() as patch:
        receipts: list[tuple[str, str, int]] = []
        usual = World._send

        def noting(world: World, site: str, box: Any) -> None:
            if site == "x":
                receipts.extend((one.stage, one.group, one.seq) for one in box.receipts)
            usual(world, site, box)

        patch.setattr(World, "_send", noting)
        world = retired_while_away(again=again, forgets=forgets)
    member = world.members["x"]
    for site in "ab":
        assert [text for text in texts(world, site) if text != b"more"] == [b"known", b"delivered"]
    assert (("x", 1, "g") in member.layout.lasts) is not forgets
    assert (REFUSED, "g", 2) not in receipts
    assert (("stable", "g", 2) in receipts) is not forgets
    assert member.window.bygone == ([("g", 1, 1), ("g", 2, 1)] if forgets else [])
    if again:
        world.ask("a", "join", JoinGroup("g", "x"))
        world.run(world.now + SECOND)
        world.submit("x", "g", b"later")
        world.settle()
        assert texts(world, "a")[-1] == texts(world, "b")[-1] == b"later"


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("after", [2, 8])
@pytest.mark.usefixtures("none")
def test_what_an_excluded_site_had_sent_to_others_is_not_sent_again(
    after: int, deliver: str
) -> None:
    world = World(GROUPS, SITES, ["a", "b", "c"], policy="exclude", deliver=deliver)
    at = SECOND
    for number in range(40):
        pair = [("b", "c"), ("c", "d")][number % 2]
        at += MILLISECOND
        world.at(at, partial(world.submit_to, "e", pair, b"x"))
    world.at(at - 20 * MILLISECOND + after * MILLISECOND, lambda: world.partition(["e"]))
    for others in [few for few in LISTS if "e" not in few]:  # so that streams are looked through
        world.at(at + SECOND, partial(world.submit_to, "a", others, b"y"))
    world.at(at + 2 * SECOND, lambda: world.partition([]))
    world.run(at + 4 * SECOND)
    world.settle()
    assert world.members["e"].layout.last_epoch > 2
    assert world.quiet()
    assert world.judge() == []
