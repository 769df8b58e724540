"""What the audit holds at a time, and where its search for a shortest cycle ends."""

from collections import Counter

import pytest

from ordercast.check.report import check_history
from ordercast.history.rows import History
from ordercast.pipeline.audits import by_part, steps
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.numbers import Columns
from ordercast.pipeline.audits.tasks import JudgingTask
from support.cases.large import move, ring_of_four, steady, wide_ring
from support.judges.parts import Audited, audit_in_loop, cuts_after

MESSAGES = 2_000
PARTS = 10


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were in each part that was judged."""
    seen: list[int] = []
    judge = JudgingTask.judge_part

    def watched(task: JudgingTask, columns: Columns) -> Evidence:
        seen.append(len(columns["site"]))
        return judge(task, columns)

    monkeypatch.setattr(JudgingTask, "judge_part", watched)
    return seen


def true_cuts(history: History) -> list[list[int]]:
    """By site, where a history in order is cut after every so many messages."""
    after: dict[str, list[int]] = {}
    position: Counter[str] = Counter()
    size = MESSAGES // PARTS
    for row in history.deliveries:  # in the order in which they were made
        cut = row.delivered_ns // size
        after.setdefault(row.site, [0] * PARTS)
        position[row.site] += 1
        after[row.site][cut] = position[row.site]
    return [own[:-1] for _, own in sorted(after.items())]


def audited(history: History, after: list[list[int]]) -> Audited:
    return audit_in_loop(history, where=cuts_after(after), causal=False)


def test_a_very_late_message_does_not_make_parts_larger(largest: list[int]) -> None:
    """It crosses every cut; parts are contracted, not merged."""
    history = steady(MESSAGES)
    after = true_cuts(history)
    assert audited(history, after).report["ok"]
    alone = max(largest)
    assert alone < 2 * len(history.deliveries) // PARTS
    largest.clear()
    move(history, "s2", 20, 980)
    found = audited(history, after)
    assert found.outcome.task.cuts.parts == PARTS
    assert max(largest) <= alone + 1
    expected = check_history(history)
    assert found.report["checks"] == expected.checks
    assert found.report["checks"]["acyclic_order"] > MESSAGES // 2


def test_many_late_messages_cost_a_cut_only_where_they_cross_it(
    largest: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "MOST_OVER", 3)
    history = steady(MESSAGES)
    after = true_cuts(history)
    for source in (20, 30, 40, 50):
        move(history, "s2", source, 190)
    found = audited(history, after)
    assert 5 < found.outcome.task.cuts.parts < PARTS
    assert max(largest) < len(history.deliveries) // 2
    assert found.report["checks"] == check_history(history).checks


@pytest.mark.parametrize("cuts", [0, 3])
def test_a_search_that_is_cut_short_is_named_and_counts_stay_exact(
    cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = ring_of_four(20)
    whole = audit_in_loop(history, cuts=cuts).report
    assert (whole["truncated"], whole["checks"]["acyclic_order"]) == ([], 80)
    assert len(whole["witnesses"]["acyclic_order"]["messages"]) == 4
    for module in (by_part, steps):
        monkeypatch.setattr(module, "MOST_LOOKED", 100)
    stopped = audit_in_loop(history, cuts=cuts).report
    assert stopped["truncated"] == ["acyclic_order"]
    assert stopped["checks"] == whole["checks"]
    assert not stopped["ok"]
    assert len(stopped["witnesses"]["acyclic_order"]["messages"]) >= 4


def test_a_tangle_too_large_to_show_is_named_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    history = ring_of_four(20)
    monkeypatch.setattr(by_part, "MOST_KNOT_ROWS", 5)
    found = audit_in_loop(history, cuts=3).report
    assert found["truncated"] == ["acyclic_order"]
    assert found["checks"]["acyclic_order"] == 80


def test_three_is_the_least_there_is_so_a_ring_of_three_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (by_part, steps):
        monkeypatch.setattr(module, "MOST_LOOKED", 0)
    found = audit_in_loop(wide_ring(60), cuts=2).report
    assert found["truncated"] == []
    assert len(found["witnesses"]["acyclic_order"]["messages"]) == 3
