"""Features: one is used only when every site has a program that knows it (docs/epochs.md)."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ordercast.core.epochs.changes import edited
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.manager import Manager
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.model.epochs import AddSite, Adopt, Entry, Founded, UseProtocol
from ordercast.model.errors import ConfigError
from ordercast.model.features import MOST_FEATURES, lacking
from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World, build

SITES = ["a", "b", "c", "d"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"]}


class Upgraded(World):
    """A world whose sites have programs with different features. Its judge also says where a site
    has adopted a feature although another site's program lacks it."""

    def __init__(self, *, policy: str = "wait", **more: Any) -> None:
        self.programs: dict[str, tuple[str, ...]] = dict.fromkeys(SITES, ())
        super().__init__(GROUPS, SITES, ["a", "b", "c"], policy=policy, make=self.member, **more)

    def member(self, name: str, *rest: Any, **more: Any) -> Member:
        return Member(name, *rest, features=self.programs.get(name, ()), **more)

    def drain(self, site: str) -> None:
        super().drain(site)
        member = self.members.get(site)
        for other in member.layout.roster if member is not None else ():
            missing = lacking(self.members[site].layout.features, self.programs.get(other, ()))
            if missing:
                self.violations.append(("used without a program", site, other, *missing))

    def upgrade(self, site: str, *features: str) -> None:
        self.crash(site, away=20 * MILLISECOND)
        self.programs[site] = features

    def used(self) -> set[tuple[str, ...]]:
        return {member.layout.features for member in self.members.values()}


@pytest.mark.parametrize("policy", ["wait", "exclude"])
def test_a_feature_is_used_when_the_last_site_has_it(policy: str) -> None:
    world = Upgraded(policy=policy)
    world.run(SECOND)
    for site in SITES:
        assert world.used() == {()}
        world.upgrade(site, "x")
        world.submit("b", "alpha", b"on the way")
        world.run(world.now + 2 * SECOND)
    world.settle()
    assert world.used() == {("x",)}
    assert world.judge() == []


def test_a_cluster_begins_with_the_features_of_its_founders() -> None:
    world = Upgraded()
    world.programs = dict.fromkeys(SITES, ("x", "y"))
    for site in SITES:
        world.start(site)
    world.run(SECOND)
    assert world.used() == {("x", "y")}
    assert [type(entry.record) for entry in world.members["a"].raft.log.entries] == [Founded]


def test_a_site_that_was_added_and_has_not_come_is_waited_for() -> None:
    world = Upgraded()
    world.run(SECOND)
    world.ask("a", "one more", AddSite("e"))
    world.run(2 * SECOND)
    for site in SITES:
        world.upgrade(site, "x")
    world.run(5 * SECOND)
    assert world.used() == {()}
    world.programs["e"] = ("x",)
    world.add("e")
    world.run(8 * SECOND)
    world.settle()
    assert world.used() == {("x",)}
    assert world.judge() == []


def test_a_site_that_comes_back_older_finds_what_it_lacks() -> None:
    world = Upgraded()
    world.run(SECOND)
    for site in SITES:
        world.upgrade(site, "x")
    world.run(4 * SECOND)
    assert world.used() == {("x",)}
    world.upgrade("d", "y")
    world.run(4 * SECOND + 100 * MILLISECOND)
    assert world.members["d"].lacks == ("x",)
    assert world.members["a"].lacks == ()


def schedule(seed: int, policy: str) -> list[Any]:
    """Upgrades in any order, with loss, crashes and lost stores; a few programs stay old."""
    draw = random.Random(seed)
    world = Upgraded(policy=policy, seed=seed, loss=0.05, crash=0.0005)
    while not all(site in world.members and world.members[site].layout.count for site in SITES):
        world.run(world.now + SECOND)  # a cluster is founded by one release
    begun = world.now
    sites = draw.sample(SITES, draw.choice([3, 4, 4]))
    for number, site in enumerate(sites):
        at = begun + number * draw.randint(1, 400) * MILLISECOND
        world.at(at, partial(world.upgrade, site, "x"))
        world.at(at + 50 * MILLISECOND, lambda: world.submit("c", "beta", b"m"))
    world.run(begun + 4 * SECOND)
    world.settle()
    wrong = world.judge()
    expected = {("x",)} if len(sites) == len(SITES) else {()}
    return wrong if world.used() == expected else [*wrong, ("used", world.used())]


@pytest.mark.parametrize("policy", ["wait", "exclude"])
def test_upgrades_in_any_order_never_use_what_a_site_lacks(policy: str) -> None:
    for seed in range(12):
        assert schedule(seed, policy) == [], seed


def _by_most(manager: Any, now: int) -> None:
    """Adopt what most sites have."""
    member, layout = manager._member, manager._member.layout
    told = [set(manager._features.get(site, ())) for site in layout.roster if site != member.name]
    news = [
        name
        for name in lacking(member.features, layout.features)
        if 2 * sum(name in one for one in told) >= len(told)
    ]
    if news and manager._settled():
        manager._raft.propose(now, Adopt(tuple(news)))


def _by_itself(manager: Any, now: int) -> None:
    """Adopt what the manager has."""
    news = lacking(manager._member.features, manager._member.layout.features)
    if news and manager._settled():
        manager._raft.propose(now, Adopt(news))


def _without_absent(manager: Any, now: int) -> None:
    """Do not ask sites that are absent or silent."""
    member, layout = manager._member, manager._member.layout
    others = [site for site in manager._features if site in layout.roster]
    news = tuple(
        name
        for name in lacking(member.features, layout.features)
        if others and all(name in manager._features[site] for site in others)
    )
    if news and manager._settled():
        manager._raft.propose(now, Adopt(news))


@pytest.mark.parametrize("mutant", [_by_most, _by_itself, _without_absent])
def test_mutants_that_use_a_feature_too_early_are_caught(
    mutant: Callable[[Any, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Manager, "_adopt", mutant)
    assert any(schedule(seed, "exclude") for seed in range(12))


def first() -> Layout:
    groups = {name: tuple(members) for name, members in GROUPS.items()}
    return first_layout(SITES, ["a"], groups, "greedy", "propagation", build)


def folded(layout: Layout, *records: Any) -> Layout:
    member = Member("a", layout, World(GROUPS, SITES, ["a"]).options, build)
    for record in records:
        layout = member.folds.fold(layout, Entry(1, record))
    return layout


def test_features_are_kept_in_a_layout_known_here_or_not() -> None:
    layout = folded(first(), Founded((("a", 1),), ("b", "a")), Adopt(("of 2099", "a")))
    assert layout.features == ("a", "b", "of 2099")
    assert unpack_layout(pack_layout(layout), build).features == layout.features


def test_a_layout_takes_so_many_features_and_no_more() -> None:
    many = tuple(f"f{number:02}" for number in range(MOST_FEATURES))
    layout = folded(first(), Adopt(many), Adopt(("one more",)))
    assert layout.features == many


@pytest.mark.parametrize(
    ("adopted", "taken"),
    [((), ()), (("cores",), ("hybrid:2",)), (("cores", "marks"), ("hybrid:2", "hybrid:2:3"))],
)
def test_a_protocol_with_sizes_is_taken_when_every_program_knows_it(
    adopted: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    layout = folded(first(), Founded((("a", 1),), adopted))
    for protocol in ("hybrid:2", "hybrid:2:3"):
        if protocol in taken:
            edited(layout, (UseProtocol(protocol),))
        else:
            with pytest.raises(ConfigError, match="a program that knows no size of it"):
                edited(layout, (UseProtocol(protocol),))
