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
