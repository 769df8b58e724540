"""The live audit beside the checkers of whole histories: after every portion the same verdict."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from ordercast.check.live import LiveAudit
from ordercast.check.report import check_history
from ordercast.history.rows import Delivered, Event, GroupRow, History, Sent
from ordercast.model.errors import ConfigError
from support.cases.faults import any_history, broken_history
from support.cases.fuzz import noise, right_history
from support.cases.portions import anyhow, in_order, joined
from support.judges.live import Followed, count_portions, follow_portions

HISTORIES = 200  # as many as one likes in the soak campaign `live_audit`


@pytest.mark.parametrize("start", range(0, HISTORIES, 50))
def test_a_right_history_has_the_same_verdict_after_every_portion(start: int) -> None:
    for seed in range(start, start + 50):
        rng = random.Random(seed)
        found = follow_portions(rng, in_order(rng, right_history(rng)))
        assert found == Followed(), f"seed {seed}"


@pytest.mark.parametrize("portions", [in_order, anyhow])
def test_any_history_has_the_same_verdict_or_says_that_it_may_not(portions: Any) -> None:
    exact = 0
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        found = follow_portions(rng, portions(rng, any_history(seed)))
        assert found.wrong == [], f"seed {seed}"
        exact += not found.inexact
    assert exact > 0.93 * HISTORIES


@pytest.mark.parametrize("portions", [in_order, anyhow])
def test_without_patience_counts_are_right_or_said_to_be_inexact(portions: Any) -> None:
    """Also after some of them were said to be inexact: those that were not are right."""
    inexact = 0
    for seed in (*range(HISTORIES), 828, 1_366):  # a base among repeats; a rollback of one of two
        rng = random.Random(seed)
        found = count_portions(rng, portions(rng, any_history(seed)))
        assert found.wrong == [], f"seed {seed}"
        inexact += found.inexact
    assert inexact > 0.1 * HISTORIES


def test_every_violation_is_exact_as_long_as_it_is_in_the_window() -> None:
    """One portion: nothing is condensed before all is there."""
    for seed in range(100):
        rng = random.Random(seed)
        history = rng.choice((noise, lambda r: broken_history(r)[0]))(rng)
        assert follow_portions(rng, [history]) == Followed(), f"seed {seed}"


def site_rows(site: str, messages: Sequence[tuple[str, int]], start: int = 1) -> list[Delivered]:
    return [
        Delivered(site, position, 1, 1, "g", origin, 1, seq, position)
        for position, (origin, seq) in enumerate(messages, start)
    ]


def sends(messages: Sequence[tuple[str, int]]) -> list[Sent]:
    return [Sent(origin, 1, "g", seq, 0, 0, 0, 8) for origin, seq in messages]


def group(*sites: str) -> list[GroupRow]:
    return [GroupRow(1, "g", site) for site in sites]


def run_of(first: int, last: int) -> list[tuple[str, int]]:
    return [("a", seq) for seq in range(first, last + 1)]


def test_the_state_does_not_grow_with_a_history_in_order() -> None:
    live = LiveAudit()
    live.add(History(groups=group("a", "b", "c")))
    sizes = []
    for first in range(1, 4_001, 40):
        messages = run_of(first, first + 39)
        rows = [row for site in "abc" for row in site_rows(site, messages, first)]
        report = live.add(History(sent=sends(messages), deliveries=rows))
        assert report.ok
        assert live.held == 0
        sizes.append(len(live.snapshot()))
    assert report.rows == 12_000
    assert report.messages == 4_000
    assert max(sizes) - min(sizes) < 50  # the numbers themselves


def test_an_absent_site_holds_the_window_and_is_named() -> None:
    live = LiveAudit()
    messages = run_of(1, 50)
    rows = [*site_rows("a", messages), *site_rows("b", messages)]
    live.add(History(groups=group("a", "b", "c"), sent=sends(messages), deliveries=rows))
    assert [(one.site, one.messages, one.first) for one in live.holding] == [
        ("c", 50, ("a", 1, "g", 1))
    ]
    assert live.held == 150
    report = live.add(History(deliveries=site_rows("c", messages)))
    assert report.ok
    assert report.as_json()["informative"]["pending"] == 0
    assert live.held == 0
    assert live.holding == []


def test_an_absent_site_holds_at_most_the_window_and_then_the_verdict_says_so() -> None:
    live = LiveAudit(window=100)
    messages = run_of(1, 50)
    rows = [*site_rows("a", messages), *site_rows("b", messages)]
    live.add(History(groups=group("a", "b", "c"), sent=sends(messages), deliveries=rows))
    assert live.held == 0
    report = live.add(History())
    assert report.ok
    assert report.as_json()["informative"]["pending"] == 50
    assert report.as_json()["truncated"] == [
        "integrity", "agreement", "pairwise_order", "acyclic_order",
    ]  # fmt: skip


def swapped(messages: list[tuple[str, int]], at: int) -> list[tuple[str, int]]:
    return [*messages[:at], messages[at + 1], messages[at], *messages[at + 2 :]]


def test_violations_are_counted_for_ever_when_patience_ends() -> None:
    """The window is small again, and the verdict is that of the whole history."""
    live = LiveAudit(patience=200)
    live.add(History(groups=group("a", "b", "c")))
    portions: list[History] = [History(groups=group("a", "b", "c"))]
    for first in range(1, 1_001, 20):
        messages = run_of(first, first + 19)
        rows = [row for site in "ab" for row in site_rows(site, messages, first)]
        wrong = swapped(messages, 5) if first in (41, 641) else messages
        rows += site_rows("c", wrong, first)
        portions.append(History(sent=sends(messages), deliveries=rows))
        report = live.add(portions[-1])
        found, expected = report.as_json(), check_history(joined(portions)).as_json()
        del found["seconds"], expected["seconds"]
        assert found == expected
        assert live.held <= 200 + 80
    assert report.checks["pairwise_order"] == 2
    assert report.checks["acyclic_order"] == 4


def test_a_repeat_long_after_is_counted_and_shown() -> None:
    live = LiveAudit()
    messages = run_of(1, 100)
    rows = [row for site in "ab" for row in site_rows(site, messages)]
    portions = [History(groups=group("a", "b"), sent=sends(messages), deliveries=rows)]
    portions.append(History(deliveries=site_rows("b", [("a", 3)], 101)))
    for portion in portions:
        report = live.add(portion)
    assert report.checks["integrity"] == report.checks["fifo"] == 1
    expected = check_history(joined(portions)).as_json()
    assert report.as_json()["witnesses"] == expected["witnesses"]
    assert report.as_json()["truncated"] == []


def test_a_first_delivery_after_the_condense_is_said_to_be_unjudged() -> None:
    """By a site that is no member: what it should be compared with is gone."""
    live = LiveAudit()
    messages = run_of(1, 10)
    rows = [row for site in "ab" for row in site_rows(site, messages)]
    live.add(History(groups=group("a", "b"), sent=sends(messages), deliveries=rows))
    report = live.add(History(deliveries=site_rows("c", [("a", 3)])))
    assert report.checks["integrity"] == 1
    assert "acyclic_order" in report.as_json()["truncated"]


def test_requests_are_remembered_after_their_messages_are_condensed() -> None:
    asked = {"client": "c1", "request": 7, "part": 0}
    live = LiveAudit()
    for seq in (1, 2):
        sent = [msgspec.structs.replace(row, **asked) for row in sends([("a", seq)])]
        rows = [row for site in "ab" for row in site_rows(site, [("a", seq)], seq)]
        groups = group("a", "b") if seq == 1 else []
        report = live.add(History(groups=groups, sent=sent, deliveries=rows))
    assert report.checks["resent"] == 1
    shown = report.as_json()["witnesses"]["resent"]
    assert shown == {**asked, "messages": [["a", 1, "g", 1], ["a", 1, "g", 2]]}


def test_a_send_that_comes_after_its_message_is_condensed_still_counts_as_resent() -> None:
    """No patience: what nobody sent is condensed. Its send, when it comes, is of a request that
    another message has, too."""
    asked = {"client": "c1", "request": 7, "part": 0}
    live = LiveAudit(patience=0)
    live.add(History(groups=group("a"), deliveries=site_rows("a", [("a", 1)])))
    assert live.held == 0
    late = [msgspec.structs.replace(row, **asked) for row in sends([("a", 1), ("a", 2)])]
    assert live.add(History(sent=late)).checks["resent"] == 1
    assert live.add(History(deliveries=site_rows("a", [("a", 2)], 2))).checks["resent"] == 1
    report = live.add(History())
    assert report.checks["resent"] == 1
    assert report.as_json()["witnesses"]["resent"]["messages"] == [
        ["a", 1, "g", 1], ["a", 1, "g", 2],
    ]  # fmt: skip


def test_a_late_row_without_patience_makes_agreement_inexact() -> None:
    """It is below rows that are condensed, and what a site lacks may be due again."""
    live = LiveAudit(patience=0)
    first, later = site_rows("a", run_of(1, 1), 1), site_rows("a", run_of(2, 2), 2)
    live.add(History(groups=group("a"), deliveries=later))
    assert live.held == 0
    assert "agreement" in live.add(History(deliveries=first)).as_json()["truncated"]


def test_a_row_at_a_position_that_is_condensed_makes_the_order_inexact() -> None:
    """Only the clock says which of the two came first."""
    live = LiveAudit()
    both = [*run_of(1, 1), ("b", 1)]
    live.add(History(groups=group("a", "b"), sent=sends(both), deliveries=site_rows("a", both)))
    live.add(History(deliveries=site_rows("b", both[:1])))
    report = live.add(History(deliveries=site_rows("b", both[1:])))
    assert report.checks["positions"] == 1
    assert {"fifo", "pairwise_order", "acyclic_order"} <= {*report.as_json()["truncated"]}


def test_a_rollback_of_what_is_condensed_asks_for_the_history_to_be_read_again() -> None:
    live = LiveAudit()
    messages = run_of(1, 5)
    live.add(History(groups=group("a"), sent=sends(messages), deliveries=site_rows("a", messages)))
    assert not live.contradicted
    live.add(History(events=[Event("a", 1, "rollback", 3, 2, 2, 0)]))
    assert live.contradicted


def test_a_run_is_refused_and_a_bad_snapshot_too() -> None:
    row = GroupRow(1, "g", "a", True, "r1")
    with pytest.raises(ConfigError, match="groups: run 'r1': a history that is followed has no"):
        LiveAudit().add(History(groups=[row]))
    with pytest.raises(ConfigError, match="not the state of a live audit"):
        LiveAudit.restore(b"xx")
