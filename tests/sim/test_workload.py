"""The workload: reproducible, drawn by rate, independent of everything else."""

from collections import Counter

import pytest

from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.workload import Replies, Submission, horizon, payload_of, submissions

TABLE = GroupTable.of(
    {"g": ["a", "b", "c"], "h": ["c", "d"], "x": ["y", "z"]},
    sites=[*"abcdyz", "outside"],
    rates={"g": 3.0, "h": 1.0, "x": 0.0},
)


def drawn(config: SimConfig, seed: int = 1) -> list[Submission]:
    return list(submissions(config, seed))


def test_as_many_messages_as_asked_for_in_order_of_time() -> None:
    plan = drawn(SimConfig(TABLE, messages=501, batch=4))
    assert sum(len(submission.sizes) for submission in plan) == 501
    assert [s.at for s in plan] == sorted(s.at for s in plan)
    numbers = [s.number + place for s in plan for place in range(len(s.sizes))]
    assert numbers == list(range(1, 502))
    assert {len(s.sizes) for s in plan} == {1, 2, 3, 4}


def test_groups_are_drawn_by_rate_and_origins_from_the_whole_roster() -> None:
    plan = drawn(SimConfig(TABLE, messages=4000))
    share = Counter(s.group for s in plan)
    assert share["x"] == 0
    assert 2800 < share["g"] < 3200
    assert set(Counter(s.origin for s in plan)) == set(TABLE.sites)


def test_origins_can_be_a_number_or_names() -> None:
    few = SimConfig(TABLE, messages=200, origins=2)
    assert len({s.origin for s in drawn(few)}) == 2
    assert {s.origin for s in drawn(few)} != {s.origin for s in drawn(few, seed=2)}
    assert {s.origin for s in drawn(SimConfig(TABLE, messages=200, origins=("outside",)))} == {
        "outside"
    }


def test_the_rate_is_kept_on_average_also_in_batches() -> None:
    for batch in (1, 5):
        config = SimConfig(TABLE, messages=5000, rate=1000.0, batch=batch)
        assert drawn(config)[-1].at == pytest.approx(horizon(config), rel=0.1)
        assert horizon(config) == 5_000_000_000


def test_implicit_groups_stay_within_one_domain() -> None:
    domains = (set("abcd"), set("yz"))
    plan = drawn(SimConfig(TABLE, messages=500, implicit=0.5))
    listed = [set(s.members) for s in plan if s.members]
    assert 200 < len(listed) < 300
    assert all(any(members <= domain for domain in domains) for members in listed)
    assert all(s.group == "" for s in plan if s.members)


def test_faults_do_not_shift_the_workload() -> None:
    plain = SimConfig(TABLE, messages=100)
    faulty = SimConfig(TABLE, messages=100, faults=(Fault("loss", probability=0.5),))
    assert drawn(plain) == drawn(faulty)


def test_payloads_differ_and_have_their_size() -> None:
    sizes = [0, 1, 8, 9, 64, 700]
    assert [len(payload_of(5, size)) for size in sizes] == sizes
    assert len({payload_of(number, 8) for number in range(1000)}) == 1000


def test_answers_are_taken_from_the_messages_and_have_numbers_of_their_own() -> None:
    config = SimConfig(TABLE, messages=100, replies=0.4)
    assert sum(len(s.sizes) for s in drawn(config)) == 60
    replies = Replies(config, 1)
    made = [answer for _ in range(300) if (answer := replies.answer(7, "b"))]
    assert [answer.number for answer in made] == list(range(61, 101))
    assert {(answer.at, answer.origin) for answer in made} == {(7, "b")}
    assert len({answer.group for answer in made}) == 2


def test_about_every_other_delivery_is_answered() -> None:
    replies = Replies(SimConfig(TABLE, messages=1000, replies=1.0), 1)
    assert 400 < sum(replies.answer(0, "a") is not None for _ in range(1000)) < 600
