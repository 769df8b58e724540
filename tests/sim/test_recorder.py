"""Invariants at each delivery, and the rows of the history."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ordercast.history.order_key import order_key
from ordercast.history.rows import Meta
from ordercast.model.messages import Delivery, Key, MessageId
from ordercast.sim.recorder import Recorder
from support.worlds.standin import delivery


def checks(*deliveries: Delivery) -> list[str]:
    recorder = Recorder(("a",), 1)
    for number, item in enumerate(deliveries):
        recorder.saw(number, "a", [item])
    return [violation.check for violation in recorder.violations]


def test_growing_keys_without_holes_are_fine() -> None:
    assert checks(delivery(1), delivery(2, counter=5), delivery(3, counter=6)) == []


def test_a_hole_in_the_positions_is_a_violation() -> None:
    assert checks(delivery(1), delivery(3)) == ["positions"]
    assert checks(delivery(2)) == ["positions"]


def test_a_key_that_does_not_grow_is_a_violation() -> None:
    assert checks(delivery(1, counter=5), delivery(2, counter=4)) == ["keys"]
    assert checks(delivery(1, seq=1, counter=5), delivery(2, seq=3, counter=5)) == ["keys"]


def test_the_messages_of_a_batch_share_a_key_and_follow_on() -> None:
    assert checks(delivery(1, seq=4, counter=5), delivery(2, seq=5, counter=5)) == []


def test_the_same_delivery_again_is_recorded_once() -> None:
    recorder = Recorder(("a",), 1)
    recorder.saw(0, "a", [delivery(1), delivery(2)])
    recorder.saw(9, "a", [delivery(1), delivery(2), delivery(3)])
    assert recorder.violations == []
    assert [(at, item.position) for at, item in recorder.seen["a"]] == [(0, 1), (0, 2), (9, 3)]


def test_another_message_where_one_was_seen_is_a_violation() -> None:
    assert checks(delivery(1), delivery(2), delivery(2, seq=9)) == ["redelivery"]
    other_bytes = replace(delivery(2), payload=b"y")
    assert checks(delivery(1), delivery(2), other_bytes) == ["redelivery"]


def test_a_violation_names_site_time_and_both_deliveries() -> None:
    recorder = Recorder(("a",), 1)
    recorder.saw(7, "a", [delivery(1, counter=5), delivery(2, counter=4)])
    (violation,) = recorder.violations
    assert violation._asdict() == {
        "check": "keys",
        "witness": {
            "site": "a",
            "at_ns": 7,
            "delivery": {
                "position": 2,
                "epoch": 1,
                "message": ["a", 1, "g", 2],
                "key": [[0, 4], "a"],
            },
            "other": {"position": 1, "epoch": 1, "message": ["a", 1, "g", 1], "key": [[0, 5], "a"]},
        },
    }


def test_rows_hold_what_was_delivered_where_and_when() -> None:
    recorder = Recorder(("a",), 1)
    recorder.saw(7, "a", [delivery(1)])
    (row,) = recorder.history([], [], Meta()).deliveries
    assert (row.site, row.position, row.attempt, row.epoch) == ("a", 1, 1, 1)
    assert row.id == MessageId("a", 1, "g", 1)
    assert row.delivered_ns == 7
    assert row.order_key == order_key(Key((0, 1), "a"))


paths = st.lists(st.integers(-5, 3), max_size=6).map(tuple)
keys = st.builds(Key, paths, st.sampled_from(["a", "aa", "b"]))


@given(keys, keys)
def test_encoded_keys_sort_bytewise_as_keys_do(one: Key, other: Key) -> None:
    assert (one < other) == (order_key(one) < order_key(other))
    assert (one == other) == (order_key(one) == order_key(other))
