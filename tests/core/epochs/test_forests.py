"""Forests come with the records: sites whose builders differ have the same forest all the same."""

from collections.abc import Callable, Iterator
from dataclasses import replace as but
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordercast.core.epochs import changes, forests
from ordercast.core.epochs.changes import fold, with_forests, with_refusal
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.forests import Before, adapted, require_legal
from ordercast.core.epochs.layout import Build, Domain, Layout, first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest, under_one_root
from ordercast.model.epochs import (
    AddGroup,
    Begin,
    Edit,
    Entry,
    Finish,
    Flush,
    ForestMoves,
    JoinGroup,
    LeaveGroup,
    Open,
    RemoveGroup,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.errors import ConfigError, FrameError
from ordercast.model.groups import GroupTable, Pair, pair
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.cases.any_records import aimed, check_layout, layouts, records
from support.worlds.epochs import World, build

SITES = ["a", "b", "c", "d", "e", "z"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["d", "e"]}


def chain(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    """Another version of the builders: legal, and another forest for nearly all groups."""
    sites = sorted(table.sites, reverse=True)
    parent = dict(zip(sites, (None, *sites), strict=False))
    return Forest("greedy", parent, dict.fromkeys(table.groups, sites[0]))


def none(table: GroupTable, _builder: str, _protocol: str) -> Forest:
    raise ConfigError(f"no builder at all for {len(table.groups)} groups")


def with_builder(site: str, other: Build) -> Callable[..., Member]:
    """Members, of which one has another builder than all others."""

    def make(name: str, first: Layout, options: Any, usual: Build, **more: Any) -> Member:
        return Member(name, first, options, other if name == site else usual, **more)

    return make


# --- clusters -------------------------------------------------------------------------------------


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("policy", ["wait", "exclude"])
@pytest.mark.parametrize("odd", ["a", "c", "d"])
def test_a_site_with_another_builder_changes_no_order_and_stops_nobody(
    deliver: str, policy: str, odd: str
) -> None:
    world = World(
        GROUPS, SITES, ["a", "b", "c"], deliver=deliver, policy=policy,
        make=with_builder(odd, chain), checkpoint_batches=4, log_entries=2,
    )  # fmt: skip
    edits = (JoinGroup("gamma", "z"), LeaveGroup("alpha", "b"), AddGroup("delta", ("b", "z")))
    for number in range(90):
        site, group = SITES[number % 6], sorted(GROUPS)[number % 3]
        world.at(
            SECOND + number * 20 * MILLISECOND,
            lambda s=site, g=group, n=number: world.submit(s, g, b"%d" % n),  # type: ignore[misc]
        )
    for number, edit in enumerate(edits):
        world.at(
            SECOND + (100 + 400 * number) * MILLISECOND,
            lambda n=number, e=edit: world.ask("e", f"change {n}", e),  # type: ignore[misc]
        )
    for number, site in enumerate(("d", "a", "c")):  # they read their layouts from their disks
        world.at(
            SECOND + (300 + 500 * number) * MILLISECOND,
            lambda s=site: world.crash(s, 200 * MILLISECOND),  # type: ignore[misc]
        )
    world.run(4 * SECOND)
    world.settle()
    assert world.quiet()
    assert world.judge() == []
    assert world.outcomes == dict.fromkeys(["change 0", "change 1", "change 2"], "")
    forests = {pack_layout(member.layout) for member in world.members.values()}
    assert len(forests) == 1
    assert all("stable" in stages for stages in world.stages.values())
    assert len(world.stages) > 50


def test_what_the_manager_cannot_build_is_refused_with_its_reason_at_all_sites() -> None:
    world = World(GROUPS, SITES, ["a"], make=with_builder("a", none))
    world.at(SECOND, lambda: world.ask("e", "join", JoinGroup("gamma", "z")))
    world.run(2 * SECOND)
    world.settle()
    assert world.outcomes == {"join": "no builder at all for 3 groups"}
    assert {member.layout.last_epoch for member in world.members.values()} == {1}


# --- records --------------------------------------------------------------------------------------


def founded(protocol: str = "propagation") -> Layout:
    groups = {group: tuple(members) for group, members in GROUPS.items()}
    return first_layout(SITES, "abc", groups, "greedy", protocol, build)


def closing(*edits: Any) -> Layout:
    return fold(founded(), Begin("c", edits, ""), none)


numbers = st.integers(1, 7)
some_moves = st.builds(
    ForestMoves,
    st.sampled_from(["greedy", "star", "metagroups", "", "x"]),
    st.lists(st.tuples(numbers, st.integers(0, 7)), max_size=7).map(tuple),
    st.lists(st.tuples(numbers, numbers), max_size=5).map(tuple),
)
told = st.lists(some_moves, max_size=3).map(tuple)


@settings(max_examples=300, deadline=None)
@given(told, st.sampled_from(["propagation", "tom", "metagroup", "centralized", "two_phase"]))
def test_any_forest_is_taken_or_refused_alike_everywhere(
    drawn: tuple[ForestMoves, ...], protocol: str
) -> None:
    join = Begin("c", (JoinGroup("gamma", "z"), UseProtocol(protocol)), "")
    done = [fold(fold(founded(), join, b), Finish("c", (), (), drawn), b) for b in (chain, none)]
    flush = [fold(founded(protocol), Flush(("e",), ()), b) for b in (chain, none)]
    back = [
        fold(one, Open(1, (), (), drawn), b) for one, b in zip(flush, (chain, none), strict=True)
    ]
    for one, other in (done, back):
        assert pack_layout(one) == pack_layout(other)
        check_layout(one, none)
        for domain in one.domains.values():
            inside = but(domain.structure.table, sites=domain.sites)
            parent = {site: domain.structure.forest.parent[site] for site in domain.sites}
            require_legal(inside, but(domain.structure.forest, parent=parent), Before())
    outcome = done[0].outcomes["c"]
    assert outcome == "" or outcome.startswith("refused when all had closed: ")
    assert ("z" in done[0].groups["gamma"]) == (outcome == "")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_records_with_forests_need_no_builder(data: st.DataObject) -> None:
    layout = data.draw(layouts(build))
    for drawn in data.draw(st.lists(records, max_size=20)):
        record = aimed(drawn, layout)
        if isinstance(record, Begin):
            record = replace(record, refused=data.draw(st.sampled_from(["", "", "", "no"])))
        elif isinstance(record, (Finish, Open)):
            record = replace(record, forests=data.draw(told))
        layout = fold(layout, record, none)
        check_layout(layout, none)


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        (ForestMoves(""), "forest: none could be built"),
        (ForestMoves("x", ((9, 1),)), "forest: of 6 sites there is no number 9"),
        (ForestMoves("x", ((6, 3),), ((4, 1),)), "forest: there is no group 4, or no site 1"),
        (ForestMoves("x", ((1, 0), (2, 0))), "roots, not one"),
        (ForestMoves("x", ((1, 2), (2, 1), (6, 3))), "is its own ancestor, or below one that is"),
        (ForestMoves("x", ((6, 3),), ((1, 6),)), "forest: primary 'z' of 'alpha' is not above 'a'"),
    ],
)
def test_an_illegal_forest_is_refused_in_one_line_and_all_opens_as_it_was(
    moves: ForestMoves, why: str
) -> None:
    before = closing(JoinGroup("gamma", "z"))
    after = fold(before, Finish("c", (), (), (moves,)), none)
    assert why in after.outcomes["c"]
    assert "\n" not in after.outcomes["c"]
    ((_, was),), ((_, now),) = before.domains.items(), after.domains.items()
    assert now.structure.forest.primary == was.structure.forest.primary
    assert {s: now.structure.parent(s) for s in now.sites} == {
        s: was.structure.parent(s) for s in was.sites
    }
    assert (now.protocol, now.builder, after.last_epoch) == (was.protocol, was.builder, 2)


