"""The checkers and the brute-force oracle agree on fuzzed histories, and on any shuffle of them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.check.report import check_history
from ordercast.history.rows import History
from support.cases.faults import FAULTS, Fault, any_history, broken_history
from support.cases.fuzz import named, right_history, together
from support.judges.oracle import judge
from support.judges.witnesses import complaints

HISTORIES = 1_200
BLOCK = 300
JUDGED = ("rows", "sites", "messages", "runs", "checks", "informative")


def verdict(history: History) -> dict[str, object]:
    """What the oracle gives too; it also looks at the witnesses."""
    found = check_history(history, causal=True).as_json()
    assert complaints(history, found) == []
    return {key: found[key] for key in JUDGED}


@pytest.mark.parametrize("start", range(0, HISTORIES, BLOCK))
def test_checkers_and_oracle_agree(start: int) -> None:
    for seed in range(start, start + BLOCK):
        history = any_history(seed)
        assert verdict(history) == judge(history), f"any_history({seed})"


def test_a_right_history_is_never_blamed() -> None:
    for seed in range(1_000):
        report = check_history(right_history(random.Random(seed)), causal=True)
        assert report.ok, f"right_history({seed}): {report.as_json()['witnesses']}"


def test_the_fuzzer_makes_everything_that_is_no_violation() -> None:
    kinds: set[str] = set()
    informative = dict.fromkeys(("pending", "unagreed", "annulled"), 0)
    for seed in range(300):
        history = right_history(random.Random(seed))
        kinds.update(event.kind for event in history.events)
        for name, count in check_history(history).as_json()["informative"].items():
            informative[name] += count
    assert kinds == {"base", "crash", "rollback", "excluded", "returned", "gap", "end"}
    assert all(informative.values())


# A fault need not be visible in every history it is planted in; it must be in some.
SHOWS_IN = {
    "duplicate": "integrity",
    "hole": "positions",
    "skip": "agreement",
    "swap": "pairwise_order",
    "swap_neighbours": "pairwise_order",
    "late": "pairwise_order",
    "ring": "acyclic_order",
    "foreign": "integrity",
    "wrong_epoch": "integrity",
    "wrong_digest": "integrity",
    "vanish": "lost",
    "unsent": "integrity",
    "short_rollback": "positions",
    "forgotten_event": "positions",
    "misplaced_base": "positions",
    "wrong_gap": "agreement",
    "false_end": "agreement",
    "knew_more": "causal_order",
    "resent": "resent",
    "resent_elsewhere": "resent",
    "resent_unplaced": "resent",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_planted_fault_shows_in_its_check(fault: Fault) -> None:
    check = SHOWS_IN[fault.__name__]
    shown = 0
    for seed in range(150):
        rng = random.Random(seed)
        history = right_history(rng)
        if fault(rng, history):
            shown += check_history(history, causal=True).checks[check] > 0
    assert shown >= 3


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000), st.randoms(use_true_random=False))
def test_the_order_of_rows_in_the_tables_does_not_matter(seed: int, rng: random.Random) -> None:
    history = any_history(seed)
    before = _without_time(check_history(history, causal=True).as_json())
    for rows in (
        history.groups,
        history.sent,
        history.deliveries,
        history.events,
        history.epochs,
    ):
        rng.shuffle(rows)
    assert _without_time(check_history(history, causal=True).as_json()) == before


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=4, unique=True))
def test_runs_are_judged_each_by_itself_and_summed(seeds: list[int]) -> None:
    alone = [any_history(seed) for seed in seeds]
    whole = together(named(one, f"run{i}") for i, one in enumerate(alone))
    report = check_history(whole, causal=True)
    assert report.runs == len(seeds)
    for name, count in report.checks.items():
        assert count == sum(check_history(one, causal=True).checks[name] for one in alone)
    assert verdict(whole) == judge(whole)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_dropping_a_site_never_adds_to_the_order_checks(seed: int) -> None:
    history, _ = broken_history(random.Random(seed))
    before = check_history(history).checks
    for site in sorted({row.site for row in history.deliveries}):
        less = History(
            groups=history.groups,
            sent=history.sent,
            deliveries=[row for row in history.deliveries if row.site != site],
            events=history.events,
            epochs=history.epochs,
        )
        after = check_history(less).checks
        assert after["pairwise_order"] <= before["pairwise_order"]
        assert after["acyclic_order"] <= before["acyclic_order"]
        assert after["fifo"] <= before["fifo"]


def _without_time(found: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in found.items() if key != "seconds"}
