"""What faults in force do to frames."""

from ordercast.sim.conditions import Conditions
from ordercast.sim.faults import Fault
from ordercast.sim.injections import Injection

MS = 1_000_000


def fates(conditions: Conditions, times: int, now: int = 0, link: str = "ab") -> list[list[int]]:
    return [conditions.fates(now, link[0], link[1], now + MS) for _ in range(times)]


def test_without_faults_every_frame_arrives_once_in_time() -> None:
    assert fates(Conditions((), 1), 3) == [[MS]] * 3


def test_loss_loses_its_share() -> None:
    conditions = Conditions((Fault("loss", probability=0.3),), 1)
    lost = sum(not fate for fate in fates(conditions, 2000))
    assert 520 < lost < 680
    assert conditions.injected == {"loss": lost}


def test_a_doubled_frame_arrives_twice_and_a_replayed_one_much_later_again() -> None:
    (doubled,) = fates(Conditions((Fault("duplicate", probability=1.0),), 1), 1)
    assert doubled[0] == MS
    assert MS <= doubled[1] <= 6 * MS
    (replayed,) = fates(Conditions((Fault("replay", probability=1.0),), 1), 1)
    assert replayed[0] == MS
    assert 51 * MS <= replayed[1] <= 2_001 * MS


def test_reordered_frames_are_held_back() -> None:
    drawn = fates(Conditions((Fault("reorder", probability=1.0),), 1), 100)
    assert len({fate[0] for fate in drawn}) > 90
    assert all(MS <= fate[0] <= 21 * MS for fate in drawn)


def test_a_piece_acts_in_its_window_and_on_its_sites_only() -> None:
    piece = Fault("loss", probability=1.0, start=10, stop=20, sites=("c",))
    conditions = Conditions((piece,), 1)
    assert fates(conditions, 1, now=15, link="ac") == [[]]
    assert fates(conditions, 1, now=15, link="cb") == [[]]
    assert fates(conditions, 1, now=15, link="ab") != [[]]
    assert fates(conditions, 1, now=9, link="ac") != [[]]
    assert fates(conditions, 1, now=20, link="ac") != [[]]


def test_a_partition_cuts_both_ways_until_it_heals() -> None:
    conditions = Conditions((), 1)
    conditions.inject(Injection(0, "partition", ("a",), ("b", "c")))
    assert [fates(conditions, 1, link=link) for link in ("ab", "ca", "bc")] == [[[]], [[]], [[MS]]]
    conditions.inject(Injection(5, "heal", ("a",), ("b", "c")))
    assert fates(conditions, 1, link="ab") == [[MS]]


def test_partitions_that_overlap_heal_one_by_one() -> None:
    conditions = Conditions((), 1)
    conditions.inject(Injection(0, "partition", ("a",), ("b",)))
    conditions.inject(Injection(0, "partition", ("a",), ("b",)))
    conditions.inject(Injection(0, "heal", ("a",), ("b",)))
    assert fates(conditions, 1, link="ab") == [[]]


def test_an_asymmetric_partition_cuts_one_way() -> None:
    conditions = Conditions((), 1)
    conditions.inject(Injection(0, "oneway", ("a",), ("b",)))
    assert fates(conditions, 1, link="ab") == [[]]
    assert fates(conditions, 1, link="ba") == [[MS]]


def test_a_clogged_link_lets_its_frames_through_when_it_is_released() -> None:
    conditions = Conditions((), 1)
    conditions.inject(Injection(0, "clog", ("a",), ("b",), until=50 * MS))
    assert all(50 * MS <= fate[0] <= 51 * MS for fate in fates(conditions, 20, link="ab"))
    assert fates(conditions, 1, link="ba") == [[MS]]
    assert fates(conditions, 1, now=50 * MS, link="ab") == [[51 * MS]]


def test_frames_from_and_to_a_slow_site_take_longer_until_it_is_swift() -> None:
    conditions = Conditions((), 1)
    conditions.inject(Injection(0, "slow", ("a",), amount=10 * MS))
    for link in ("ab", "ba"):
        assert max(fate[0] for fate in fates(conditions, 50, link=link)) > 5 * MS
    assert fates(conditions, 1, link="bc") == [[MS]]
    conditions.inject(Injection(0, "swift", ("a",), amount=10 * MS))
    assert fates(conditions, 1, link="ab") == [[MS]]


def test_calm_ends_everything() -> None:
    conditions = Conditions((Fault("loss", probability=1.0),), 1)
    conditions.inject(Injection(0, "partition", ("a",), ("b",)))
    conditions.inject(Injection(0, "clog", ("a",), ("b",), until=50 * MS))
    conditions.inject(Injection(0, "slow", ("a",), amount=10 * MS))
    conditions.calm()
    assert fates(conditions, 5) == [[MS]] * 5


def severed(kind: str, *links: str, sites: str = "abcd", notice: int = 10 * MS) -> Conditions:
    conditions = Conditions((), 1, sites=tuple(sites), notice=notice)
    for link in links:
        conditions.inject(Injection(0, kind, (link[0],), (link[1],)))
    return conditions


def test_frames_of_a_severed_link_go_through_a_third_site_when_that_is_noticed() -> None:
    conditions = severed("cut", "ab")
    assert fates(conditions, 1, link="ab") == [[]]
    assert fates(conditions, 1, now=9 * MS, link="ab") == [[]]
    assert fates(conditions, 1, now=10 * MS, link="ab") == [[12 * MS]]  # two hops
    assert fates(conditions, 1, now=20 * MS, link="ba") == [[22 * MS]]
    assert fates(conditions, 1, link="ac") == [[MS]]
    conditions.calm()
    assert conditions.last
    assert fates(conditions, 1, now=30 * MS, link="ab") == [[32 * MS]]


def test_a_link_severed_one_way_still_carries_the_other_way() -> None:
    conditions = severed("cut_one_way", "ab")
    assert fates(conditions, 1, link="ab") == [[]]
    assert fates(conditions, 1, link="ba") == [[MS]]
    assert fates(conditions, 1, now=10 * MS, link="ab") == [[12 * MS]]


def test_frames_stay_in_order_on_their_way_round() -> None:
    conditions = severed("cut", "ab", notice=0)
    assert conditions.fates(0, "a", "b", 10 * MS) == [20 * MS]
    assert conditions.fates(9 * MS, "a", "b", 10 * MS) == [20 * MS]


def test_without_a_third_site_that_hears_both_frames_are_lost() -> None:
    conditions = severed("cut", "ab", "ac", "bd", notice=0)
    assert fates(conditions, 1, now=50 * MS, link="ab") == [[]]
    assert conditions.injected == {"cut": 3, "blocked": 1}
    assert not conditions.joined("a", "b")
    assert conditions.joined("a", "c")  # through d
    assert severed("cut_one_way", "ab", "ac", "db", notice=0).third("a", "b") is None


def test_if_the_third_site_fails_another_one_is_found_after_a_while() -> None:
    conditions = severed("cut", "ab")
    down: list[str] = []
    conditions.is_up = lambda site: site not in down
    fates(conditions, 1, link="ab")
    assert fates(conditions, 1, now=10 * MS, link="ab") == [[12 * MS]]
    down.append("c")
    assert fates(conditions, 1, now=20 * MS, link="ab") == [[]]
    assert fates(conditions, 1, now=30 * MS, link="ab") == [[32 * MS]]  # through d
    conditions.inject(Injection(0, "partition", ("d",), ("a", "b", "c")))
    assert fates(conditions, 1, now=40 * MS, link="ab") == [[]]
    assert conditions.third("a", "b") is None