def test_a_flush_with_an_illegal_forest_opens_on_a_star() -> None:
    layout = fold(founded(), Flush(("e",), ()), none)
    for wrong in ((), (ForestMoves("greedy", ((1, 1),)),)):
        (domain,) = fold(layout, Open(1, (), (), wrong), none).domains.values()
        assert (domain.builder, domain.protocol) == ("star", "centralized")


def test_the_record_has_only_what_differs() -> None:
    layout = closing(JoinGroup("gamma", "z"))
    record = with_forests(layout, Finish("c", ()), build)
    assert record.forests is not None
    (moves,) = record.forests
    built = fold(layout, Finish("c", ()), build).domains[2].structure.forest
    told_so = fold(layout, record, none).domains[2].structure.forest
    assert (told_so.parent, told_so.primary) == (built.parent, built.primary)
    assert told_so.builder == built.builder
    assert len(moves.parents) == 1  # z has a parent now
    assert not moves.primaries


def test_records_and_layouts_of_earlier_versions_are_built_from_as_before() -> None:
    begun = fold(founded(), Begin("c", (UseBuilder("star"),)), build)
    assert fold(begun, Finish("c", ()), build).domains[2].structure.forest.builder == "star"
    assert (
        "there is no builder 'no'"
        in fold(founded(), Begin("c", (UseBuilder("no"),)), build).outcomes["c"]
    )
    parts = msgspec.msgpack.decode(pack_layout(founded()))
    assert len(parts[4][0]) == 8
    parts[4][0] = parts[4][0][:6]
    back = unpack_layout(msgspec.msgpack.encode(parts), chain)
    assert back.domains[1].structure.forest.primary["gamma"] == "e"


