"""The report of all checks: its JSON, sums over runs, what it cannot finish, what it refuses."""

import json
import random

import pytest
from msgspec.structs import replace

from ordercast.check import acyclic_order
from ordercast.check.acyclic_order import check_acyclic_order
from ordercast.check.report import check_history
from ordercast.check.verdict import Verdict, combine
from ordercast.check.view import View
from ordercast.history.rows import Delivered, Event, GroupRow, History, Sent
from ordercast.model.errors import ConfigError
from support.cases.fuzz import named, right_history, together
from support.cases.known import known_cases

CONTRACT_KEYS = [
    "ok",
    "rows",
    "sites",
    "messages",
    "runs",
    "seconds",
    "checks",
    "informative",
    "truncated",
    "witnesses",
]
CHECKS = [
    "integrity",
    "agreement",
    "lost",
    "fifo",
    "pairwise_order",
    "acyclic_order",
    "positions",
    "resent",
]


def case(file: str, title: str) -> History:
    return next(case.history for case in known_cases(file) if title in case.title)


def ring(size: int) -> History:
    """Each site shares a message with the next one, and has it before that of the last."""
    history = History()
    for i in range(size):
        group, after = f"g{i:04}", (i + 1) % size
        history.groups += [GroupRow(1, group, f"s{i:04}"), GroupRow(1, group, f"s{after:04}")]
        history.sent.append(Sent(f"o{i}", 1, group, 1, 0, 0, i, 1))
        history.deliveries.append(Delivered(f"s{i:04}", 1, 1, 1, group, f"o{i}", 1, 1, 0))
        history.deliveries.append(Delivered(f"s{after:04}", 2, 1, 1, group, f"o{i}", 1, 1, 0))
    return history


def test_the_json_has_the_keys_of_the_contract_in_their_order() -> None:
    found = check_history(case("pairwise_order", "Figure 1")).as_json()
    assert list(found) == CONTRACT_KEYS
    assert list(found["checks"]) == CHECKS
    assert list(found["informative"]) == ["pending", "unagreed", "annulled"]
    assert list(check_history(History(), causal=True).checks) == [*CHECKS, "causal_order"]
    assert json.loads(json.dumps(found)) == found
    assert not found["ok"]
    assert (found["rows"], found["sites"], found["messages"], found["runs"]) == (8, 8, 2, 1)


def test_an_empty_history_is_in_order() -> None:
    report = check_history(History(), causal=True)
    assert report.ok
    assert (report.rows, report.sites, report.messages, report.runs) == (0, 0, 0, 1)


def test_annulled_rows_count_nowhere_else() -> None:
    found = check_history(case("integrity", "a repeat across a restart")).as_json()
    assert found["rows"] == 5
    assert found["informative"]["annulled"] == 1


def test_a_run_is_named_in_its_witness() -> None:
    good = named(case("pairwise_order", "in one order"), "first")
    bad = named(case("pairwise_order", "Figure 1"), "second")
    found = check_history(together([good, bad])).as_json()
    assert found["runs"] == 2
    assert found["witnesses"]["pairwise_order"]["run"] == "second"


def test_the_smallest_witness_of_all_runs_is_shown() -> None:
    four = named(case("acyclic_order", "a ring of four"), "one")
    three = named(case("acyclic_order", "a ring of three"), "two")
    witness = check_history(together([four, three])).as_json()["witnesses"]["acyclic_order"]
    assert witness["run"] == "two"
    assert len(witness["messages"]) == 3


def test_the_same_message_in_two_runs_is_two_messages() -> None:
    one = case("pairwise_order", "in one order")
    report = check_history(together([named(one, "r1"), named(one, "r2")]))
    assert report.ok
    assert report.messages == 2 * check_history(one).messages


def test_groups_and_epochs_without_a_run_hold_for_every_run() -> None:
    one = case("excuses", "is not checked for order")
    whole = together([named(one, "r1"), named(one, "r2")])
    whole.groups = one.groups
    whole.epochs = one.epochs
    report = check_history(whole)
    assert report.ok
    assert report.runs == 2
    assert report.unagreed == 2 * check_history(one).unagreed


