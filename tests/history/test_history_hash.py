"""Digests and the hash of a history: what they depend on, and what not."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordercast.history.digest import digest, history_hash
from ordercast.history.rows import Delivered, Event, History, Meta, gap_detail, gap_message
from ordercast.model.messages import MessageId
from support.cases.faults import any_history
from support.cases.fuzz import right_history
from support.harness.commands import under_hash_seeds

FIXED = History(
    deliveries=[Delivered("a", 1, 1, 1, "alpha", "x", 1, 1, 10, digest(b"hello"), b"\x01")],
    events=[Event("a", 1, "end", 1, 1, 1, 20)],
)


def test_digests_and_hashes_are_fixed_for_ever() -> None:
    assert digest(b"") == -1970711489451281740
    assert digest(b"hello") == -6361636117772159875
    expected = "c1cac0c069c690969b8f955643732f1c5b883ba92bfee7f1dd0d10f61eaa25e3"
    assert history_hash(FIXED) == expected


def test_a_row_of_a_client_has_a_hash_of_its_own_and_other_rows_keep_theirs() -> None:
    """Rows were encoded without the last three fields before there were any."""
    asked = replace(FIXED.deliveries[0], client="ab" * 16, request=1, part=0)
    one = History(deliveries=[asked], events=FIXED.events)
    assert history_hash(one) != history_hash(FIXED)
    assert history_hash(one) == "1a38b8f822fcadd97574e682a9a117a2a45f93cbaf80c2d6c6f7c5176ef402c9"
    other = History(deliveries=[replace(asked, part=1)], events=FIXED.events)
    assert history_hash(other) != history_hash(one)


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_digests_fit_the_column_and_tell_payloads_apart(one: bytes, other: bytes) -> None:
    assert -(2**63) <= digest(one) < 2**63
    assert (digest(one) == digest(other)) == (one == other)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(seed: int, rng: random.Random) -> None:
    history = any_history(seed)
    before = history_hash(history)
    for rows in (history.deliveries, history.events, history.sent, history.groups):
        rng.shuffle(rows)
    assert history_hash(history) == before


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 100_000), st.data())
def test_every_field_of_every_delivery_matters(seed: int, data: st.DataObject) -> None:
    history = right_history(random.Random(seed))
    if not history.deliveries:
        return
    before = history_hash(history)
    at = data.draw(st.integers(0, len(history.deliveries) - 1))
    row = history.deliveries[at]
    for name in row.__struct_fields__:
        value = getattr(row, name)
        other: object = {"order_key": b"k", "run": "r", "client": "c", "request": 10**6}.get(name)
        other = other or (f"{value}x" if isinstance(value, str) else 10**6)
        history.deliveries[at] = replace(row, **{name: other})
        assert history_hash(history) != before
    history.deliveries[at] = row
    assert history_hash(history) == before


def test_a_row_that_is_there_twice_counts_twice() -> None:
    twice = History(deliveries=FIXED.deliveries * 2, events=FIXED.events)
    assert history_hash(twice) != history_hash(FIXED)


def test_meta_does_not_count() -> None:
    other = History(deliveries=FIXED.deliveries, events=FIXED.events, meta=Meta(seed=9))
    assert history_hash(other) == history_hash(FIXED)


HASH = """
import random
from ordercast.history.digest import history_hash
from support.cases.fuzz import right_history
print(history_hash(right_history(random.Random(11))))
"""


def test_the_hash_is_the_same_in_every_process() -> None:
    wanted = history_hash(right_history(random.Random(11)))
    assert set(under_hash_seeds("-c", HASH)) == {f"{wanted}\n"}


def test_a_gap_names_its_message() -> None:
    message = MessageId("a", 2, "alpha", 17)
    gap = Event("b", 1, "gap", 3, 1, 1, 0, gap_detail(message))
    assert gap_message(gap) == message
    assert gap.detail == '{"message":["a",2,"alpha",17]}'