def test_a_layout_with_an_illegal_forest_is_no_layout() -> None:
    parts = msgspec.msgpack.decode(pack_layout(founded()))
    parts[4][0][6] = ["greedy", [[1, 1]], []]
    with pytest.raises(FrameError, match="not a layout: forest: "):
        unpack_layout(msgspec.msgpack.encode(parts), build)


def test_the_manager_says_why_when_it_proposes() -> None:
    wanted = Begin("c", (UseBuilder("no"),))
    assert with_refusal(founded(), wanted, build).refused == "there is no builder 'no'"
    assert with_refusal(founded(), Begin("c", (UseBuilder("star"),)), build).refused == ""
    refused = with_forests(closing(UseBuilder("no")), Finish("c", ()), build)
    assert refused.refused == "there is no builder 'no'"
    after = fold(closing(UseBuilder("no")), refused, none)
    assert after.outcomes["c"] == "refused when all had closed: there is no builder 'no'"


# --- very many groups -----------------------------------------------------------------------------

edits = st.one_of(
    st.builds(JoinGroup, st.sampled_from(sorted(GROUPS)), st.sampled_from(SITES)),
    st.builds(LeaveGroup, st.sampled_from(sorted(GROUPS)), st.sampled_from(SITES)),
    st.builds(AddGroup, st.sampled_from(["x", "y"]), st.lists(st.sampled_from(SITES)).map(tuple)),
    st.builds(RemoveGroup, st.sampled_from(["x", "y", "beta"])),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.one_of(edits, st.sampled_from(SITES)), max_size=12),
    st.sampled_from(
        ["propagation", "tom", "centralized", "metagroup", "ring", "arrow", "hybrid:3"]
    ),
)
def test_an_adapted_forest_is_legal_and_fits_whatever_changes(
    steps: list[Any], protocol: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forests, "MANY", 0)
        folds = Folds(build_forest)
        layout = first_layout(
            SITES, "abc", {g: tuple(m) for g, m in GROUPS.items()}, "greedy", protocol, build_forest
        )
        for number, step in enumerate(steps):
            if isinstance(step, str):  # it goes, or it returns
                away = step in layout.absent
                back = ((step, 1, 1),) if away else ()
                layout = folds.fold(layout, Entry(1, Flush(() if away else (step,), back)))
                if layout.flushing is not None:
                    opened = Open(layout.flushing.number, (), ())
                    layout = folds.fold(layout, Entry(1, folds.end(layout, opened)))
            else:
                begun = folds.begin(layout, Begin(f"c{number}", (step,)))
                layout = folds.fold(layout, Entry(1, begun))
                if layout.closing:
                    finish = folds.end(layout, Finish(f"c{number}", ()))
                    layout = folds.fold(layout, Entry(1, finish))
                    assert layout.outcomes[f"c{number}"] == ""
            check_layout(layout, none)
            for domain in layout.domains.values():
                assert not domain.refused
                inside = but(domain.structure.table, sites=domain.sites)
                parent = {site: domain.structure.forest.parent[site] for site in domain.sites}
                require_legal(inside, but(domain.structure.forest, parent=parent), Before())


