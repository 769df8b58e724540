"""What one site says of itself and of others, again and again, stops nobody for long."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ordercast.core.epochs.member import Member
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import Fed
from support.worlds.epochs import World

SITES = "abcde"
LIAR = "c"
SUSPECT = 300 * MILLISECOND  # of the world


def world(voters: str = SITES, groups: str = SITES, **more: object) -> World:
    made = World({"all": groups}, SITES, voters, policy="exclude", **more)  # type: ignore[arg-type]
    made.run(3 * SECOND)
    assert manager(made).name == "a"
    return made


def manager(made: World) -> Member:
    (found,) = (member for member in made.members.values() if member.manager.leads)
    return found


def lie(made: World, **said: object) -> dict[str, object]:
    """From now on every report of the liar says this. It may be changed."""
    transmit = made._transmit

    def lying(site: str, sends: Sequence[tuple[str, object]]) -> None:
        if site == LIAR:
            sends = [
                (peer, replace(frame, **said) if isinstance(frame, Fed) else frame)
                for peer, frame in sends
            ]
        transmit(site, sends)

    made._transmit = lying  # type: ignore[method-assign]
    return said


def honest_loads(made: World, seconds: float) -> tuple[set[str], int]:
    """All but the liar send for so long. Who was absent at any time, and how many epochs there
    were."""
    absent: set[str] = set()
    before = manager(made).layout.last_epoch
    for _ in range(int(seconds * 2)):
        for site in SITES:
            if site != LIAR:
                made.submit(site, "all", b"x")
        made.run(made.now + SECOND // 2)
        absent |= set(manager(made).layout.absent)
    return absent, manager(made).layout.last_epoch - before


def everything_arrived(made: World) -> bool:
    return all(len(made.seen[s]) == len(made.seen["a"]) > 50 for s in SITES if s != LIAR)


@pytest.mark.parametrize(
    ("voters", "named"), [("abc", "e"), ("abde", "e"), (SITES, "be"), (SITES, "a")]
)
def test_a_site_that_calls_another_silent_alone_is_the_one_to_go(voters: str, named: str) -> None:
    made = world(voters)
    lie(made, silent=tuple(named))
    absent, epochs = honest_loads(made, 15)
    assert (absent, epochs) == ({LIAR}, 1)
    assert everything_arrived(made)


def test_two_that_both_say_so_are_taken_to_be_apart_and_one_alone_is_not_after_a_while() -> None:
    """It does not go while it may only be the first of the two to notice."""
    made = world()
    said = lie(made, silent=("e",))
    made.run(made.now + 5 * SUSPECT)
    assert manager(made).manager.apart() == [("c", "e")]
    assert manager(made).layout.absent == {}
    said["silent"] = ()
    made.run(made.now + 10 * SUSPECT)
    assert (manager(made).manager.apart(), manager(made).layout.absent) == ([], {})


def test_an_absent_site_is_kept_out_by_its_own_word_and_not_for_good_by_anothers() -> None:
    made = world("abd")
    said = lie(made, silent=("e",))
    made.crash("e", 5 * SECOND)
    honest_loads(made, 15)
    assert set(manager(made).layout.absent) == {LIAR}
    assert everything_arrived(made)
    said["silent"] = ()
    made.settle()
    assert manager(made).layout.absent == {}
    assert made.judge() == []


def test_nobody_is_called_slow_where_slow_members_are_waited_for() -> None:
    made = world()
    lie(made, slow=("e",))
    assert honest_loads(made, 6) == (set(), 0)


def test_where_slow_members_are_excluded_one_sites_word_has_one_out_less_and_less_often() -> None:
    made = world(slow_member="exclude")
    said = lie(made, slow=("e",))
    absent, epochs = honest_loads(made, 20)
    assert absent == {"e"}
    assert epochs <= 11  # two for each time: it waits for 2, 4, 8, 16, 32 timeouts
    said["slow"] = ()
    made.settle()
    assert made.judge() == []


def test_a_site_that_always_says_that_it_has_restarted_is_out_longer_and_longer() -> None:
    made = world()
    lie(made, stopped=True)
    absent, epochs = honest_loads(made, 15)
    more = honest_loads(made, 20)[1]
    assert absent == {LIAR}
    assert epochs <= 36  # at most six for each time
    assert more <= 12
    assert everything_arrived(made)


@pytest.mark.parametrize("groups", [SITES, "abde"], ids=["a member", "in no group"])
def test_a_site_that_always_waits_for_a_stranger_closes_epochs_less_and_less_often(
    groups: str,
) -> None:
    made = world("abd", groups)
    lie(made, awaited=("nobody",), stopped=LIAR not in groups)
    _, epochs = honest_loads(made, 10)
    more = honest_loads(made, 20)[1]
    assert epochs <= 14  # each pause is twice as long
    assert more <= 2
    assert everything_arrived(made)


def test_a_site_that_restarts_a_few_times_at_once_is_not_excluded() -> None:
    made = world()
    for _ in range(4):
        made.crash("e", 20 * MILLISECOND)
        made.run(made.now + 100 * MILLISECOND)
        assert manager(made).layout.absent == {}
    honest_loads(made, 6)
    assert manager(made).layout.absent == {}
    made.settle()
    assert made.judge() == []


def test_who_says_that_it_keeps_too_much_has_absent_sites_join_anew_and_no_more() -> None:
    """Nobody else knows what it keeps. They join anew, as after too long an absence."""
    made = world("abd", missed_bytes=1 << 20)
    said = lie(made, shelved=2**60)
    made.crash("e", 5 * SECOND)
    honest_loads(made, 10)
    said.clear()
    made.settle()
    layout = manager(made).layout
    assert (layout.absent, layout.lapsed) == ({}, ())
    assert "all" in made.opened["e"][-1].joined
    assert made.judge() == []
