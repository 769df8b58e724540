"""Causal order at `safe` through failures: each rule of docs/epochs.md by a run that needs it, and
with the mutant that lacks it."""

from unittest.mock import patch

import pytest

from ordercast.model.epochs import RetireSite
from ordercast.model.errors import NotInMajority
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.sim.members import build_forest
from support.cases.exclude_schedules import drawn_world
from support.mutants.exclusion import (
    Patches,
    another_group_overtakes,
    in_force,
    nobody_stands_in,
    others_overtake_what_waits,
)
from support.worlds import epochs
from support.worlds.epochs import World


def world_of(
    groups: dict[str, str], sites: str, voters: str, protocol: str = "propagation"
) -> World:
    world = World(groups, sites, voters, policy="exclude", causal=True, protocol=protocol)
    world.run(SECOND)
    return world


def payloads(world: World, site: str) -> list[bytes]:
    return [payload for _, _, payload in world.seen[site]]


def placed_apart(protocol: str = "propagation") -> World:
    """s is absent; without it g and h have no member in common, and are placed at different sites.
    a has delivered "cause" when it sends "effect"."""
    groups = {"k": "ra", "l": "rb", "g": "as", "h": "bs"}
    world = world_of(groups, "rabsv", "rva", protocol)
    world.crash("s", 60 * SECOND)
    world.run(world.now + SECOND)
    assert sorted(world.members["r"].layout.absent) == ["s"]
    for number in range(3):
        world.submit("r", "k", b"%d" % number)
    world.run(world.now + SECOND)
    world.submit("a", "g", b"cause")
    world.run(world.now + SECOND)
    assert payloads(world, "a")[-1] == b"cause"
    world.submit("a", "h", b"effect")
    world.run(world.now + SECOND)
    return world


def protocols(world: World) -> dict[str, str]:
    """Of the open epoch: as each site has it."""
    return {
        site: domain.protocol
        for site, member in world.members.items()
        for domain in member.layout.domains.values()
    }


@pytest.mark.parametrize("protocol", ["propagation", "metagroup", "tom", "two_phase", "ring"])
def test_who_catches_up_gets_a_cause_before_its_effect(protocol: str) -> None:
    with patch.object(epochs, "build", build_forest):
        world = placed_apart(protocol)
        world.start("s")
        world.settle()
    assert world.judge() == []
    assert payloads(world, "s") == [b"cause", b"effect"]


def test_otherwise_it_would_get_them_in_the_order_of_their_keys() -> None:
    with in_force(nobody_stands_in()):
        world = placed_apart()
        world.start("s")
        world.settle()
    assert payloads(world, "s") == [b"effect", b"cause"]
    assert [found[0] for found in world.judge()] == ["causal"]


def test_one_site_places_all_while_somebody_is_away() -> None:
    world = placed_apart()
    assert set(protocols(world).values()) == {"centralized"}
    world.start("s")
    world.settle()
    assert set(protocols(world).values()) == {"propagation"}


def test_and_no_longer_than_an_operator_counts_on_it() -> None:
    world = placed_apart()
    world.down.add("s")
    world.ask("r", "retire", RetireSite("s"))
    world.settle()
    assert world.outcomes["retire"] == ""
    assert set(protocols(world).values()) == {"propagation"}


def waiting_behind() -> World:
    """What r sent to g waits for s and a, which are both away; then r sends to l."""
    world = world_of({"k": "rb", "l": "rbs", "g": "as"}, "rabsv", "rvb")
    world.partition(["a", "s"])
    world.submit("r", "g", b"waits")
    world.run(world.now + 2 * SECOND)
    assert sorted(world.members["r"].layout.frozen) == ["g"]
    return world


def test_nothing_overtakes_what_waits_for_absent_sites() -> None:
    world = waiting_behind()
    with pytest.raises(NotInMajority, match="in causal order: behind what waits for g, absent"):
        world.members["r"].submit(world.now, "l", [b"overtakes"])
    world.submit("b", "l", b"another's")
    world.partition([])
    world.run(world.now + 2 * SECOND)
    world.submit("r", "l", b"follows")
    world.settle()
    assert world.judge() == []
    assert payloads(world, "s") == [b"another's", b"waits", b"follows"]


def test_otherwise_it_would_be_delivered_later_than_what_followed() -> None:
    with in_force(others_overtake_what_waits()):
        world = waiting_behind()
        world.submit("r", "l", b"overtakes")
        world.run(world.now + SECOND)
        world.partition([])
        world.settle()
    assert [found[0] for found in world.judge()] == ["causal"]


def drawn(seed: int) -> World:
    def make(*given: object, **options: object) -> World:
        return World(*given, **{**options, "causal": True, "deliver": "safe"})  # type: ignore[arg-type]

    world = drawn_world(seed, make_world=make)
    world.run(5 * SECOND)
    world.settle()
    return world


CAUGHT = {another_group_overtakes: 8, others_overtake_what_waits: 0}


@pytest.mark.parametrize("mutant", CAUGHT)
def test_schedules_catch_what_overtakes(mutant: type[Patches]) -> None:
    assert drawn(CAUGHT[mutant]).judge() == []
    with in_force(mutant()):
        assert {found[0] for found in drawn(CAUGHT[mutant]).judge()} == {"causal"}


@pytest.mark.parametrize("causal", [False, True])
def test_a_domain_whose_sites_were_all_away_goes_on_with_its_protocol(causal: bool) -> None:
    with patch.object(epochs, "build", build_forest):
        world = World({"g": "ab"}, "abvwx", "vwx", policy="exclude", protocol="ring", causal=causal)
        world.run(SECOND)
        for site in "ab":
            world.crash(site, 2 * SECOND)
        world.run(world.now + SECOND)
        assert not world.members["v"].layout.domains
        world.run(world.now + 3 * SECOND)
        world.submit("a", "g", b"again")
        world.run(world.now + 50 * MILLISECOND)
        world.settle()
    assert world.judge() == []
    assert set(protocols(world).values()) == {"ring"}