def _tended(groups: int, seed: int) -> Iterator[tuple[bytes, Any, Any]]:
    """After each of some changes: the layout, the record that ended it, and the forests. Sites come
    and go, are excluded and return, and groups are added and removed."""
    rng = Random(seed)
    sites = [f"s{number:02}" for number in range(14)]
    named = {f"g{n:02}": tuple(sorted(rng.sample(sites[:10], 3))) for n in range(groups)}
    whole = rng.random() < 0.7
    layout = first_layout(
        sites, sites[:3], named, rng.choice(["greedy", "greedy", "star"]), "propagation",
        build_forest, whole=whole,
    )  # fmt: skip
    folds = Folds(build_forest)
    for number in range(12):
        site, group = rng.choice(sites), rng.choice(sorted(layout.groups))
        away = site in layout.absent
        edit: Edit = (LeaveGroup if site in layout.groups[group] else JoinGroup)(group, site)
        if rng.random() < 0.2:
            new = not layout.groups.get(f"x{number % 3}")
            members = tuple(rng.sample(sites, 2))
            edit = AddGroup(f"x{number % 3}", members) if new else RemoveGroup(f"x{number % 3}")
        begun: Any = Flush(() if away else (site,), ((site, 1, 1),) if away else ())
        if rng.random() < 0.85:
            begun = folds.begin(layout, Begin(f"c{number}", (edit,)))
        layout = folds.fold(layout, Entry(1, begun))
        record: Any = None
        if layout.flushing is not None:
            record = folds.end(layout, Open(layout.flushing.number, (), ()))
        elif layout.closing:
            record = folds.end(layout, Finish(f"c{number}", ()))
        if record is not None:
            layout = folds.fold(layout, Entry(1, record))
        trees = [(d.sites, d.structure.table, d.structure.forest) for d in layout.domains.values()]
        yield pack_layout(layout), record, trees


@pytest.mark.parametrize("seed", range(25))
def test_a_forest_tended_by_what_differs_is_the_one_tended_by_a_look_at_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forests, "MANY", 0)
    monkeypatch.setattr(forests, "_BLOCK", 4)
    few = list(_tended(9, seed))
    monkeypatch.setattr(Before, "new_sites", lambda *_: None)
    monkeypatch.setattr(Before, "tell", lambda *_: None)
    monkeypatch.setattr(changes, "_inhabited", lambda *_: None)
    assert few == list(_tended(9, seed))


_MEMBERS = st.lists(st.sampled_from(SITES), min_size=1, max_size=4, unique=True)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from("ghijk"), _MEMBERS, min_size=1),
    st.dictionaries(st.sampled_from("ghijkl"), _MEMBERS, min_size=1),
    st.data(),
)
def test_where_the_tree_stays_a_look_at_what_has_changed_finds_what_a_look_at_all_finds(
    groups: dict[str, list[str]], later: dict[str, list[str]], data: st.DataObject
) -> None:
    table, after = (GroupTable.of(each, sites=SITES) for each in (groups, {**groups, **later}))
    if data.draw(st.booleans()):
        after = GroupTable.of(later, sites=SITES)
    new = data.draw(st.lists(st.sampled_from(["m", "n"]), unique=True, max_size=2))
    if new:
        some = {"new": [*new, "a"]} if data.draw(st.booleans()) else {}
        joined = {group: [*members, *new] for group, members in later.items()} | some
        after = GroupTable.of(joined, sites=[*SITES, *new])
    forest = under_one_root(build_forest(table, "greedy", "propagation"))
    domain = Domain(1, "greedy", "propagation", Structure(1, table, forest), table.sites)
    few, every = Before([domain]), Before([domain])
    assert few.new_sites(after) == new
    every._trees = 2  # then all groups are looked at
    found = adapted(after, few, "greedy", 1, lowest=False)
    assert found is not None
    assert found == adapted(after, every, "greedy", 1, lowest=False)
    require_legal(after, found, few)
    group = data.draw(st.sampled_from(sorted(after.groups)))
    other = data.draw(st.sampled_from([*SITES, "nobody"]))
    wrong = but(found, primary={**found.primary, group: other})
    if data.draw(st.booleans()):
        site = data.draw(st.sampled_from(after.sites))
        above = data.draw(st.sampled_from([None, *after.sites]))
        wrong = but(found, parent={**found.parent, site: above})
    said = []
    for before in (few, every):
        try:
            require_legal(after, wrong, before)
            said.append("")
        except ConfigError as error:
            said.append(str(error))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "protocol", ["arrow", "combining", "hybrid", "arrow_counting", "combining_counting", "hybrid:3"]
)
def test_a_tree_of_the_swap_family_changes_beside_who_comes_or_goes(protocol: str) -> None:
    """[SWAP] §6.2: a joiner is a leaf, the heir of a leaver takes its neighbours."""
    rng, joined, left = Random(1), 0, 0
    sites = [f"s{number:02}" for number in range(16)]
    groups = {f"g{n}": tuple(sorted({sites[n], *rng.sample(sites[:12], 3)})) for n in range(12)}
    layout = first_layout(sites, sites[:3], groups, "greedy", protocol, build_forest)
    folds = Folds(build_forest)
    for number in range(40):
        before = {s: p for d in layout.domains.values() for s, p in of_domain(d).items()}
        one = len(layout.domains) == 1
        site = rng.choice(sites)
        own = [g for g, members in layout.groups.items() if site in members]
        if any(len(layout.groups[group]) < 3 for group in own):
            continue
        some = rng.sample(sorted(layout.groups), 2)
        edits: list[Edit] = [LeaveGroup(g, site) for g in own]
        edits = edits or [JoinGroup(g, site) for g in some]
        layout = folds.fold(
            layout, Entry(1, folds.begin(layout, Begin(f"c{number}", tuple(edits))))
        )
        layout = folds.fold(layout, Entry(1, folds.end(layout, Finish(f"c{number}", ()))))
        assert layout.outcomes[f"c{number}"] == ""
        if not one or len(layout.domains) > 1:
            continue  # two trees have become one, or one two
        (after,) = layout.domains.values()
        parent = of_domain(after)
        differ = {s for s in parent if s not in before or parent[s] != before[s]}
        if own:
            assert differ <= {s for s in before if before[s] == site}
            left += 1
        else:
            assert differ == {site}
            assert not after.structure.children[site]
            joined += 1
    assert min(joined, left) > 3


