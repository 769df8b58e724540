"""A majority judges who is silent; of two sites that do not hear each other one goes, once."""

from collections.abc import Iterable, Sequence
from functools import partial

import pytest

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.raft import VotingTimes
from ordercast.core.epochs.silence.pauses import Pauses
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import Fed, Knock
from support.worlds.epochs import World

SITES = "abcde"
SUSPECT = 300 * MILLISECOND  # of the world
LASTING = 8 * SUSPECT  # a pair is apart for longer than six timeouts by then, and noticed


def world(policy: str = "exclude", **more: object) -> World:
    """One group of five sites, with all of them as voters and a manager."""
    made = World({"all": SITES}, SITES, SITES, policy=policy, **more)  # type: ignore[arg-type]
    made.run(3 * SECOND)
    return made


def manager(made: World) -> Member:
    (found,) = (member for member in made.members.values() if member.manager.leads)
    return found


def break_links(made: World, *pairs: str) -> None:
    made.cut = {frozenset(pair) for pair in pairs}


def talk(made: World, seconds: float, sites: Iterable[str] = SITES) -> None:
    """Every site sends now and then."""
    for _ in range(int(seconds * 5)):
        for site in sites:
            made.submit(site, "all", b"x")
        made.run(made.now + SECOND // 5)


def absent(made: World) -> list[str]:
    return list(manager(made).layout.absent)


def test_a_site_that_the_manager_alone_does_not_hear_is_not_excluded() -> None:
    """The transport has six timeouts to find a way through a third site."""
    made = world()
    name = manager(made).name
    other = "e" if name != "e" else "d"
    break_links(made, name + other)
    epoch = manager(made).layout.last_epoch
    made.run(made.now + 4 * SUSPECT)
    assert manager(made).manager.apart() == [tuple(sorted((name, other)))]
    break_links(made)
    made.run(made.now + 4 * SUSPECT)
    assert (manager(made).layout.last_epoch, absent(made)) == (epoch, [])
    assert manager(made).manager.apart() == []


def test_it_is_excluded_if_that_lasts_and_the_manager_stays() -> None:
    made = world()
    name = manager(made).name
    other = "e" if name != "e" else "d"
    break_links(made, name + other)
    made.run(made.now + LASTING)
    assert (manager(made).name, absent(made)) == (name, [other])


def test_a_site_that_does_not_hear_the_manager_is_excluded_even_if_the_manager_hears_it() -> None:
    made = world()
    name = manager(made).name
    other = "e" if name != "e" else "d"
    made.deaf = {(name, other)}
    made.run(made.now + LASTING + 2 * SECOND)  # it is lonely first, and knocks then
    assert (manager(made).name, absent(made)) == (name, [other])


def test_a_site_that_failed_is_excluded_as_soon_as_it_was_when_the_manager_judged_alone() -> None:
    made = world()
    gone = "e" if manager(made).name != "e" else "d"
    made.down.add(gone)
    made.crash(gone)
    begun = made.now
    while not absent(made):
        made.run(made.now + MILLISECOND)
    assert SUSPECT - 51 * MILLISECOND < made.now - begun < SUSPECT + 60 * MILLISECOND


def test_a_manager_that_failed_is_excluded_as_soon_as_any_other_site() -> None:
    """Its silence is counted once: not until there is another manager, and then again."""
    made = world(make=partial(Member, times=VotingTimes.within(SUSPECT)))
    name = manager(made).name
    made.down.add(name)
    made.crash(name)
    made.run(made.now + SUSPECT + 60 * MILLISECOND)
    assert absent(made) == [name]


@pytest.mark.parametrize("one_way", [False, True])
@pytest.mark.parametrize("protocol", ["propagation", "symmetric"])
def test_of_two_that_do_not_hear_each_other_one_goes_once_and_the_rest_go_on(
    protocol: str, one_way: bool
) -> None:
    made = world(protocol=protocol, builder="star")
    a, b = sorted(site for site in SITES if site != manager(made).name)[:2]
    if one_way:
        made.deaf = {(a, b)}
    else:
        break_links(made, a + b)
    talk(made, LASTING / SECOND)
    assert absent(made) == [b]
    epoch = manager(made).layout.last_epoch
    rest = [site for site in SITES if site != b]
    before = {site: len(made.seen[site]) for site in rest}
    talk(made, 6, rest)
    assert (absent(made), manager(made).layout.last_epoch) == ([b], epoch)
    assert all(len(made.seen[site]) - before[site] > 100 for site in rest)
    made.cut, made.deaf = set(), set()
    made.run(made.now + 2 * SECOND)
    assert (absent(made), manager(made).layout.last_epoch) == ([], epoch + 1)


def test_the_one_goes_that_is_apart_from_more_sites_and_a_voter_stays() -> None:
    made = World({"all": "abcdef"}, "abcdef", "abc", policy="exclude", protocol="symmetric")
    made.run(3 * SECOND)
    assert manager(made).name == "a"
    break_links(made, "bd", "de")
    talk(made, LASTING / SECOND, "abcdef")
    assert absent(made) == ["d"]
    break_links(made, "bf")
    talk(made, LASTING / SECOND + 1, "abcdef")
    assert absent(made) == ["f"]


def test_of_two_absent_sites_that_are_apart_one_returns() -> None:
    made = World({"all": SITES}, SITES, "abc", policy="exclude", protocol="symmetric")
    made.run(3 * SECOND)
    made.partition("de")
    made.run(made.now + 2 * SECOND)
    assert absent(made) == ["d", "e"]
    break_links(made, "de")
    talk(made, 4 * LASTING / SECOND)
    assert absent(made) == ["e"]
    break_links(made)
    talk(made, 40 * SUSPECT / SECOND)
    assert absent(made) == []


def test_under_wait_nobody_goes_and_the_two_are_named() -> None:
    made = world("wait", protocol="symmetric")
    a, b = sorted(site for site in SITES if site != manager(made).name)[:2]
    break_links(made, a + b)
    talk(made, LASTING / SECOND)
    assert absent(made) == []
    assert manager(made).manager.apart() == [(a, b)]
    assert all(not m.manager.apart() for m in made.members.values() if not m.manager.leads)
    break_links(made)
    talk(made, 2)
    assert manager(made).manager.apart() == []


def test_a_voter_that_does_not_hear_the_leader_deposes_it_not() -> None:
    made = world()
    name, term = manager(made).name, manager(made).raft.term
    other = "e" if name != "e" else "d"
    break_links(made, name + other)
    made.run(made.now + 8 * SECOND)
    assert (manager(made).name, manager(made).raft.term) == (name, term)
    assert made.members[other].layout.absent == {other: 1}  # another voter has told it


def test_in_calm_nobody_knocks_and_a_dead_site_is_knocked_at_seldom() -> None:
    made = world()
    sent: list[object] = []
    transmit = made._transmit

    def listened(site: str, sends: Sequence[tuple[str, object]]) -> None:
        sent.extend(frame for _, frame in sends)
        transmit(site, sends)

    made._transmit = listened  # type: ignore[method-assign]
    talk(made, 2)
    assert not any(isinstance(frame, Knock) for frame in sent)
    assert not any(isinstance(frame, Fed) and frame.silent for frame in sent)
    gone = "e" if manager(made).name != "e" else "d"
    made.down.add(gone)
    made.crash(gone)
    made.run(made.now + 2 * SECOND)
    sent.clear()
    made.run(made.now + 10 * SECOND)
    knocks = sum(isinstance(frame, Knock) for frame in sent)
    assert 0 < knocks <= 3 * 2 * (10 * SECOND // SUSPECT + 1)  # three voters, twice in a timeout


def test_a_slow_member_goes_and_returns_less_and_less_often() -> None:
    made = world(slow_member="exclude")
    slow = "e" if manager(made).name != "e" else "d"
    made.hold(slow, held=True)
    epoch = manager(made).layout.last_epoch
    talk(made, 20)
    # Each time it is slow for four timeouts, then waits for 2, 4, 8, 16 timeouts: 66 in all.
    assert 5 <= manager(made).layout.last_epoch - epoch <= 11


def test_a_pause_doubles_up_to_a_limit_and_begins_anew_after_a_long_stay() -> None:
    pauses, now, took = Pauses(20), 0, []
    for _ in range(9):
        pauses.begin(now, "a")
        until = next(at for at in range(now, now + 10_000) if pauses.over(at, "a"))
        took.append(until - now)
        now = until + 1
    assert took == [20, 40, 80, 160, 320, 640, 1280, 1280, 1280]
    assert pauses.over(now, "b")
    pauses.begin(now + 4 * 1280 + 1, "a")
    assert pauses.over(now + 4 * 1280 + 21, "a")
    pauses.begin(now + 9_000, "a", returned=False)  # the flush that should let it back never ended
    assert not pauses.over(now + 9_000 + 39, "a")


@pytest.mark.parametrize(
    ("groups", "goes"),
    [({"g": "abc", "h": "xy"}, "x"), ({"g": "abc"}, "b")],
    ids=["of another domain", "in no group"],
)
def test_an_origin_outside_that_is_apart_from_a_site_stops_nobody(
    groups: dict[str, str], goes: str
) -> None:
    made = World(groups, "abcxy", "abc", policy="exclude", protocol="two_phase")
    made.run(3 * SECOND)
    assert manager(made).name == "a"
    break_links(made, "bx")
    for _ in range(100):
        for site in "abcx":
            made.submit(site, "g", site.encode())
        made.run(made.now + SECOND // 5)
    before = len(made.seen["c"])
    assert before > 100
    made.run(made.now + SECOND)
    assert absent(made) == [goes]
    break_links(made)
    made.run(made.now + 140 * SUSPECT)
    made.settle()
    assert (absent(made), made.quiet(), made.judge()) == ([], True, [])
    assert sum(payload == b"x" for _, _, payload in made.seen["c"]) > 0
