"""How long a site's own messages take, by stage."""

from ordercast.core.epochs.admission import Reservation
from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import StageReached
from ordercast.model.messages import Batch
from ordercast.net.site.meters.latencies import EVERY_NS, MOST_WAITING, Latencies

GROUPS = {"alpha": ("a", "b"), "beta": ("b", "c")}


def meter() -> Latencies:
    found = Latencies("a", 1)
    found.follow(GROUPS, 1)
    return found


def batch(seq: int, group: str = "alpha", count: int = 1) -> Reservation:
    return Reservation(group, (), seq, [b"x"] * count, 1)


def own(seq: int, count: int = 1, incarnation: int = 1) -> Batch:
    return Batch("a", incarnation, "alpha", seq, count, b"")


def counts(found: Latencies) -> tuple[int, int, int]:
    told = found.told()
    return told["ordered"]["count"], told["stable"]["count"], told["delivered"]["count"]


def test_a_message_is_timed_to_each_stage() -> None:
    found = meter()
    found.sent(0, batch(1, count=5))
    found.received([StageReached("ordered", "alpha", 1, 5)], 3_000_000)
    found.delivered(own(1, 5), 30_000_000)
    found.received([StageReached("stable", "alpha", 1, 5)], 300_000_000)
    assert counts(found) == (1, 1, 1)
    told = found.told()
    assert [told[stage]["sum_s"] for stage in told] == [0.003, 0.3, 0.03]
    assert [bound for bound, count in told["ordered"]["buckets"] if count] == [0.004]
    assert not found.waits()


def test_one_message_in_ten_milliseconds_is_timed_and_a_stall_keeps_its_weight() -> None:
    found = meter()
    for turn in range(100):  # one batch each millisecond; nothing is ordered for 100 ms
        found.sent(turn * EVERY_NS // 10, batch(turn + 1))
    assert counts(found) == (0, 0, 0)
    found.received([StageReached("ordered", "alpha", 1, 100)], 10 * EVERY_NS)
    told = found.told()["ordered"]
    assert told["count"] == 10
    assert told["sum_s"] == sum(range(1, 11)) / 100


def test_a_batch_that_is_offered_again_is_timed_once_from_the_first_offer() -> None:
    found = meter()
    found.sent(0, batch(1))
    found.sent(5 * EVERY_NS, batch(1))
    found.received([StageReached("ordered", "alpha", 1, 1)], 6 * EVERY_NS)
    assert found.told()["ordered"]["count"] == 1
    assert found.told()["ordered"]["sum_s"] == 0.06


def test_only_a_member_waits_for_its_own_delivery() -> None:
    found = meter()
    found.sent(0, batch(1, "beta"))
    found.received([StageReached("ordered", "beta", 1, 1), StageReached("stable", "beta", 1, 1)], 1)
    assert not found.waits()


def test_what_never_comes_is_forgotten() -> None:
    refused, removed, reborn, passed = meter(), meter(), meter(), meter()
    for found in (refused, removed, reborn, passed):
        found.sent(0, batch(3))
    refused.received([StageReached(REFUSED, "alpha", 2, 1)], 1)
    removed.follow({"beta": ("b", "c")}, 1)
    reborn.follow(GROUPS, 2)
    for found in (refused, removed, reborn):
        assert not found.waits()
        assert counts(found) == (0, 0, 0)
    passed.delivered(own(4, incarnation=2), 1)  # of another life
    assert passed.told()["delivered"]["count"] == 0
    passed.delivered(own(4), 1)  # 3 was never seen: shed, or before a rollback
    assert passed.told()["delivered"]["count"] == 0
    passed.received([StageReached("ordered", "alpha", 3, 1)], 1)
    passed.received([StageReached("stable", "alpha", 3, 1)], 1)
    assert not passed.waits()


def test_in_a_long_stall_the_oldest_messages_are_kept() -> None:
    found = meter()
    for turn in range(MOST_WAITING + 10):
        found.sent(turn * EVERY_NS, batch(turn + 1))
    found.received([StageReached("ordered", "alpha", 1, 1 << 30)], MOST_WAITING * EVERY_NS)
    assert found.told()["ordered"]["count"] == MOST_WAITING