def of_domain(domain: Domain) -> dict[str, str | None]:
    """The parents of its own sites."""
    return {site: domain.structure.forest.parent[site] for site in domain.sites}


def test_a_forest_is_adapted_so_often_and_then_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forests, "MANY", 0)
    monkeypatch.setattr(forests, "OLD", 3)
    built: list[int] = []

    def counting(table: GroupTable, builder: str, protocol: str) -> Forest:
        built.append(len(table.groups))
        return build(table, builder, protocol)

    layout, folds, ages = founded(), Folds(counting), []
    for number in range(8):
        edit = (JoinGroup, LeaveGroup)[number % 2]("alpha", "z")
        layout = folds.fold(layout, Entry(1, folds.begin(layout, Begin(f"c{number}", (edit,)))))
        layout = folds.fold(layout, Entry(1, folds.end(layout, Finish(f"c{number}", ()))))
        ages += [domain.structure.forest.age for domain in layout.domains.values()]
    assert ages == [1, 2, 3, 0, 1, 2, 3, 0]
    assert len(built) == 1  # one serves for the beginning, the end, and the same groups again
    layout = folds.fold(layout, Entry(1, folds.begin(layout, Begin("b", (UseBuilder("star"),)))))
    layout = folds.fold(layout, Entry(1, folds.end(layout, Finish("b", ()))))
    assert {domain.structure.forest.builder for domain in layout.domains.values()} == {"star"}
    assert len(built) == 2


@pytest.mark.parametrize("founds", [False, True])
def test_a_join_makes_a_swap_tree_one_level_deeper_at_most(founds: bool) -> None:
    """As docs/swap.md has it: a joiner that founds a group for the next one makes a chain; joiners
    of a group that is there do not."""
    groups = {group: list(members) for group, members in GROUPS.items()}
    table = GroupTable.of(groups, sites=SITES)
    forest = under_one_root(build_forest(table, "balanced", "arrow"))
    heights = [_height(forest)]
    for number in range(30):
        new = f"z{number:02}"
        groups[f"own{number}" if founds else "alpha"] = [new] if founds else [*groups["alpha"], new]
        if founds and number:
            groups[f"own{number - 1}"].append(new)
        domain = Domain(1, "balanced", "arrow", Structure(1, table, forest), table.sites)
        table = GroupTable.of(groups, sites=[*table.sites, new])
        found = adapted(table, Before([domain]), "balanced", number + 1, lowest=False)
        assert found is not None
        forest = found
        heights.append(_height(forest))
    grown = [after - before for before, after in pairwise(heights)]
    assert set(grown) <= {0, 1}
    assert sum(grown) > 25 if founds else sum(grown) <= 1


def _height(forest: Forest) -> int:
    def depth(site: str | None) -> int:
        return -1 if site is None else 1 + depth(forest.parent[site])

    return max(map(depth, forest.parent))


