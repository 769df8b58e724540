"""The stability protocols: nothing is called stable before all have it, and in the end all is."""

import pytest

from ordercast.core.stability.arrays import LogArray, LogCounts
from ordercast.core.stability.protocols import PROTOCOLS, part_named
from ordercast.core.stability.rounds import InfoMessage, RoundHost, RoundMessage, RoundPaths
from ordercast.core.stability.seat import difference
from ordercast.model.errors import ConfigError
from support.mutants.stability import MUTANTS, parts_of
from support.worlds.stability_rounds import Chaos, Group, b_ary, lock_step

RUNS = 60
MUTANT_RUNS = 60


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_called_stable_before_all_have_it(protocol: str) -> None:
    """Messages are lost, doubled and overtaken, data arrives meanwhile, and rounds begin before
    others end. What all had when a round began is known to be stable at its end, and after the
    last round everyone knows exactly what is."""
    ended = 0
    for seed in range(RUNS):
        run = Chaos(protocol, seed)
        assert run.run() == [], f"{protocol}, seed {seed}"
        ended += sum(part.told for part in run.group.parts.values())
    assert ended > 2 * RUNS  # rounds did end while all that happened


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_protocol_is_caught(name: str) -> None:
    protocol, mutant = MUTANTS[name]
    found = [Chaos(protocol, seed, parts_of(mutant)).run() for seed in range(MUTANT_RUNS)]
    assert any(found), f"{name} survived {MUTANT_RUNS} runs"


def test_there_are_at_least_eight_mutants_and_some_of_every_protocol() -> None:
    assert len(MUTANTS) >= 8
    assert {protocol for protocol, _ in MUTANTS.values()} == set(PROTOCOLS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_of_one_knows_at_once(protocol: str) -> None:
    group = Group(protocol, b_ary(2, 0))
    group.members[1].array = (7,)
    lock_step(group)
    assert group.ends == {1: (7,)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_round_that_cannot_finish_is_followed_by_one_that_does(protocol: str) -> None:
    group = Group(protocol, b_ary(3, 2))
    group.begin()
    group.taken()  # all of it is lost
    for name, member in group.members.items():
        member.array = tuple(range(name, name + 13))
    lock_step(group)
    assert group.ends == dict.fromkeys(group.members, tuple(range(1, 14)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_round_ends_once_however_often_its_messages_come(protocol: str) -> None:
    ends: list[int] = []
    group = Group(protocol, b_ary(2, 2))
    for member in group.members.values():
        member.told = lambda name, _: ends.append(name)
    group.begin()
    while sent := group.taken():
        for each in [*sent, *sent]:
            for name in group.targets(each):
                group.parts[name].receive(each.source, each.message)
    assert sorted(ends) == list(range(1, 8))


def test_in_full_dist_rows_of_later_rounds_serve_for_earlier_ones() -> None:
    """The first member's rows run ahead of another's: there are never all of one round."""
    group = Group("full_dist", b_ary(2, 1))
    one = group.parts[2]
    for number in range(1, 6):
        group.members[2].array = (number,)
        one.receive(1, InfoMessage(number, (number,)))
        one.receive(2, InfoMessage(number, (number,)))
        if number > 3:
            one.receive(3, InfoMessage(number - 3, (9,)))
            assert one.told == number - 3
            assert one.awaited() == [3]
    assert group.ends == {2: (5,)}


def test_an_unknown_protocol_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no stability protocol 's_coord' \(did you mean 's_coo"):
        part_named("s_coord")


@pytest.mark.parametrize(
    ("ring", "children"),
    [
        ([1, 2, 3], {1: [2]}),  # 3 hangs nowhere
        ([1, 2, 3], {1: [2, 3], 2: [3]}),  # twice
        ([1, 2], {1: [2], 2: [1]}),  # the root below its child
        ([1, 2], {1: [2, 9]}),  # 9 is no member
    ],
)
def test_a_layout_is_a_tree_of_its_members(ring: list[int], children: dict[int, list[int]]) -> None:
    with pytest.raises(ValueError, match=r"tree"):
        RoundPaths(ring, children)


class _Site(RoundHost[str, LogArray]):
    """A site of overlapping groups, on a network that delivers at once and in order."""

    def __init__(self, name: str, counts: dict[str, int], post: "list[_Post]") -> None:
        self.name = name
        self.counts = counts
        self.post = post
        self.known: LogArray = {}

    def received(self) -> LogArray:
        return {group: (count, count, 1, self.name) for group, count in self.counts.items()}

    def send(self, peer: str, message: RoundMessage[LogArray]) -> None:
        self.post.append((self.name, [peer], message))

    def multicast(self, message: RoundMessage[LogArray]) -> None:
        self.post.append((self.name, ["a", "b", "c"], message))

    def stable(self, array: LogArray) -> None:
        self.known = array


_Post = tuple[str, list[str], RoundMessage[LogArray]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_protocols_track_overlapping_groups(protocol: str) -> None:
    """Arrays by group: alpha is in a and b, beta in b and c, gamma in c alone."""
    logs = {"a": {"alpha": 5}, "b": {"alpha": 3, "beta": 9}, "c": {"beta": 4, "gamma": 8}}
    post: list[_Post] = []
    layout = RoundPaths(["a", "b", "c"], {"a": ["b"], "b": ["c"]})
    sites = {name: _Site(name, counts, post) for name, counts in logs.items()}
    parts = {
        name: part_named(protocol)(name, layout, LogCounts(), site) for name, site in sites.items()
    }
    parts["a"].begin()
    while post:
        source, targets, message = post.pop(0)
        for target in targets:
            parts[target].receive(source, message)
    for site in sites.values():
        assert site.known == {
            "alpha": (3, 3, 2, "b"), "beta": (4, 4, 2, "c"), "gamma": (8, 8, 1, "c"),
        }  # fmt: skip


def test_an_entry_says_how_many_members_are_in_it_and_who_is_last() -> None:
    counts = LogCounts()
    some = counts.least(
        [{"alpha": (5, 4, 1, "a")}, {"alpha": (3, 3, 1, "b"), "beta": (2, 0, 1, "b")}]
    )
    assert some == {"alpha": (3, 3, 2, "b"), "beta": (2, 0, 1, "b")}
    before = {"alpha": (3, 3, 2, "a"), "beta": (1, 0, 1, "b")}
    told = difference(some, before)
    assert told == {"beta": (2, 0, 1, "b")}, "who is last among equals is no news"
    assert counts.size(some) == len("alphabeta") + len("bb") + 24