def test_a_stopped_search_for_the_shortest_cycle_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(ring(60))
    whole = check_acyclic_order(view)
    assert (whole.count, whole.truncated) == (60, False)
    monkeypatch.setattr(acyclic_order, "MAX_LOOKED", 100)
    stopped = check_acyclic_order(view)
    assert (stopped.count, stopped.truncated) == (60, True)
    assert whole.witness is not None
    assert stopped.witness is not None
    assert len(whole.witness["messages"]) == len(stopped.witness["messages"]) == 60
    total = combine([("a", Verdict("acyclic_order", 0)), ("b", stopped)])
    assert total.truncated


def test_a_long_ring_does_not_exhaust_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acyclic_order, "MAX_LOOKED", 1)
    assert check_acyclic_order(View(ring(5_000))).count == 5_000


def test_a_large_tangle_is_judged_without_comparing_all_pairs() -> None:
    """20,000 messages at two sites, one of them last at one and first at the other."""
    order = list(range(20_000))
    history = History(groups=[GroupRow(1, "g", "a"), GroupRow(1, "g", "b")])
    history.sent = [Sent(f"o{i}", 1, "g", 1, 0, 0, i, 1) for i in order]
    for site, own in (("a", order), ("b", [*order[1:], 0])):
        history.deliveries += [
            Delivered(site, at, 1, 1, "g", f"o{i}", 1, 1, 0) for at, i in enumerate(own, 1)
        ]
    report = check_history(history)
    assert report.checks["pairwise_order"] == 1
    assert report.checks["acyclic_order"] == 20_000
    assert report.seconds < 15  # comparing all pairs takes minutes


def test_an_unknown_kind_of_event_is_refused_with_the_nearest_one() -> None:
    history = History(events=[Event("a", 1, "rolback", 0, 1, 1, 0)])
    with pytest.raises(ConfigError, match=r"'rolback' is not a kind.*did you mean 'rollback'"):
        check_history(history)


@pytest.mark.parametrize(
    "detail", ["{}", "nothing", '{"message": ["a", 1]}', '{"message": 5}', "[]"]
)
def test_a_gap_that_names_no_message_is_refused(detail: str) -> None:
    history = History(events=[Event("a", 3, "gap", 1, 1, 1, 0, detail)])
    with pytest.raises(ConfigError, match=r"gap 3 of site 'a': field 'detail'"):
        check_history(history)


def asked(*runs: str | None) -> History:
    """In each run one message, for which the same client asked with the same request."""
    asked_for = {"client": "ab" * 16, "request": 4, "part": 0}
    history = History(groups=[GroupRow(1, "g", "a")])
    for seq, run in enumerate(runs, 1):
        sent = Sent("o", 1, "g", seq, 0, 0, seq, 1, None, run)
        row = Delivered("a", runs[:seq].count(run), 1, 1, "g", "o", 1, seq, 0, run=run)
        history.sent.append(replace(sent, **asked_for))
        history.deliveries.append(replace(row, **asked_for))
    return history


def test_a_request_is_its_own_in_every_run() -> None:
    assert check_history(asked("one", "two", "three")).ok
    assert check_history(asked(None, "two")).ok
    found = check_history(asked("one", "two", "two", "one")).as_json()
    assert found["checks"]["resent"] == 2
    assert found["witnesses"]["resent"] == {
        "run": "one",
        "client": "ab" * 16,
        "request": 4,
        "part": 0,
        "messages": [["o", 1, "g", 1], ["o", 1, "g", 4]],
        "site": "a",
        "positions": [1, 2],
    }


@pytest.mark.parametrize("field", ["request", "part"])
def test_a_client_without_a_request_is_refused(field: str) -> None:
    history = asked("one")
    history.sent[0] = replace(history.sent[0], **{field: None})
    with pytest.raises(ConfigError, match=rf"sent: field '{field}': null in some row that names"):
        check_history(history)
    history.sent[0] = replace(history.sent[0], client=None)  # then nothing is said of a request
    assert check_history(history).ok


def test_requests_of_an_id_that_was_sent_twice_all_count() -> None:
    history = asked("one")
    again = [replace(history.sent[0], request=5), replace(history.sent[0], seq=2, request=5)]
    history.sent += again
    assert check_history(history).checks["resent"] == 1


def test_a_message_sent_twice_matches_either_digest() -> None:
    history = right_history(random.Random(3))
    again = [replace(sent, digest=-5) for sent in history.sent]
    history.sent += again
    assert check_history(history).ok
    history.deliveries[0] = replace(history.deliveries[0], digest=-6)
    assert check_history(history).checks["integrity"] == 1