@pytest.mark.parametrize(
    ("builder", "protocol", "anew"),
    [
        ("greedy", "propagation", 0),
        ("metagroups", "propagation", 0),
        ("metagroups_balanced", "propagation", 0),
        ("balanced", "arrow", 0),
        ("metagroups", "metagroup", 8),  # it needs the tree of just these metagroups
    ],
)
def test_a_forest_that_takes_long_to_build_is_not_built_anew_by_age(
    builder: str, protocol: str, anew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forests, "MANY", 0)
    monkeypatch.setattr(forests, "QUICK", 0)
    monkeypatch.setattr(forests, "OLD", 3)
    built: list[str] = []

    def counting(table: GroupTable, builder: str, protocol: str) -> Forest:
        built.append(builder)
        return build_forest(table, builder, protocol)

    groups = {group: tuple(members) for group, members in GROUPS.items()}
    layout = first_layout(SITES, "abc", groups, builder, protocol, build_forest)
    for number in range(8):
        folds = Folds(counting)  # each remembers the forest that it built last
        edit = (JoinGroup, LeaveGroup)[number % 2]("alpha", "z")
        layout = folds.fold(layout, Entry(1, folds.begin(layout, Begin(f"c{number}", (edit,)))))
        layout = folds.fold(layout, Entry(1, folds.end(layout, Finish(f"c{number}", ()))))
        assert layout.outcomes[f"c{number}"] == ""
    (domain,) = layout.domains.values()
    assert len(built) == anew
    assert domain.structure.forest.age == (0 if anew else 8)
    assert domain.structure.forest.builder == builder
    folds = Folds(counting)
    asked = UseBuilder("star" if protocol == "propagation" else builder)
    layout = folds.fold(layout, Entry(1, folds.begin(layout, Begin("b", (asked,)))))
    layout = folds.fold(layout, Entry(1, folds.end(layout, Finish("b", ()))))
    (domain,) = layout.domains.values()
    assert (built[-1], domain.structure.forest.age) == (asked.builder, 0)


pairs = st.sampled_from([(a, b) for a in SITES for b in SITES if a < b])


def broken(domain: Domain, apart: set[Pair]) -> list[Pair]:
    """The edges of the domain's tree over links that are broken."""
    parent = domain.structure.forest.parent
    edges = [pair(site, above) for site in domain.sites if (above := parent[site]) is not None]
    return [edge for edge in edges if edge in apart]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(edits, min_size=1, max_size=4),
    st.sets(pairs, max_size=6),
    st.sampled_from(["propagation", "tom", "centralized", "metagroup", "two_phase", "ring"]),
)
def test_a_forest_round_broken_links_is_legal_and_has_no_more_of_them(
    steps: list[Any], apart: set[Pair], protocol: str
) -> None:
    groups = {group: tuple(members) for group, members in GROUPS.items()}
    layout = first_layout(SITES, "abc", groups, "greedy", protocol, build_forest)
    folds = Folds(build_forest)
    for number, step in enumerate(steps):
        layout = folds.fold(layout, Entry(1, folds.begin(layout, Begin(f"c{number}", (step,)))))
        if layout.closing:
            usual = folds.fold(layout, Entry(1, folds.end(layout, Finish(f"c{number}", ()))))
            record = folds.end(layout, Finish(f"c{number}", ()), apart)
            layout = folds.fold(layout, Entry(1, record))
            assert layout.outcomes[f"c{number}"] == ""
            for epoch, domain in layout.domains.items():
                assert not domain.refused
                assert len(broken(domain, apart)) <= len(broken(usual.domains[epoch], apart))
        check_layout(layout, none)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("policy", ["wait", "exclude"])
def test_the_next_epoch_avoids_a_link_that_is_broken(policy: str, protocol: str) -> None:
    world = World({"all": SITES[:5]}, SITES, SITES[:3], policy=policy, protocol=protocol)
    world.run(3 * SECOND)
    tree = next(iter(world.members["a"].layout.domains.values()))
    parent = tree.structure.forest.parent
    child, above = next((site, above) for site, above in parent.items() if above is not None)
    for site, peer in ((child, above), (above, child)):
        world.members[site].detoured = (peer,)
    world.run(world.now + SECOND)
    world.ask("e", "wider", JoinGroup("all", "z"))
    world.run(world.now + SECOND)
    for site in SITES:
        world.submit(site, "all", site.encode())
    world.settle()
    assert (world.quiet(), world.judge(), world.outcomes) == (True, [], {"wider": ""})
    domain = next(iter(world.members["z"].layout.domains.values()))
    assert domain.protocol == protocol
    left = [pair(child, above)] if protocol in ("tom", "metagroup") else []
    assert broken(domain, {pair(child, above)}) == left
