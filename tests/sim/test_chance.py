"""Streams of randomness: reproducible, independent by purpose, integers only."""

from ordercast.sim.chance import ONE, Chance, threshold


def test_the_same_seed_and_purpose_give_the_same_numbers() -> None:
    one, other = Chance(7, "network"), Chance(7, "network")
    assert [one.bits(64) for _ in range(20)] == [other.bits(64) for _ in range(20)]


def test_purposes_and_seeds_give_streams_of_their_own() -> None:
    drawn = [
        tuple(stream.bits(32) for _ in range(4))
        for stream in (Chance(7, "network"), Chance(7, "faults"), Chance(8, "network"))
    ]
    assert len(set(drawn)) == 3


def test_the_first_numbers_are_these_on_every_machine() -> None:
    stream = Chance(1, "network")
    assert [stream.below(1000) for _ in range(6)] == [760, 593, 56, 285, 851, 192]


def test_below_covers_its_range_and_no_more() -> None:
    stream = Chance(1, "test")
    assert {stream.below(5) for _ in range(300)} == {0, 1, 2, 3, 4}
    assert {stream.between(3, 4) for _ in range(50)} == {3, 4}


def test_a_probability_of_one_always_hits_and_of_zero_never() -> None:
    stream = Chance(1, "test")
    assert threshold(1.0) == ONE
    assert all(stream.chance(1.0) for _ in range(100))
    assert not any(stream.chance(0.0) for _ in range(100))


def test_a_shuffle_keeps_all_items_and_is_not_the_identity() -> None:
    stream = Chance(1, "test")
    drawn = stream.shuffled(range(20))
    assert sorted(drawn) == list(range(20))
    assert drawn != list(range(20))


def test_exponential_gaps_have_their_mean_their_median_and_their_tail() -> None:
    stream = Chance(1, "test")
    drawn = sorted(stream.exponential(1_000_000) for _ in range(20_000))
    assert abs(sum(drawn) / len(drawn) / 1e6 - 1) < 0.03
    assert abs(drawn[10_000] / 1e6 - 0.6931) < 0.03  # ln 2
    assert abs(drawn[19_000] / 1e6 - 2.9957) < 0.15  # ln 20
