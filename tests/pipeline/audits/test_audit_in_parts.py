"""The audit's own steps, without Spark, against the checkers in memory.

Cuts are put anywhere: nearly every message crosses one, every border is in a bad place, and the
verdict must be the same.
"""

import random
from collections import Counter

import pytest

from ordercast.pipeline.audits import steps
from support.cases.faults import FAULTS, Fault, any_history, broken_history
from support.cases.fuzz import right_history
from support.cases.known import DATA, Case, known_cases
from support.judges.both_engines import AT_ONCE, JUDGED, agree, disagreements, in_memory
from support.judges.parts import audit_in_loop
from support.judges.witnesses import complaints

HISTORIES = 480  # as many as one likes in the soak campaign `audits`
BLOCK = 120


@pytest.fixture(autouse=True)
def cuts_that_many_messages_cross(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_OVER", 1_000_000)


@pytest.mark.parametrize("start", range(0, HISTORIES, BLOCK))
def test_both_engines_agree_wherever_the_cuts_are(start: int) -> None:
    for seed in range(start, start + BLOCK, AT_ONCE):
        assert disagreements(seed) == []


def test_500_histories_hold_every_fault_and_every_event_that_is_none() -> None:
    """The first seeds, which are also those of the job on Spark."""
    planted: Counter[str] = Counter()
    innocent: Counter[str] = Counter()
    for seed in range(500):
        rng = random.Random(seed)
        kind = rng.randrange(4)
        if kind == 0:
            innocent.update({event.kind for event in right_history(rng).events})
        elif kind > 1:
            planted.update(broken_history(rng)[1])
    assert min(planted[fault.__name__] for fault in FAULTS) >= 4
    kinds = ("crash", "rollback", "excluded", "returned", "base", "gap", "end")
    assert min(innocent[kind] for kind in kinds) >= 10


CASES = [
    pytest.param(case, id=f"{path.stem}: {case.title}")
    for path in sorted(DATA.glob("*.txt"))
    for case in known_cases(path.stem)
]


@pytest.mark.parametrize("case", CASES)
def test_each_known_history_gets_its_verdict(case: Case) -> None:
    found = audit_in_loop(case.history, cuts=1).report
    counts = {**found["checks"], **found["informative"]}
    assert counts == {**dict.fromkeys(counts, 0), **case.expected}
    assert complaints(case.history, found) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_planted_fault_is_judged_alike(fault: Fault) -> None:
    planted = 0
    for seed in range(40):
        rng = random.Random(seed)
        history = right_history(rng)
        if fault(rng, history):
            planted += 1
            assert agree(history, rng), f"seed {seed}"
    assert planted >= 5


def test_a_right_history_without_cuts_needs_one_pass_unless_a_member_stopped_early() -> None:
    for seed in range(60):
        history = right_history(random.Random(seed))
        audited = audit_in_loop(history)
        assert audited.report["ok"]
        open_pairs = audited.outcome.task.known is not None
        assert audited.work.passes == (3 if open_pairs else 1)


def test_rows_may_come_in_any_number_of_batches() -> None:
    for seed in range(60):
        history = any_history(seed)
        whole = audit_in_loop(history, cuts=2).report
        apart = audit_in_loop(history, cuts=2, shares=3, batches=3, request_shares=5).report
        assert apart == whole


def test_witnesses_of_requests_are_the_same_in_both_engines() -> None:
    shown = 0
    for seed in range(200):
        history = any_history(seed)
        found = audit_in_loop(history, shares=2, request_shares=3).report
        expected = in_memory(history)["witnesses"].get("resent")
        assert found["witnesses"].get("resent") == expected, f"seed {seed}"
        shown += expected is not None and "site" in expected
    assert shown >= 5


def test_a_cut_that_many_messages_cross_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOST_OVER", 0)
    for seed in range(60):
        history = any_history(seed)
        audited = audit_in_loop(history, cuts=3, rng=random.Random(seed))
        expected = in_memory(history)
        assert {key: audited.report[key] for key in JUDGED} == {k: expected[k] for k in JUDGED}
        assert len(audited.outcome.tangled_crossing) == 0
