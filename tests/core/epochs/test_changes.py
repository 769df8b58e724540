"""Planned changes of a domain ([GS] §5.1): what each does, and what it leaves alone."""

from functools import partial
from unittest.mock import patch

import pytest

from ordercast.core.epochs import changes
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    AddVoter,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveVoter,
    RetireSite,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.errors import CrossDomain, UnknownGroup
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.cases.epoch_schedules import schedule
from support.worlds import epochs
from support.worlds.epochs import World

SITES = ["a", "b", "c", "d", "x", "y", "z"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["x", "y"]}


def busy(*changes: tuple[int, Edit]) -> World:
    """All sites send to all groups; changes at so many milliseconds after the first second."""
    world = World(GROUPS, SITES, ["a", "c", "x"])
    for number in range(60):
        site, group = SITES[number % 7], sorted(GROUPS)[number % 3]
        world.at(
            SECOND + number * 10 * MILLISECOND,
            lambda s=site, g=group, n=number: world.submit(s, g, b"%d" % n),  # type: ignore[misc]
        )
    for number, (after, edit) in enumerate(changes):
        world.at(
            SECOND + after * MILLISECOND,
            lambda n=number, e=edit: world.ask("d", f"change {n}", e),  # type: ignore[misc]
        )
    world.run(3 * SECOND)
    world.settle()
    assert world.judge() == []
    assert len(world.outcomes) == len(changes)
    return world


@pytest.mark.parametrize(
    "edit",
    [
        JoinGroup("alpha", "z"),
        JoinGroup("alpha", "x"),  # merges two domains
        LeaveGroup("beta", "c"),  # splits one
        AddGroup("delta", ("d", "z")),
        RemoveGroup("beta"),
        RetireSite("b"),
        UseBuilder("star"),
        UseProtocol("centralized"),
        UseProtocol("hybrid:2"),
        UseProtocol("hybrid:1:2"),
    ],
    ids=lambda edit: type(edit).__name__ + getattr(edit, "site", ""),
)
def test_a_change_under_load_loses_doubles_and_reorders_nothing(edit: Edit) -> None:
    world = busy((200, edit))
    assert world.outcomes == {"change 0": ""}
    assert all(stages >= {"accepted"} for stages in world.stages.values())


def test_a_joiner_sees_the_epoch_that_admits_it_and_nothing_before() -> None:
    world = busy((200, JoinGroup("alpha", "z")))
    (opened,) = world.opened["z"]
    assert opened.position == 0
    assert opened.groups == ("alpha",)
    assert {epoch for epoch, _, _ in world.seen["z"]} == {opened.epoch}


def test_other_domains_do_not_notice() -> None:
    world = busy((200, JoinGroup("alpha", "z")))
    assert world.opened["x"] == []
    assert {epoch for epoch, _, _ in world.seen["x"]} == {2}


def test_several_changes_in_a_row_are_done_one_after_the_other() -> None:
    world = busy(
        (100, JoinGroup("alpha", "z")),
        (101, JoinGroup("beta", "a")),
        (102, LeaveGroup("alpha", "b")),
        (103, UseProtocol("centralized", "c")),
    )
    assert set(world.outcomes.values()) == {""}
    epochs = [opened.epoch for opened in world.opened["a"]]
    assert len(epochs) == 4
    assert epochs == sorted(epochs)


def test_changes_of_different_domains_go_on_beside_each_other() -> None:
    world = busy((100, UseBuilder("star", "a")), (100, UseBuilder("star", "x")))
    assert set(world.outcomes.values()) == {""}


