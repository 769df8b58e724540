"""Whoever takes a batch asks whether its origin may send (docs/epochs.md, "Who may send")."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ordercast.core.epochs.grant_edits import MOST_WITHDRAWN, granted, senders_in
from ordercast.core.epochs.layout import Domain, Layout, first_layout
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.records import REFUSED
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.senders import Senders
from ordercast.model.epochs import Edit, Grant, JoinGroup, LeaveGroup, UseGrants, Withdraw
from ordercast.model.errors import NotGranted
from ordercast.model.features import GRANTS
from ordercast.model.grants import EVERY, SEND, SITE, ClientSubject, GrantText, grants_told
from ordercast.model.options import MILLISECOND, SECOND
from support.worlds.epochs import World, build

SITES = ["a", "b", "c", "d"]
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"]}
APART = {"alpha": ["a", "b", "c"], "beta": ["d"]}  # epochs of alpha close without d
TABLE = UseGrants((("site:*", ("admin:*", "send:beta")), ("site:a", ("send:alpha",))))


class ChangedProgram(Member):
    """A member that asks nobody whether it may send."""

    def domain(self, group: str, members: Sequence[str]) -> Domain:
        return self.layout.taking(self.name, group, members)


def program(changed: str) -> type[Member]:
    def make(name: str, *rest: object, **more: object) -> Member:
        kind = ChangedProgram if name == changed else Member
        return kind(name, *rest, **more)  # type: ignore[arg-type]

    return make  # type: ignore[return-value]


def delivered(world: World, payload: bytes) -> list[str]:
    return [site for site in SITES if any(seen[2] == payload for seen in world.seen[site])]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize("liar", ["b", "d"])
def test_a_changed_program_gets_nothing_taken_that_its_site_may_not_send(
    protocol: str, liar: str
) -> None:
    world = World(GROUPS, SITES, ["a", "b", "c"], protocol=protocol, make=program(liar))
    world.run(SECOND)
    world.ask("a", "table", TABLE)
    world.run(2 * SECOND)
    world.submit("a", "alpha", b"granted")
    world.run(4 * SECOND)
    assert delivered(world, b"granted") == ["a", "b", "c"]
    world.submit(liar, "alpha", b"not granted")
    world.run(8 * SECOND)
    assert delivered(world, b"not granted") in (
        [],
        [liar],
    )  # what it tells itself is its own affair
    takers = [world.members[site] for site in SITES if site != liar]
    assert (liar, "alpha") in [pair for taker in takers for pair in taker.ungranted()]
    assert world.violations == []  # and nobody is cut off for it
    world.ask("a", "grant", Grant(f"site:{liar}", ("send:alpha",)))
    world.settle()
    assert delivered(world, b"not granted") == ["a", "b", "c"]
    assert world.judge() == []


@pytest.mark.parametrize("protocol", ["propagation", "two_phase"])
def test_what_waits_for_a_grant_is_taken_with_the_grant_and_not_when_it_is_sent_again(
    protocol: str,
) -> None:
    """It has waited for so long that its origin sends it again every few seconds only."""
    world = World(GROUPS, SITES, ["a", "b", "c"], protocol=protocol, make=program("d"))
    world.run(SECOND)
    world.ask("a", "table", TABLE)
    world.run(2 * SECOND)
    world.submit("d", "alpha", b"waits")
    world.run(8 * SECOND)
    world.ask("a", "grant", Grant("site:d", ("send:alpha",)))
    world.run(world.now + 200 * MILLISECOND)
    assert delivered(world, b"waits") == ["a", "b", "c"]


def test_without_asking_it_would_be_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Senders, "allow", lambda *_: True)
    world = World(GROUPS, SITES, ["a", "b", "c"], make=program("d"))
    world.run(SECOND)
    world.ask("a", "table", TABLE)
    world.run(2 * SECOND)
    world.submit("d", "alpha", b"not granted")
    world.run(4 * SECOND)
    assert delivered(world, b"not granted") == ["a", "b", "c"]


def test_what_was_accepted_before_a_grant_went_is_taken_in_that_epoch_and_refused_in_the_next() -> (
    None
):
    world = World(APART, SITES, ["a", "b", "c"], deliver="agreed")
    world.run(SECOND)
    world.ask("a", "table", TABLE)
    world.ask("a", "grant", Grant("site:d", ("send:alpha",)))
    world.run(3 * SECOND)
    world.partition(["d"])
    for payload in (b"one", b"two"):
        world.submit("d", "alpha", payload)
    world.ask("a", "withdraw", Withdraw("site:d", ("send:alpha",)))
    world.run(4 * SECOND)
    world.cut.clear()
    world.run(7 * SECOND)  # without faults: `settle` would end them for good
    assert delivered(world, b"two") == ["a", "b", "c"]  # the epoch is the same
    world.ask("a", "again", Grant("site:d", ("send:alpha",)))
    world.run(world.now + 2 * SECOND)
    world.partition(["d"])
    world.submit("d", "alpha", b"three")
    world.ask("a", "withdraw again", Withdraw("site:d", ("send:alpha",)))
    world.run(world.now + SECOND)
    world.ask("a", "an epoch", LeaveGroup("alpha", "b"))
    world.run(world.now + SECOND)
    world.cut.clear()
    world.settle()
    assert delivered(world, b"three") == []
    assert REFUSED in world.stages["d", "alpha", 3]
    assert world.judge() == []
    with pytest.raises(NotGranted, match=r"site:d has no grant send:alpha"):
        world.members["d"].submit(world.now, "alpha", [b"four"])
    world.ask("a", "the third", Grant("site:d", ("send:alpha",)))
    world.settle()
    world.submit("d", "alpha", b"five")
    world.settle()
    assert delivered(world, b"five") == ["a", "c"]
    assert world.judge() == []


class Honest(World):
    """Sites send what their newest table lets them, and begin with the table of their files."""

    def submit(self, site: str, group: str, *payloads: bytes) -> None:
        member = self.members.get(site)
        if member is not None:
            grants = member.layout.grants
            grants = grants if grants.lines is not None else grants_told(TABLE.lines)
            if grants.allows(ClientSubject(SITE, site), SEND, group):
                super().submit(site, group, *payloads)


def schedule(seed: int) -> Honest:
    draw = random.Random(f"senders {seed}")
    policy, groups = draw.choice(["wait", "exclude"]), draw.choice([GROUPS, APART])
    world = Honest(
        groups, SITES, ["a", "b", "c"], seed=seed, loss=draw.choice([0.0, 0.1, 0.3]),
        crash=draw.choice([0.0, 0.002]), deliver=draw.choice(["safe", "agreed"]),
        protocol=draw.choice(sorted(PROTOCOLS)), policy=policy, burst=draw.choice([0.0, 0.3]),
    )  # fmt: skip
    world.run(SECOND)
    world.ask("a", "table", TABLE)
    world.run(world.now + 500 * MILLISECOND)
    for step in range(24):
        site, group = draw.choice(SITES), draw.choice(["alpha", "beta"])
        if draw.random() < 0.3:
            acts = (f"send:{group}",)
            asker = draw.choice(["a", "b", "c"])
            subject = f"site:{site}"
            grants: list[Edit] = [Grant(subject, acts), Withdraw(subject, acts)]
            world.ask(asker, f"grants {step}", draw.choice(grants))
        elif draw.random() < 0.15:
            edits: list[Edit] = [JoinGroup(group, "b"), LeaveGroup(group, "b")]
            world.ask("a", f"epoch {step}", draw.choice(edits))
        elif draw.random() < 0.1:
            world.partition([draw.choice(SITES)])
            world.at(world.now + 400 * MILLISECOND, world.cut.clear)
        for number in range(draw.randrange(4)):
            sender = draw.choice(SITES)
            world.submit(sender, draw.choice(["alpha", "beta"]), f"{step}.{number}".encode())
        world.run(world.now + draw.randrange(300) * MILLISECOND)
    world.cut.clear()
    world.settle(120 * SECOND)
    return world


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_no_honest_site_waits_for_good_while_grants_change_under_way(first: int) -> None:
    for seed in range(first, first + 10):
        world = schedule(seed)
        assert world.quiet(), seed
        assert world.judge() == [], seed


# --- the table of an epoch ------------------------------------------------------------------------


def layout() -> Layout:
    made = first_layout(
        SITES, ["a"], {g: tuple(m) for g, m in GROUPS.items()}, "greedy", "propagation", build
    )
    return replace(made, features=(GRANTS,))


def may(of: Layout, epoch: int, site: str, group: str) -> bool:
    found = senders_in(of, epoch)
    return found is None or found.may_send(site, group, ())


def test_who_may_send_is_what_a_line_for_the_site_its_socket_or_some_client_says() -> None:
    rows: list[tuple[tuple[GrantText, ...], dict[str, list[str]]]] = [
        ((("site:a", ("send:x*",)),), {"a": ["x1"], "b": []}),
        ((("site:*", ("send:x1",)), ("site:b", ("send:y",))), {"a": ["x1"], "b": ["x1", "y"]}),
        ((("client:shop", ("send:y",)), ("site:a", ("read:*",))), {"a": ["y"], "b": ["y"]}),
        ((("socket", ("send:*",)),), {"a": ["x1", "y"], "b": ["x1", "y"]}),
        ((("socket", ("admin:*",)),), {"a": [], "b": []}),
    ]
    for lines, sends in rows:
        table = granted(layout(), [UseGrants(lines)])
        for site, groups in sends.items():
            assert [g for g in ("x1", "y") if may(table, 1, site, g)] == groups, (lines, site)


def test_lists_of_sites_need_the_grant_for_all_groups() -> None:
    assert not Senders([("a", "alpha")]).may_send("a", "@0123", ("a", "b"))
    assert Senders([("a", EVERY)]).may_send("a", "@0123", ("a", "b"))


def test_a_grant_that_is_gone_counts_in_the_epochs_that_were_open_and_in_no_later_one() -> None:
    table = granted(layout(), [TABLE])
    assert not may(table, 1, "d", "alpha")  # the founding's table binds at once
    for _ in range(3):
        table = granted(table, [Grant("site:d", ("send:alpha",))])
        table = granted(table, [Withdraw("site:d", ("send:alpha",))])
    assert table.withdrawn == {("d", "alpha"): table.last_epoch}
    table = unpack_layout(pack_layout(table), build)
    assert may(table, table.last_epoch, "d", "alpha")
    assert not may(table, table.last_epoch + 1, "d", "alpha")
    assert not granted(table, [Grant("site:d", ("send:alpha",))]).withdrawn


def test_very_many_withdrawals_in_one_epoch_let_everything_pass_there_and_are_bounded() -> None:
    table = granted(layout(), [TABLE])
    for number in range(MOST_WITHDRAWN + 5):
        table = granted(table, [Grant("site:d", (f"send:g{number}",))])
        table = granted(table, [Withdraw("site:d", (f"send:g{number}",))])
    assert len(table.withdrawn) <= 10
    assert may(table, table.last_epoch, "d", "alpha")
    assert not may(table, table.last_epoch + 1, "d", "alpha")