def test_a_merged_domain_orders_the_messages_of_both() -> None:
    world = busy((200, AddGroup("bridge", ("d", "x"))))
    layout = world.members["a"].layout
    assert len(layout.domains) == 1
    (domain,) = layout.domains.values()
    assert set(domain.structure.groups) == {"alpha", "beta", "gamma", "bridge"}


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (JoinGroup("alpah", "z"), "there is no group 'alpah' (did you mean 'alpha'?)"),
        (JoinGroup("alpha", "q"), "there is no site 'q'"),
        (JoinGroup("alpha", "a"), "site 'a' is in group 'alpha' already"),
        (LeaveGroup("alpha", "z"), "site 'z' is not in group 'alpha'"),
        (AddGroup("alpha", ("a",)), "group 'alpha' is there already"),
        (AddSite("a"), "site 'a' is there already"),
        (RetireSite("a"), "site 'a' is a voter: first remove it from the voters"),
        (UseProtocol("centralised"), "there is no protocol 'centralised' (did you mean"),
        (
            UseProtocol("hybrid:0"),
            "there is no protocol 'hybrid:0': hybrid:N has a core of N sites",
        ),
        (UseProtocol("hybrid:02"), "there is no protocol 'hybrid:02': hybrid:N has a core of N"),
        (UseProtocol("hybrid:2:"), "there is no protocol 'hybrid:2:': hybrid:N has a core of N"),
        (UseProtocol("hybrid:2:0"), "there is no protocol 'hybrid:2:0': hybrid:N has a core of N"),
        (UseBuilder("starr"), "there is no builder 'starr'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_impossible_change_is_refused_and_changes_nothing(edit: Edit, why: str) -> None:
    world = busy((200, edit))
    assert world.outcomes["change 0"].startswith(why)
    assert {epoch for seen in world.seen.values() for epoch, _, _ in seen} <= {1, 2}


def test_all_sites_killed_at_once_go_on_where_they_were() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"], seed=3)
    for number in range(40):
        world.at(
            SECOND + number * 5 * MILLISECOND,
            lambda n=number: world.submit(SITES[n % 7], "alpha", b"%d" % n),  # type: ignore[misc]
        )
    world.at(SECOND + 90 * MILLISECOND, lambda: world.ask("b", "join", JoinGroup("alpha", "z")))
    world.run(SECOND + 95 * MILLISECOND)  # in the middle of the change
    assert any(member.layout.closing for member in world.members.values())
    for site in SITES:
        world.crash(site)
    world.run(3 * SECOND)
    world.settle()
    assert world.judge() == []
    assert world.opened["z"]


def test_the_manager_suspects_a_site_that_is_away_and_nobody_else() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.run(2 * SECOND)
    (manager,) = [member for member in world.members.values() if member.manager.leads]
    assert manager.manager.suspects(world.now) == []
    world.crash("d", away=5 * SECOND)
    world.run(4 * SECOND)
    assert manager.manager.suspects(world.now) == ["d"]
    others = [member for member in world.members.values() if member is not manager]
    assert all(member.manager.suspects(world.now) == [] for member in others)
    world.run(9 * SECOND)
    assert manager.manager.suspects(world.now) == []


def test_a_site_added_later_sends_to_a_domain_that_was_there_before() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.run(SECOND)
    world.add("q")
    world.ask("d", "add", AddSite("q"))
    world.run(3 * SECOND)
    assert world.outcomes == {"add": ""}
    world.submit("q", "alpha", b"from outside")
    world.settle()
    assert world.judge() == []
    assert world.opened["a"] == []  # the domain did not notice
    assert [payload for _, _, payload in world.seen["a"]] == [b"from outside"]


def test_who_is_held_and_who_is_congested_are_so_in_the_next_epoch_too() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.run(SECOND)
    world.members["z"].hold(world.now, held=True)
    world.members["z"].congest(world.now, "a", congested=True)
    world.ask("x", "join", JoinGroup("alpha", "z"))
    world.run(3 * SECOND)
    (engine,) = world.members["z"].engines.values()
    assert engine.flow.held
    assert engine.links["a"].congested


def test_a_voter_that_lost_its_store_is_admitted_and_votes_again() -> None:
    world = World(GROUPS, SITES, ["a", "x", "z"])
    world.run(SECOND)
    world.crash("z", away=SECOND // 10)
    world.disks["z"], world.stores["z"] = [], 77
    world.run(3 * SECOND)
    stores = world.members["a"].raft.log.stores()
    assert stores["z"] == 77
    assert {member.layout.roster["z"] for member in world.members.values()} == {2}
    world.crash("x", away=20 * SECOND)
    world.run(6 * SECOND)
    world.ask("b", "join", JoinGroup("alpha", "d"))
    world.run(8 * SECOND)
    assert world.outcomes == {"join": ""}
    world.settle()
    assert world.judge() == []


def test_two_that_add_a_group_of_the_same_name_are_done_one_after_the_other() -> None:
    world = busy((100, AddGroup("new", ("z",))), (100, AddGroup("new", ("y",))))
    assert sorted(world.outcomes.values()) == ["", "group 'new' is there already"]


def test_a_manager_that_is_far_behind_begins_with_the_snapshot() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"], log_entries=2)
    world.run(SECOND)
    (first,) = [name for name, member in world.members.items() if member.manager.leads]
    behind, other = sorted({"a", "c", "x"} - {first})
    world.partition([behind])
    for number in range(6):
        world.ask(other, f"{number}", UseBuilder(["star", "greedy"][number % 2], "y"))
        world.run(world.now + SECOND // 2)
    assert world.members[first].raft.log.snapshot.upto > world.members[behind].layout.count
    world.partition([])
    world.run(world.now + SECOND // 4)  # the log's snapshot is there, perhaps before the records
    world.crash(first, away=10 * SECOND)
    world.crash(other, away=3 * SECOND)
    world.run(world.now + 8 * SECOND)
    world.ask(behind, "last", JoinGroup("alpha", "z"))
    world.settle()
    assert world.judge() == []
    assert world.outcomes["last"] == ""


# 2439: a crash between the record that finished a change and what was delivered for it.
# 4454, 4912: a restart placed again what it had placed first in the new epoch.
# 5384: the first manager crashed before anybody had its first record.
# 10058: a restart counted positions twice in a domain that went on while another changed.
@pytest.mark.parametrize("seed", [*range(12), 2439, 4454, 4912, 5384, 10058, 15396])
def test_random_changes_under_faults(seed: int) -> None:
    world = schedule(seed)
    assert world.judge() == [], f"seed {seed}"


def test_voters_come_and_go_one_at_a_time_and_a_former_one_can_be_retired() -> None:
    world = busy(
        (100, AddVoter("z")),
        (101, RemoveVoter("a")),
        (102, RemoveVoter("x")),
        (400, RetireSite("a")),
    )
    assert set(world.outcomes.values()) == {""}
    stores = {s: m.raft.log.stores() for s, m in world.members.items() if m.raft.log.last}
    assert stores["z"] == stores["c"] == {"c": 3, "z": 7}
    assert all(m.layout.voters == ("c", "z") for m in world.members.values())
    assert world.members["z"].layout.roster["z"] == 1  # its store is the one it had


def test_the_only_voter_stays() -> None:
    world = busy((100, RemoveVoter("a")), (101, RemoveVoter("c")), (102, RemoveVoter("x")))
    assert sorted(world.outcomes.values())[:2] == ["", ""]
    assert max(world.outcomes.values()).endswith("is the only voter")


@pytest.mark.parametrize("proposed", [False, True])
def test_a_pending_voter_that_never_ran_is_taken_back_by_its_removal(proposed: bool) -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.run(SECOND)
    world.ask("a", "site", AddSite("n"))
    world.run(2 * SECOND)
    world.ask("a", "add", AddVoter("n"))
    if proposed:
        world.run(4 * SECOND)
        assert world.members["a"].layout.voters == ("a", "c", "n", "x")
        world.ask("b", "next", AddVoter("z"))  # it waits its turn
        world.run(5 * SECOND)
    world.ask("c", "remove", RemoveVoter("n"))
    world.settle()
    back = "taken back: the site was removed from the voters before it had become one"
    then = {"next": ""} if proposed else {}
    assert world.outcomes == {"site": "", "add": back, "remove": "", **then}
    voters = ("a", "c", "x", "z") if proposed else ("a", "c", "x")
    assert {member.layout.voters for member in world.members.values()} == {voters}
    assert world.judge() == []


def test_with_causal_order_all_groups_are_one_domain_and_lists_still_may_not_cross_it() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"], causal=True)
    member = world.members["a"]
    (domain,) = member.layout.domains.values()
    assert set(domain.structure.groups) == set(GROUPS)
    with pytest.raises(CrossDomain, match="no one domain"):
        member.submit_to(0, ["a", "x"], [b""])
    assert member.submit_to(0, ["a", "d"], [b""])


def test_a_site_that_was_told_nothing_yet_can_neither_send_nor_change_anything() -> None:
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.add("new")
    member = world.members["new"]
    with pytest.raises(UnknownGroup, match="not admitted yet"):
        member.submit(0, "alpha", [b""])
    world.run(3 * SECOND)
    assert "new" not in member.layout.roster
    assert set(member.layout.groups) == set(GROUPS)  # it is told, all the same


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_owed_to_an_origin_that_is_retired(protocol: str) -> None:
    """x is gone before it has heard what became of its messages."""
    with patch.object(epochs, "build", build_forest):
        world = World({"g": "abc"}, "abcx", "abc", protocol=protocol)
        world.run(SECOND)
        world.submit("x", "g", b"1")
        while world.seen["a"] == []:
            world.run(world.now + MILLISECOND // 5)
        world.down.add("x")
        world.crash("x", 60 * SECOND)
        world.run(world.now + SECOND)
        owing = [m for m in world.members.values() if not m.quiet()]
        world.ask("a", "retire", RetireSite("x"))
        world.settle(30 * SECOND)
    assert owing
    assert world.outcomes == {"retire": ""}
    assert world.judge() == []


def test_what_a_retired_origin_was_accepted_for_before_is_still_placed() -> None:
    """Its link has numbers from before: they count on."""
    world = World(GROUPS, SITES, ["a", "c", "x"])
    for number in range(6):  # placed before it goes
        world.at(SECOND, partial(world.submit, "z", "alpha", b"%d" % number))

    def submit_and_retire() -> None:
        world.cut = {frozenset(("z", site)) for site in SITES if site not in "zx"}
        world.submit("z", "alpha", b"late")
        world.ask("x", "retire", RetireSite("z"))

    world.at(2 * SECOND, submit_and_retire)
    world.at(3 * SECOND, lambda: world.partition([]))
    world.run(4 * SECOND)
    world.settle()
    assert world.outcomes == {"retire": ""}
    assert world.judge() == []
    assert [payload for _, message, payload in world.seen["a"]][-1] == b"late"


def test_what_a_former_manager_was_asked_for_is_not_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The outcome of the change is forgotten when that site is the manager again."""
    monkeypatch.setattr(changes, "_OUTCOMES", 2)
    world = World(GROUPS, SITES, ["a", "c", "x"])
    world.run(SECOND)
    (first,) = [name for name, member in world.members.items() if member.manager.leads]
    group, member = ("alpha", "z") if first == "x" else ("gamma", "z")  # of another domain
    world.partition([first])
    for site in (first, "z"):
        world.ask(site, "join", JoinGroup(group, member))
    world.run(world.now + 5 * SECOND)
    world.partition([])
    world.run(world.now + 2 * SECOND)
    assert world.outcomes == {"join": ""}
    others: list[Edit] = [UseBuilder("star"), UseBuilder("greedy"), UseBuilder("star")]
    for number, edit in enumerate([LeaveGroup(group, member), *others]):
        world.ask("z", f"change {number}", edit)
        world.run(world.now + 2 * SECOND)
    for _ in range(20):
        (manager,) = [name for name, one in world.members.items() if one.manager.leads]
        if manager == first:
            break
        world.crash(manager, away=SECOND)
        world.run(world.now + 3 * SECOND)
    assert world.members[first].manager.leads
    world.settle()
    assert world.judge() == []
    assert member not in world.members["z"].layout.groups[group]
